#!/usr/bin/env python3
"""Bad input of compiled programs: a located, specific error, exit code 1 (2 for
a failing disk), and nothing written.

usage: invalid_data.py --bin DIR
"""
import json
import os
import shutil
import struct
import subprocess
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
from harness import Test, tensors, tokens  # noqa: E402

test = Test(__doc__)
program = test.compile(test.gpt2(vocab=256), "gpt2", "--batch=2", "--seq=8")
data = tokens(400, 256)
test.shard("data.bin", data)
test.run(
    program,
    *("train", "--data", "data.bin", "--steps", 1, "--lr", "1e-3", "--quiet"),
    *("--save", "good.safetensors"),
)
SMALL = ("--steps", 2, "--lr", "1e-3", "--quiet")
OUTPUTS = (
    *("--save", "s.safetensors", "--metrics", "m.jsonl"),
    *("--dump-grads", "g.safetensors"),
)


def bad_train(pattern, *flags, data="data.bin", code=1, left=()):
    words = ("train", "--data", data, *SMALL, *flags)
    return test.refuse(pattern, program, *words, code=code, left=left)


def bad_eval(pattern, *flags, data="data.bin", weights="good.safetensors"):
    words = ("eval", "--data", data, "--weights", weights, *flags)
    return test.refuse(pattern, program, *words)


# Shards: the same of train --data, train --val and eval.
test.shard("truncated.bin", data, count=401)
test.shard("oversized.bin", data, tail=b"x")
test.shard("magic.bin", data, magic=7)
test.shard("version.bin", data, version=2)
test.shard("short.bin", data[:16])
test.shard("none.bin", [])
test.write("header.bin", "x" * 100)
wrong = data.copy()
wrong[3] = 300
test.shard("id.bin", wrong)
os.mkdir(test.path("folder.bin"))
for name, pattern in (
    ("truncated.bin", r"truncated.bin: expected 1826 bytes .* got 1824 .*truncated"),
    ("oversized.bin", r"oversized.bin: expected 1824 bytes .* got 1825 .*too long"),
    ("magic.bin", r"magic.bin: expected .* magic number 20240520 .*, got 7"),
    ("version.bin", r"version.bin: expected token file version 1, got 2"),
    ("header.bin", r"header.bin: expected .* header of 1024 bytes, got 100"),
    ("folder.bin", r"folder.bin: expected a regular file"),
    ("id.bin", r"id.bin: token 3: expected an id below .* 256, got 300"),
    ("short.bin", r"expected at least 17 tokens .* got 16"),
    ("none.bin", r"the shards of 'none.bin' hold no token"),
    ("absent-*.bin", r"no file matches 'absent-\*.bin'"),
    ("", r"--(data|val): "),
):
    bad_train(pattern, *OUTPUTS, data=name)
    bad_eval(pattern, "--metrics", "m.jsonl", data=name)
    if name and name != "id.bin":
        bad_train(pattern, *OUTPUTS, "--val", name)
# In the second step: what the first one wrote stays, the weights are not saved.
wrong = data.copy()
wrong[20] = 256
test.shard("later.bin", wrong)
bad_train(
    r"later.bin: token 20: expected an id below .* 256, got 256",
    *OUTPUTS,
    data="later.bin",
    left=("m.jsonl", "m.config.toml", "g.safetensors"),
)
test.check(len(test.lines("m.jsonl")) == 1, "metrics of the step that was done")
for name in ("m.jsonl", "m.config.toml", "g.safetensors"):
    os.remove(test.path(name))


# Weight files: the header is rewritten.
good = test.bytes("good.safetensors")
length = struct.unpack("<Q", good[:8])[0]
header = json.loads(good[8 : 8 + length])
header.pop("__metadata__")
body = good[8 + length :]
first, second = list(header)[:2]


def weights(change, body=body, cut=None):
    altered = json.loads(json.dumps(header))
    altered = change(altered) or altered
    text = altered if isinstance(altered, bytes) else json.dumps(altered).encode()
    content = struct.pack("<Q", len(text)) + text + body
    with open(test.path("bad.safetensors"), "wb") as file:
        file.write(content[:cut])


def moved(name, by):
    def change(h):
        h[name]["data_offsets"] = [o + by for o in h[name]["data_offsets"]]

    return change


def field(name, key, value):
    return lambda h: h[name].__setitem__(key, value)


