#!/usr/bin/env python3
"""Optimizers, clipping, decay and schedules of `train` against numpy in
f64: each step starts from the weights before it and the gradients that --dump-grads wrote.

usage: optimizer.py --bin DIR
"""
import math
import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
from harness import Test, tensors, tokens, tolerance  # noqa: E402

test = Test(__doc__)
ROWS, T, VOCAB, STEPS = 2, 7, 31, 4
model = test.gpt2(layers=1, vocab=VOCAB, context=T)
stream = tokens(400, VOCAB)
SIZES = (f"--batch={ROWS}", f"--seq={T}", "--precision=fp64")
UNIT = tolerance.UNIT["f64"]


def run(program, init, step):
    """One train step on the tokens of step `step`; the last one makes the shard."""
    begin = step * ROWS * T
    test.shard("part.bin", stream[begin : begin + ROWS * T + 1])
    words = ("--init", init, "--dump-grads", "grads.safetensors")
    metrics, _ = test.train(program, *words, data="part.bin", steps=1)
    return metrics[0], tensors.read(test.path("grads.safetensors"))


def norm_of(grads):
    return math.sqrt(sum(float(np.sum(np.square(g))) for g in grads.values()))


def clipped(grads, clip):
    norm = norm_of(grads)
    scale = min(1.0, clip / (norm + 1e-6)) if clip > 0 else 1.0
    return {k: g * scale for k, g in grads.items()}


# The gradients of step s need the weights of step s, which only a run of s steps
# leaves: run it for every length. All runs are the same but for where they stop.
def follow(program, update, *flags):
    data = ("--init", "init.safetensors", *flags)
    test.shard("data.bin", stream)
    metrics, _ = test.train(program, *data, steps=STEPS)
    for step in range(STEPS):
        test.shard("data.bin", stream)
        test.train(program, *data, steps=step, out="before")
        test.train(program, *data, steps=step + 1, out="after")
        before = tensors.read(test.path("before.safetensors"))
        after = tensors.read(test.path("after.safetensors"))
        line, grads = run(program, "before.safetensors", step)
        size = sum(g.size for g in grads.values())
        norm = norm_of(grads)
        test.check(
            abs(line["grad_norm"] - norm) <= tolerance.growth(size) * UNIT * norm,
            f"{flags}: norm {line['grad_norm']!r} of step {step}, expected {norm!r}",
        )
        test.check(
            line["grad_norm"] == metrics[step]["grad_norm"]
            and line["loss"] == metrics[step]["loss"],
            f"{flags}: step {step} again: {line}, first {metrics[step]}",
        )
        for name, (expected, limit) in update(step, before, grads, size).items():
            error, where = tolerance.ratio(after[name], expected, limit)
            test.check(
                error <= 1,
                f"{flags}, step {step}: {name}{where}: {error:.3g} of its tolerance",
            )


def usual(name, ndim):
    return 1.0, float(ndim >= 2)


def adamw(lr, decay, clip, b1=0.9, b2=0.95, eps=1e-8, factors=usual):
    state, peak, weight = {}, lr, decay

    def update(step, before, grads, size):
        result = {}
        for name, g in clipped(grads, clip).items():
            m, v, m_size = state.get(name, (0.0, 0.0, 0.0))
            m = b1 * m + (1 - b1) * g
            v = b2 * v + (1 - b2) * g * g
            # What m is a sum of, which is larger than m where terms cancel.
            m_size = b1 * m_size + (1 - b1) * np.abs(g)
            state[name] = m, v, m_size
            bias1, bias2 = 1 - b1 ** (step + 1), 1 - b2 ** (step + 1)
            root = np.sqrt(v / bias2) + eps
            p = before[name]
            lr, rate = (a * b for a, b in zip((peak, weight), factors(name, p.ndim)))
            result[name] = (
                p - lr * (m / bias1 / root + rate * p),
                # The global norm's sum, then at most 8 roundings a step and 16 of
                # the update.
                (tolerance.growth(size) + 8 * (step + 1) + 16)
                * UNIT
                * (np.abs(p) + lr * (m_size / bias1 / root + rate * np.abs(p))),
            )
        return result

    return update


