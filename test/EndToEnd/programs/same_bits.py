#!/usr/bin/env python3
"""Training gives the same bits whatever must not matter: a rerun, threads, what
is recomputed; and other bits where the seed of dropout differs. Microbatches
add up to the larger batch.

usage: same_bits.py --bin DIR --part remat|accum
"""
import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
from harness import Test, tensors, tokens, tolerance  # noqa: E402

test = Test(
    __doc__,
    lambda parser: parser.add_argument(
        "--part", choices=("remat", "accum"), required=True
    ),
)
LAYERS, DIM, HEADS, VOCAB, T = 2, 24, 3, 61, 13
model = test.gpt2(layers=LAYERS, dim=DIM, heads=HEADS, vocab=VOCAB, context=T)
test.shard("data.bin", tokens(700, VOCAB))


def remat_and_threads():
    # Dropout on, so that the masks have to be the same too.
    flags = ("--batch=3", f"--seq={T}", "--dropout=0.2")
    reference = None
    for remat in ("none", "cheap", "full"):
        program = test.compile(model, "gpt2-" + remat, *flags, f"--remat={remat}")
        runs = {"1 thread": ("--threads", 1)}
        if remat == "cheap":
            runs |= {"rerun": ("--threads", 1), "2 threads": ("--threads", 2)}
        for what, more in runs.items():
            metrics, saved = test.train(program, *more, steps=4)
            reference = reference or (metrics, saved)
            test.check(metrics == reference[0], f"metrics of {remat}, {what}")
            test.check(saved == reference[1], f"weights of {remat}, {what}")
    # The initial weights are given, so that only masks depend on the seed.
    test.train(program, steps=0, out="init")
    losses = []
    for seed in (1, 1, 2):
        init = ("--init", "init.safetensors", "--seed", seed)
        losses.append(test.train(program, *init)[0][0]["loss"])
    test.check(losses[0] == losses[1], "masks of the same seed")
    test.check(losses[0] != losses[2], "masks of another seed")


def accumulate():
    # Four microbatches of one sequence are one batch of four, but for rounding.
    accumulated = test.compile(model, "accum", "--batch=1", f"--seq={T}", "--accum=4")
    together = test.compile(model, "batch", "--batch=4", f"--seq={T}")
    found = []
    for program in (accumulated, together):
        dump = ("--dump-grads", "grads.safetensors")
        metrics, _ = test.train(program, *dump, steps=1)
        found.append((metrics[0], tensors.read(test.path("grads.safetensors"))))
    lengths = tolerance.gpt2_lengths(LAYERS, DIM, HEADS, VOCAB, T, 4 * T)
    relative = 2 * tolerance.path("f32", lengths)
    (one, grads), (other, others) = found
    test.check(
        abs(one["loss"] - other["loss"]) <= relative * other["loss"],
        f"loss {one['loss']} of 4 microbatches, {other['loss']} of one batch",
    )
    test.check(one["tokens"] == other["tokens"], "tokens of 4 microbatches")
    for name, expected in others.items():
        size = np.sqrt(np.mean(np.square(expected, dtype=float)))
        error, where = tolerance.ratio(
            grads[name].astype(float), expected, relative * np.maximum(abs(expected), size)
        )
        test.check(error <= 1, f"gradient {name}{where}: {error:.3g} of its tolerance")


{"remat": remat_and_threads, "accum": accumulate}[test.options.part]()
test.finish()
