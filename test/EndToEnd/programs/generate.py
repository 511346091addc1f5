#!/usr/bin/env python3
"""generate: greedy decoding over the key-value cache equals running the whole
model on all tokens so far (in the interpreter), in bf16 nearly; seeds; bytes.
eval: the mean of losses computed one batch at a time; train --val is the same
number.

usage: generate.py --bin DIR
"""
import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
from harness import Test, tensors, tokens, tolerance  # noqa: E402

test = Test(__doc__)
# prefill takes gcd(context, 64) = 8 tokens at a time.
LAYERS, DIM, HEADS, VOCAB, CONTEXT, CHUNK = 2, 12, 2, 256, 24, 8
model = test.gpt2(layers=LAYERS, dim=DIM, heads=HEADS, vocab=VOCAB, context=CONTEXT)
program = test.compile(model, "gpt2", "--batch=2", "--seq=10", "--precision=fp64")
narrow = test.compile(model, "narrow", "--batch=2", "--seq=10", "--precision=bf16")
data = tokens(500, VOCAB)
test.shard("data.bin", data)
test.shard("val.bin", tokens(113, VOCAB, seed=1))
val = tokens(113, VOCAB, seed=1)
# Far enough from the start that no two logits are nearly the same.
test.train(program, "--val", "val.bin", steps=30)
run = test.lines("run.jsonl")

# The parameters under their own names and as the model has them.
params = {}
for name, array in tensors.read(test.path("run.safetensors")).items():
    transposed = ".c_" in name and name.endswith(".weight")
    own = "block." + name[2:] if name.startswith("h.") else name
    params[own] = np.ascontiguousarray(array.T) if transposed else array


def interpret(ids, targets=None):
    ids = np.asarray(ids, np.int32)
    feed = dict(params, tokens=ids)
    feed["targets"] = ids if targets is None else np.asarray(targets, np.int32)
    tensors.write(test.path("in.safetensors"), feed)
    files = ("--inputs", "in.safetensors", "--outputs", "out.safetensors")
    test.run(test.tool("bt-run"), model, *files)
    return tensors.read(test.path("out.safetensors"))


def generate(prompt, *flags, program=program):
    words = ("--weights", "run.safetensors", "--quiet", *flags)
    return test.run(program, "generate", *words, "--prompt", prompt).stdout


# Every chunk boundary, up to the context. The logits of all prefixes of what was
# generated come out of one run of the whole model.
greedy = ("--temperature", 0, "--max-tokens", 100)
for length in (1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, CONTEXT - 1):
    prompt = bytes(65 + (7 * i) % 26 for i in range(length))
    out = generate(prompt, *greedy)
    text = list(out[:-1])
    test.check(out.endswith(b"\n"), f"prompt of {length}: the line ends")
    test.check(bytes(text[:length]) == prompt, f"prompt of {length} comes first")
    # The token after the last position needs no position of its own.
    test.check(len(text) == CONTEXT + 1, f"prompt of {length}: {len(text)} tokens")
    logits = interpret([text[:CONTEXT]])["logits"][0]
    expected = [int(np.argmax(logits[p])) for p in range(length - 1, CONTEXT)]
    test.check(
        text[length:] == expected,
        f"prompt of {length}: {text[length:]}, expected {expected}",
    )
    test.check(generate(prompt, *greedy) == out, f"prompt of {length}: again")
    # In bf16 some 12 values of a layer are rounded on the way to the logits, which
    # bounds how far below the largest logit the one chosen may lie.
    out = generate(prompt, *greedy, program=narrow)
    text = list(out[:-1])
    test.check(len(text) == CONTEXT + 1, f"bf16, prompt of {length}: {len(text)} tokens")
    logits = interpret([text[:CONTEXT]])["logits"][0]
    error = tolerance.growth(12 * LAYERS + 6) * tolerance.UNIT["bf16"]
    for p in range(length - 1, CONTEXT):
        slack = logits[p].max() - logits[p][text[p + 1]]
        allowed = 2 * error * np.sqrt(np.mean(np.square(logits[p])))
        test.check(slack <= allowed, f"bf16, token {p + 1}: {slack:.3g} below")

# Seeds; any byte in and out.
drawn = {seed: generate("ab", "--seed", seed) for seed in range(1, 5)}
test.check(generate("ab", "--seed", 1) == drawn[1], "the same seed")
test.check(len(set(drawn.values())) == 4, "different seeds")
threads = generate("ab", "--seed", 1, "--threads", 1)
test.check(threads == drawn[1], "another number of threads")
raw = b"\xff\x80\xc3("
out = generate(raw, "--max-tokens", 3)
test.check(out.startswith(raw) and len(out) == 8, f"bytes that are no text: {out}")
ids = ("--prompt-tokens", ",".join(str(b) for b in raw))
words = ("generate", "--weights", "run.safetensors", "--quiet", *ids)
same = test.run(program, *words, "--max-tokens", 3).stdout
test.check(same == out, f"the same prompt as ids: {same}, expected {out}")

# eval: (113 - 1) / (2·10) batches, each interpreted.
batches = (len(val) - 1) // 20
losses = [
    float(
        interpret(
            val[20 * i : 20 * i + 20].reshape(2, 10),
            val[20 * i + 1 : 20 * i + 21].reshape(2, 10),
        )["loss"]
    )
    for i in range(batches)
]
words = ("eval", "--data", "val.bin", "--weights", "run.safetensors")
test.run(program, *words, "--metrics", "eval.jsonl")
(line,) = test.lines("eval.jsonl")
expected = float(np.mean(losses))
lengths = tolerance.gpt2_lengths(LAYERS, DIM, HEADS, VOCAB, 10, 20)
limit = tolerance.path("f64", lengths) * expected
test.check(line["batches"] == batches and line["tokens"] == 20 * batches, f"{line}")
test.check(
    abs(line["val_loss"] - expected) <= limit,
    f"eval: loss {line['val_loss']!r}, expected {expected!r} within {limit:.3g}",
)
last = run[-1]
test.check(
    last.get("step") == 30 and last.get("val_loss") == line["val_loss"],
    f"train --val: {last}, eval: {line}",
)
test.finish()
