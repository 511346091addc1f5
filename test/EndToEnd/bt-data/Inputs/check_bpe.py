"""Compares shards with what tiktoken's own definition of GPT-2 says of the
documents of corpus.py: check_bpe.py FOLDER text|documents PREFIX."""
import glob
import json
import struct
import sys

import corpus
import tiktoken
from tiktoken_ext import openai_public

folder, kind, prefix = sys.argv[1:]
gpt2 = tiktoken.Encoding(
    name="gpt2",
    explicit_n_vocab=50257,
    pat_str=openai_public.r50k_pat_str,
    mergeable_ranks=corpus.ranks(),
    special_tokens={"<|endoftext|>": 50256},
)
with open(f"{folder}/texts.json") as file:
    texts = json.load(file)
if kind == "text":
    texts = ["".join(texts)]
expected = []
for text in texts:
    expected += [50256, *gpt2.encode_ordinary(text)]

got = []
shards = sorted(glob.glob(f"{prefix}_train_*.bin"))
shards += sorted(glob.glob(f"{prefix}_val_*.bin"))
for path in shards:
    with open(path, "rb") as file:
        data = file.read()
    magic, version, count = struct.unpack_from("<iiI", data)
    assert (magic, version) == (20240520, 1), path
    got += struct.unpack(f"<{count}H", data[1024:])
if got != expected:
    at = next(i for i, (a, b) in enumerate(zip(got, expected)) if a != b)
    sys.exit(f"token {at}: {got[at]} instead of {expected[at]}")
print(f"{len(shards)} shards as tiktoken")