shape = header["h.0.attn.c_attn.weight"]["shape"]
cases = [
    ("hole", moved(second, 8), {}, r"tensor '.*': expected to begin at byte \d+"),
    ("overlap", moved(second, -8), {}, r"tensor '.*': expected to begin .*overlap"),
    ("past the end", lambda h: None, {"body": body[:-4]}, r"truncated"),
    ("trailing", lambda h: None, {"body": body + b"xxxx"}, r"trailing bytes"),
    ("cut", lambda h: None, {"cut": 200}, r"expected \d+ bytes of header, got 192"),
    ("empty", lambda h: None, {"cut": 0}, r"expected a safetensors file, got 0 bytes"),
    ("dtype", field(first, "dtype", "I32"), {}, f"tensor '{first}': .*dtype .*I32"),
    ("unknown dtype", field(first, "dtype", "F31"), {}, r"unknown dtype \"F31\""),
    (
        "shape",
        field("h.0.attn.c_attn.weight", "shape", shape[::-1]),
        {},
        r"tensor 'h.0.attn.c_attn.weight': expected shape \[16, 48\], got \[48, 16\]",
    ),
    ("size", field(first, "shape", [1]), {}, f"tensor '{first}': expected 4 bytes"),
    ("not JSON", lambda h: b"{not json", {}, r"header: is not JSON"),
    (
        "unexpected",
        lambda h: {("stray" if k == second else k): v for k, v in h.items()},
        {},
        f"missing tensor '{second}'",
    ),
    (
        "stray",
        lambda h: h
        | {"stray": dict(dtype="F32", shape=[0], data_offsets=[len(body)] * 2)},
        {},
        r"unexpected tensor 'stray' of type F32\[0\]",
    ),
]
for _, change, more, pattern in cases:
    weights(change, **more)
    pattern = r"bad.safetensors: .*" + pattern
    bad_eval(pattern, "--metrics", "m.jsonl", weights="bad.safetensors")
    bad_train(pattern, *OUTPUTS, "--init", "bad.safetensors")
arrays = tensors.read(test.path("good.safetensors"))
tensors.write(
    test.path("few.safetensors"),
    {k: v for k, v in arrays.items() if not k.startswith("h.1.")},
)
bad_eval(r"few.safetensors: missing tensors 'h.1.* and 8 more", weights="few.safetensors")
bad_eval(r"absent.safetensors: cannot open: No such file", weights="absent.safetensors")

# Outputs that cannot be written: said before the first step.
for flag in ("--save", "--metrics", "--dump-grads"):
    bad_train(rf"{flag}: absent/x: cannot write: No such file", flag, "absent/x")
    bad_train(rf"{flag}: folder.bin: expected a file, got a folder", flag, "folder.bin")
    bad_train(rf"{flag}: expected the name of a file", flag, "")
bad_eval(r"--metrics: absent/x: cannot write: No such file", "--metrics", "absent/x")

# Weights do not go to a device, and never replace it; metrics may, and a full one
# is a run-time failure.
device = test.path("full")
if os.path.exists("/dev/full"):
    os.symlink("/dev/full", device)
    bad_train(r"full: cannot write: No space left", "--metrics", device, code=2)
    for flag in ("--save", "--dump-grads"):
        bad_train(rf"{flag}: .*full: expected a regular file", flag, device)
    test.check(os.path.islink(device), "the link to a device is still there")
    for words in (
        ("info",),
        ("eval", "--data", "data.bin", "--weights", "good.safetensors", "--quiet"),
        ("generate", "--weights", "good.safetensors", "--prompt", "a", "--quiet"),
    ):
        with open("/dev/full", "wb") as full:
            done = subprocess.run(
                [program, *words],
                stdout=full,
                stderr=subprocess.PIPE,
                cwd=test.folder,
                check=False,
            )
        test.check(
            done.returncode == 2 and b"standard output: cannot write" in done.stderr,
            f"{words[0]} to a full disk: exit code {done.returncode}, {done.stderr}",
        )
shutil.copy(test.path("good.safetensors"), test.path("kept.safetensors"))
shutil.copy(test.path("data.bin"), test.path("kept.jsonl"))
bad_train(
    r"token 3: expected an id",
    *("--save", "kept.safetensors", "--metrics", "kept.jsonl"),
    data="id.bin",
)

