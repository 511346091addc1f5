#!/usr/bin/env python3
"""`eval --hellaswag` on made-up questions, against the losses that `call` gives.

usage: hellaswag.py --bin DIR
"""
import os
import re
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
from harness import Test, tensors  # noqa: E402

test = Test(__doc__)
VOCAB, T, COUNT = 32, 12, 25
model = test.gpt2(layers=1, heads=2, dim=16, vocab=VOCAB, context=T)
program = test.compile(model, "gpt2", "--batch=3", f"--seq={T}")
# After each token comes the next one, most of the time.
rng = np.random.default_rng(2)
stream = (np.arange(4000) + np.cumsum(rng.random(4000) < 0.05)) % VOCAB
test.shard("data.bin", stream)
test.train(program, "--val", "data.bin", steps=300)
test.check(test.lines("run.jsonl")[-1]["val_loss"] < 0.6, "the model learned")


def write(name, questions, cut=None):
    header = np.zeros(256, "<i4")
    words = []
    for number, (label, context, endings) in enumerate(questions):
        example = [65535, 0, number, label, 4, len(context), *context]
        for ending in endings:
            example += [len(ending), *ending]
        example[1] = 2 * len(example)
        words += example
    header[:4] = 20240522, 1, len(questions), 0
    with open(test.path(name), "wb") as file:
        file.write(header.tobytes() + np.array(words[:cut], "<u2").tobytes())


def evaluate(name, *flags):
    words = ("--hellaswag", name, "--weights", "run.safetensors", *flags)
    done = test.run(program, "eval", *words)
    found = re.search(
        r"accuracy ([0-9.]+), normalised ([0-9.]+), (\d+) examples",
        done.stdout.decode(),
    )
    test.check(found, f"no accuracy in {done.stdout}")
    return float(found.group(1)), float(found.group(2)), int(found.group(3)), done


def run(start, count):
    return [(start + i) % VOCAB for i in range(count)]


# The right ending goes on, the others do not, all of one length.
questions = []
for i in range(COUNT):
    start, length = int(rng.integers(VOCAB)), int(rng.integers(1, 7))
    endings = [run(start + length + 7 + 5 * k, 3) for k in range(4)]
    label = int(rng.integers(4))
    endings[label] = run(start + length, 3)
    questions.append((label, run(start, length), endings))
write("good.bin", questions)
test.check(evaluate("good.bin")[:3] == (1.0, 1.0, COUNT), "all right")
wrong = [((q[0] + (i < 10)) % 4, *q[1:]) for i, q in enumerate(questions)]
write("wrong.bin", wrong)
share = (COUNT - 10) / COUNT
test.check(evaluate("wrong.bin")[:3] == (share, share, COUNT), "ten wrong")

# Long endings lose by their sum and win by their mean.
longer = []
for label, context, endings in questions:
    last = context[-1]
    endings = [[(last + 9 + k) % VOCAB] for k in range(4)]
    endings[label] = run(last + 1, 2) + [(last + 20) % VOCAB] + run(last + 21, 3)
    longer.append((label, context, endings))
write("longer.bin", longer)


def losses(context, ending):
    text = (context + ending)[-(T + 1) :]
    given = dict(tensors.read(test.path("named.safetensors")))
    for name, tokens in (("tokens", text[:-1]), ("targets", text[1:])):
        given[name] = np.zeros((3, T), np.int32)
        given[name][1, : len(tokens)] = tokens
    tensors.write(test.path("in.safetensors"), given)
    words = ("--entry", "eval", "--inputs", "in.safetensors")
    test.run(program, "call", *words, "--outputs", "out.safetensors", "--quiet")
    found = tensors.read(test.path("out.safetensors"))["token_loss"]
    return found[1, len(text) - 1 - len(ending) : len(text) - 1].astype(float)


def reference(questions):
    right = np.zeros(2)
    for label, context, endings in questions:
        each = [losses(context, ending) for ending in endings]
        right += [np.argmin([f(e) for e in each]) == label for f in (np.sum, np.mean)]
    return tuple(right / len(questions))


# `call` reads parameters under their own names, in their own layout.
named = {}
for name, value in tensors.read(test.path("run.safetensors")).items():
    inner = re.sub(r"^h\.(\d+)\.", r"block.\1.", name)
    named[inner] = value.T.copy() if re.search(r"c_\w+\.weight", name) else value
tensors.write(test.path("named.safetensors"), named)
some = longer[:8]
write("some.bin", some)
found = evaluate("some.bin", "--metrics", "m.jsonl")
expected = reference(some)
test.check(expected[0] < expected[1], f"sums and means decide alike: {expected}")
test.check(found[:3] == (*expected, 8), f"{found[:3]}, expected {expected}")
line = test.lines("m.jsonl")[0]
test.check(
    line
    == dict(
        hellaswag_accuracy=expected[0],
        hellaswag_accuracy_normalised=expected[1],
        examples=8,
    ),
    f"{line}",
)

# A context that is too long loses its beginning.
start = [(q[0], run(q[1][0] - 20, 20) + q[1], q[2]) for q in questions[:6]]
write("long.bin", start)
found = evaluate("long.bin")
test.check(found[:3] == (*reference(start), 6), f"{found[:3]} of long contexts")
test.check("6 of 6 contexts are longer" in found[3].stderr.decode(), "no note")

# Bad files
words = ("eval", "--weights", "run.safetensors", "--hellaswag")
write("cut.bin", questions, cut=-1)
test.refuse(r"cut.bin: example 24: the file is truncated", program, *words, "cut.bin")
test.refuse(r"expected a HellaSwag file", program, *words, "data.bin")
test.refuse(r"absent: cannot open", program, *words, "absent")
write("ids.bin", [(0, [VOCAB], [[1], [2], [3], [4]])])
test.refuse(r"below the vocabulary size 32, got 32", program, *words, "ids.bin")
write("far.bin", [(0, [1], [[1] * (T + 1), [2], [3], [4]])])
test.refuse(
    r"far.bin: example 0: expected endings of at most the 12 tokens .* got 13",
    *(program, *words, "far.bin"),
)
test.refuse(r"excludes", program, *words, "good.bin", "--data", "d")
sizes = ("--inputs", 4, "--hidden", "3", "--classes", 2)
mlp = test.compile(test.model("mlp", *sizes, name="mlp.mlir"), "mlp", "--batch=2")
test.refuse(r"--hellaswag: expected a model with inputs 'tokens'", mlp, *words, "good.bin")
test.finish()
