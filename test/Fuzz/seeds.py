#!/usr/bin/env python3
"""Writes a few good files for each reader, for its fuzzer to start from.

usage: seeds.py DIR
"""
import json
import os
import struct
import sys


def write(reader, name, content):
    folder = os.path.join(sys.argv[1], reader)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "wb") as file:
        file.write(content)


def header(*words):
    return struct.pack(f"<{len(words)}i", *words).ljust(1024, b"\0")


write("shard", "16", header(20240520, 1, 4) + struct.pack("<4H", 1, 2, 3, 50256))
write("shard", "32", header(20240801, 7, 3) + struct.pack("<3I", 1, 2, 128000))
write("tokenizer", "three", header(20240328, 2, 3, 2) + b"\x01a\x02ab\x00")
tensors = {
    "__metadata__": {"format": "pt"},
    "wte.weight": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]},
    "v": {"dtype": "BF16", "shape": [3], "data_offsets": [16, 22]},
}
text = json.dumps(tensors).encode()
content = struct.pack("<Q", len(text)) + text + bytes(22)
write("safetensors", "two", content)
write("weights", "two", content)
manifest = {
    "format": "blutrain-checkpoint",
    "version": 1,
    "step": 4,
    "tokens": 128,
    "data": {"position": 128, "tokens": 500, "digest": "00", "shuffle": False},
    "random": {"seed": 1},
    "program": dict.fromkeys(
        ("model", "target", "precision", "optimizer", "plan_hash", "tune_hash"), "x"
    ),
    "flags": {"lr": "0.1"},
    "files": {
        "weights.safetensors": {
            "header_xxh64": "0" * 16,
            "tensors": {"v": {"dtype": "F32", "shape": [2], "xxh64": "0" * 16}},
        }
    },
    "xxh64": "0" * 16,
}
write("manifest", "one", json.dumps(manifest, indent=2).encode() + b"\n")
write("metrics", "two", b'{"step":0,"loss":5.5}\n{"step":1,"val_loss":4}\n')
write("options", "three", b"steps = 4\nlr = 1e-3\nname = 'x'\nquiet = true\n")