def sgd(lr, decay, clip, momentum, factors=usual):
    state, peak, weight = {}, lr, decay

    def update(step, before, grads, size):
        result = {}
        for name, g in clipped(grads, clip).items():
            p = before[name]
            lr, rate = (a * b for a, b in zip((peak, weight), factors(name, p.ndim)))
            m, m_size = state.get(name, (0.0, 0.0))
            term, term_size = g + rate * p, np.abs(g) + rate * np.abs(p)
            m, m_size = momentum * m + term, momentum * m_size + term_size
            state[name] = m, m_size
            limit = tolerance.growth(size) + 8 * (step + 1) + 16
            result[name] = p - lr * m, limit * UNIT * (np.abs(p) + lr * m_size)
        return result

    return update


program = test.compile(model, "adamw", *SIZES)
test.shard("data.bin", stream)
test.train(program, steps=0, out="init")
# harness.train's rate is 0.01.
for decay, clip in ((0.1, 0.5), (0.0, 0.0)):
    flags = ("--weight-decay", decay, "--clip", clip)
    follow(program, adamw(0.01, decay, clip), *flags)
other = test.compile(model, "sgd", *SIZES, "--optimizer=sgd")
flags = ("--weight-decay", 0.1, "--clip", 0.5, "--momentum", 0.75)
follow(other, sgd(0.01, 0.1, 0.5, 0.75), *flags)

# Parameters with factors of their own.
GROUPS = ("h.{i}.attn.*:lr=0.5", "block.*.bias:decay=2", "w[pt]e.*:lr=0:decay=0")
GROUPS += ("*.c_proj.weight:lr=3:decay=0.5",)


def grouped(name, ndim):
    rate, decay = usual(name, ndim)
    if ".attn." in name:
        rate = 0.5
    if name.endswith(".bias") and name.startswith("h."):
        decay = 2.0
    if name in ("wte.weight", "wpe.weight"):
        rate = decay = 0.0
    if name.endswith("c_proj.weight"):
        rate, decay = 3.0, 0.5
    return rate, decay


words = [f"--param-group={group}" for group in GROUPS]
grouped_program = test.compile(model, "groups", *SIZES, *words)
flags = ("--weight-decay", 0.1, "--clip", 0.5)
follow(grouped_program, adamw(0.01, 0.1, 0.5, factors=grouped), *flags)
other = test.compile(model, "sgd", *SIZES, "--optimizer=sgd", *words)
flags += ("--momentum", 0.75)
follow(other, sgd(0.01, 0.1, 0.5, 0.75, factors=grouped), *flags)
for pattern, group in (
    (r"group 'x\*:lr=1' matches no parameter", "x*:lr=1"),
    (r"group '\*': expected PATTERN:lr=FACTOR", "*"),
    (r"group ':lr=1': expected PATTERN", ":lr=1"),
    (r"group '\[:lr=1': invalid glob pattern", "[:lr=1"),
    (r"expected lr or decay, got 'beta'", "*:beta=1"),
    (r"expected a factor of at least 0 for lr, got '-1'", "*:lr=-1"),
    (r"expected a factor of at least 0 for decay, got 'nan'", "*:decay=nan"),
    (r"expected a factor of at least 0 for decay, got ''", "*:decay"),
    (r"repeats lr", "*:lr=1:lr=2"),
):
    words = (test.tool("bt-compile"), model, *SIZES, f"--param-group={group}")
    test.refuse(pattern, *words, "-o", "none")

# Learning rates of the schedules.
STEPS, WARMUP, PEAK, LEAST = 9, 3, 0.01, 0.001


def rate(kind, step):
    if step < WARMUP:
        return PEAK * (step + 1) / WARMUP
    if kind == "constant":
        return PEAK
    if kind == "wsd":
        return PEAK + (LEAST - PEAK) * max(0, step - (STEPS - 4)) / 4
    done = (step - WARMUP) / (STEPS - WARMUP)
    if kind == "linear":
        return PEAK + (LEAST - PEAK) * done
    return LEAST + (PEAK - LEAST) * 0.5 * (1 + math.cos(math.pi * done))


test.shard("data.bin", stream)
for kind in ("constant", "linear", "cosine", "wsd"):
    flags = ("--schedule", kind, "--warmup", WARMUP)
    flags += () if kind == "constant" else ("--min-lr", LEAST)
    flags += ("--decay-steps", 4) if kind == "wsd" else ()
    metrics, _ = test.train(program, *flags, steps=STEPS)
    for line in metrics:
        expected = rate(kind, line["step"])
        test.check(
            abs(line["lr"] - expected) <= 8 * UNIT * PEAK,
            f"{kind}: rate {line['lr']} of step {line['step']}, expected {expected}",
        )
test.finish()
