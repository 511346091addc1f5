"""Compares tokenizer files with what the libraries say of each token."""
import os
import struct
import sys

from tokenizers import Tokenizer


def read(name):
    with open(os.path.join(sys.argv[1], name), "rb") as file:
        data = file.read()
    magic, version, count, end = struct.unpack_from("<4I", data)
    assert (magic, version) == (20240328, 2)
    tokens, at = [], 1024
    for _ in range(count):
        tokens.append(data[at + 1 : at + 1 + data[at]])
        at += 1 + data[at]
    assert at == len(data)
    return tokens, end


tokens, end = read("gpt2.tokens")
assert end == 50256 and tokens[end] == b"<|endoftext|>"
assert tokens[262] == b" the" and tokens[198] == b"\n" and tokens[0] == b"!"
assert len(set(tokens)) == 50257
print("checked", len(tokens))

tokenizer = Tokenizer.from_file(os.path.join(sys.argv[1], "own.json"))
tokens, end = read("own.tokens")
assert tokens[end] == b"<|endoftext|>"
text = "the cat's cät sat\n\ton the mat \x00"
assert b"".join(tokens[i] for i in tokenizer.encode(text).ids) == text.encode()
print("checked", len(tokens))
