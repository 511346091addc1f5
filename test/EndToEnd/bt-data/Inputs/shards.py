"""Writes good and bad shards into a folder for invalid.test."""
import os
import struct
import sys


def write(name, magic, version, count, tokens, code="H", cut=0, extra=b""):
    header = struct.pack("<iiI", magic, version, count).ljust(1024, b"\0")
    data = header + struct.pack(f"<{len(tokens)}{code}", *tokens) + extra
    with open(os.path.join(sys.argv[1], name + ".bin"), "wb") as file:
        file.write(data[: len(data) - cut])


GPT2, LLAMA, MODEL = 20240520, 20240801, 20240326
write("good", GPT2, 1, 3, [1, 2, 3])
write("short", GPT2, 1, 3, [], cut=924)
write("magic", 7, 1, 3, [1, 2, 3])
write("model", MODEL, 3, 3, [1, 2, 3])
write("version", GPT2, 2, 3, [1, 2, 3])
write("truncated", GPT2, 1, 3, [1, 2, 3], cut=1)
write("oversized", GPT2, 1, 3, [1, 2, 3], extra=b"\0")
write("unsigned", GPT2, 1, 2**32 - 1, [1, 2, 3])
write("llama", LLAMA, 7, 3, [1, 2, 128000], code="I")
write("wide", GPT2, 1, 3, [1, 2, 50256])
write("single", GPT2, 1, 1, [1])
write("empty", GPT2, 1, 0, [])