# Flags
NUMBER = "expected a whole number from"
for pattern, *flags in (
    (rf"--steps: {NUMBER} 0 .*'x'", "--steps", "x"),
    (rf"--steps: {NUMBER} 0 .*'-1'", "--steps", "-1"),
    (rf"--steps: {NUMBER} 0 .*'1.5'", "--steps", "1.5"),
    (rf"--steps: {NUMBER} 0 .*'99999999999999999999'", "--steps", "9" * 20),
    (r"--steps is required",),
):
    words = ("train", "--data", "data.bin", "--lr", "1", *flags)
    test.refuse(pattern, program, *words)
for pattern, *flags in (
    (r"--lr: .*nan", "--lr", "nan"),
    (r"--lr: .*inf", "--lr", "inf"),
    (r"--lr: .*-1", "--lr", "-1"),
    (r"--lr = abc", "--lr", "abc"),
    (r"--lr is required",),
):
    words = ("train", "--data", "data.bin", "--steps", 1, *flags)
    test.refuse(pattern, program, *words)
for pattern, *flags in (
    (rf"--warmup: {NUMBER} 0", "--warmup", "-1"),
    (rf"--threads: {NUMBER} 1 to 4096", "--threads", "0"),
    (rf"--seed: {NUMBER} 0", "--seed", "-3"),
    (rf"--val-every: {NUMBER} 1", "--val-every", "0"),
    (r"--schedule: expected constant, linear, cosine or wsd, got 'x'", "--schedule", "x"),
    (r"--min-lr: needs --schedule", "--min-lr", "0.1"),
    (r"--decay-steps: needs --schedule wsd", "--decay-steps", "1"),
    (r"--on-nonfinite: expected skip or stop, got 'x'", "--on-nonfinite", "x"),
    (r"--outlier-z: expected a number above 0, got -1", "--outlier-z", "-1"),
    (r"--labels: this model reads tokens", "--labels", "l.idx"),
    (r"--val-labels requires --val", "--val-labels", "l.idx"),
    (r"--val-every: needs --val", "--val-every", "1"),
    (r"--beta1: expected .* below 1, got 1", "--beta1", "1"),
    (r"--clip: expected .* got -1", "--clip", "-1"),
    (r"--momentum: this program \(optimizer adamw\)", "--momentum", "0.5"),
    (r"--resume requires --checkpoint-dir", "--resume"),
    (r"not expected: --frob", "--frob"),
    (r"not expected: extra", "extra"),
):
    bad_train(pattern, *flags)
for pattern, *flags in (
    (r"--prompt: expected fewer tokens than the context of 16, got 16", "a" * 16),
    (r"--prompt: expected at least one token", ""),
    (r"--temperature: .*got -1", "a", "--temperature", "-1"),
    (r"--temperature: .*got nan", "a", "--temperature", "nan"),
    (rf"--max-tokens: {NUMBER} 1", "a", "--max-tokens", "0"),
    (r"absent: cannot open", "a", "--vocab-file", "absent"),
    (r"--prompt excludes --prompt-tokens", "a", "--prompt-tokens", "1"),
    (r"not expected: .*--top-k", "a", "--top-k", "1"),
):
    words = ("generate", "--weights", "good.safetensors", "--prompt", *flags)
    test.refuse(pattern, program, *words)
for pattern, ids in (
    (r"below the vocabulary size 256, got 256", "1,256"),
    (r"separated by commas, got '1,,2'", "1,,2"),
    (r"separated by commas, got '1,'", "1,"),
    (r"separated by commas, got 'x'", "x"),
):
    words = ("generate", "--weights", "good.safetensors", "--prompt-tokens", ids)
    test.refuse(pattern, program, *words)
test.refuse(r"--weights is required", program, "generate", "--prompt", "a")
test.refuse(r"--weights is required", program, "eval", "--data", "data.bin")
words = ("eval", "--weights", "good.safetensors")
test.refuse(r"eval: expected --data or --hellaswag", program, *words)
test.refuse(r"unknown command 'frob'", program, "frob")
test.refuse(r"subcommand is required", program)

# No step is a run too: initial weights, empty metrics.
metrics, saved = test.train(program, "--seed", "5", steps=0)
test.check(metrics == [], "no metrics of no steps")
test.check(saved[1] != body, "weights of another seed")
# A run that turns into nonsense fails and saves nothing.
test.refuse(
    r"step \d: the (loss|gradient norm) is",
    program,
    *("train", "--data", "data.bin", "--steps", 5, "--lr", "1e30", "--quiet"),
    *("--save", "kept.safetensors"),
    code=2,
)
test.finish()
