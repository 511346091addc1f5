#!/usr/bin/env python3
"""Writes a few good files for each reader, for its fuzzer to start from.

usage: seeds.py DIR
"""
import gzip
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
scalar = {"\u00e9\n": {"dtype": "U8", "shape": [], "data_offsets": [0, 1]}}
text = json.dumps(scalar).encode() + b"  "
write("safetensors", "scalar", struct.pack("<Q", len(text)) + text + b"x")
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
manifest["history"] = [{"step": 3, "loss": 2.5, "grad_norm": 1e-3}]
manifest["files"]["optimizer.safetensors"] = {"header_xxh64": "0" * 16, "tensors": {}}
write("manifest", "two", json.dumps(manifest, indent=2).encode() + b"\n")
write("json", "manifest", json.dumps(manifest).encode())
write("json", "values", b'[1,-0.5e+3,true,false,null,"\\u00e9\\ud83d\\ude00\\n\xc3\xa9",{"":[]}]')
write("metrics", "two", b'{"step":0,"loss":5.5}\n{"step":1,"val_loss":4}\n')
write("metrics", "cut", b'{"loss":null,"step":0,"reserves":{"a":[1]}}\n{"step":1,"va')
write("options", "three", b"steps = 4\nlr = 1e-3\nname = 'x'\nquiet = true\n")
write("options", "values", b'# a\nname = """a\nb"""\nlr = [1, {a = 1979-05-27}]\nquiet = false\n')
config = {
    "model_type": "gpt2",
    "n_head": 2,
    "layer_norm_epsilon": 1e-5,
    "activation_function": "gelu_new",
    "tie_word_embeddings": True,
    "scale_attn_weights": True,
    "task_specific_params": {"text-generation": {"do_sample": True}},
}
write("folder", "gpt2", json.dumps(config, indent=2).encode())


def idx(dims, elements):
    return bytes([0, 0, 8, len(dims)]) + struct.pack(f">{len(dims)}I", *dims) + elements


for name, content in (
    ("images", idx([2, 2, 3], bytes(range(12)))),
    ("labels", idx([3], b"\x01\x02\x00")),
):
    write("images", name, content)
    write("packed", name, content)
    write("images", name + ".gz", gzip.compress(content, mtime=0))
write("images", "parts.gz", gzip.compress(content[:5], mtime=0) + gzip.compress(content[5:], mtime=0))
questions = []
for number, texts in enumerate((((5, 6), (7,), (8, 9), (1,), (2,)), ((3,), (4,), (5,), (6,), (7, 8)))):
    words = [65535, 0, number, number, 4]
    for text in texts:
        words += [len(text), *text]
    words[1] = 2 * len(words)
    questions.append(struct.pack(f"<{len(words)}H", *words))
write("hellaswag", "one", header(20240522, 1, 1, len(questions[0])) + questions[0])
write("hellaswag", "two", header(20240522, 1, 2, len(questions[1])) + b"".join(questions))
problem = {
    "compute": "f32",
    "epilogue": "none",
    "dtype_ab": "bf16",
    "dtype_c": "bf16",
    "trans_a": False,
    "trans_b": True,
    "accumulate": False,
    **dict.fromkeys(("batch", "m", "n", "k", "lda", "stride_a", "align_a"), 64),
}
tune = {
    "device": "GPU",
    "cublaslt": "13.0.2",
    "plan_hash": "00",
    "problems": [{"problem": problem, "algorithm": "0" * 128, "us": 1.5, "candidates": 3}],
}
write("tune", "one", json.dumps(tune, indent=1).encode() + b"\n")
