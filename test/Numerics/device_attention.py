#!/usr/bin/env python3
"""Attention in f32 with so many heads that its gradients are one kernel.

usage: device_attention.py --prepare --bin DIR [--arch LIST] DIR
       device_attention.py DIR

The first leaves a program for each shape in DIR. The second draws inputs, runs
every program twice, whose results have to agree in every bit, and compares some
of the key-value heads with f64. It needs numpy and what programs need.
"""
import argparse
import os
import subprocess
import sys
import tempfile

import numpy as np
import tensors
import tolerance

# causal, batch, heads, key-value heads, queries, keys, depth
SHAPES = (
    (True, 32, 12, 12, 256, 256, 64),
    (True, 64, 8, 4, 130, 258, 64),
    (True, 256, 1, 1, 257, 385, 64),
    (False, 128, 2, 2, 129, 70, 64),
    (True, 128, 3, 3, 300, 300, 40),
    (False, 128, 2, 2, 200, 129, 33),
    (True, 64, 4, 4, 200, 200, 128),
    (False, 64, 8, 4, 192, 128, 96),
    (True, 128, 2, 2, 70, 200, 17),
    (False, 128, 4, 2, 64, 192, 32),
    (True, 256, 2, 2, 1, 5, 8),
)


def name_of(shape):
    return "_".join(["causal" if shape[0] else "full", *map(str, shape[1:])])


def scale_of(shape):
    return float(1 / np.sqrt(shape[6]))


def model(shape):
    causal, batch, heads, key_heads, queries, keys, depth = shape
    kind = lambda *dims: f"tensor<{'x'.join(map(str, dims))}xf32>"
    q, k = kind(batch, queries, heads, depth), kind(batch, keys, key_heads, depth)
    lse = kind(batch, heads, queries)
    flag = "causal " if causal else ""
    inputs = ", ".join(
        f'%{n}: {t} {{blu.name = "{n}"}}' for n, t in (("q", q), ("k", k), ("v", k))
    )
    return (
        f'blu.model @m({inputs}) -> ({q} {{blu.name = "y"}}) {{\n'
        f"  %y, %lse = blu.attention %q, %k, %v scale = {scale_of(shape)!r} {flag}"
        f": ({q}, {k}, {k}) -> ({q}, {lse})\n"
        f"  blu.return %y : {q}\n}}\n"
    )


def prepare(args):
    os.makedirs(args.folder, exist_ok=True)
    for shape in SHAPES:
        program = os.path.join(args.folder, name_of(shape))
        source = program + ".mlir"
        with open(source, "w", encoding="utf-8") as file:
            file.write(model(shape))
        words = [os.path.join(args.bin, "bt-compile"), source, "--vjp", "-o", program]
        words += ["--target", "cuda", "--precision", "fp32", "--arch", args.arch]
        subprocess.run(words, check=True)


def reference(q, k, v, g, scale, causal):
    """Results of one head, all T×D or S×D."""
    scores = scale * (q @ k.T)
    if causal:
        hidden = np.arange(len(k)) > np.arange(len(q))[:, None] + len(k) - len(q)
        scores = np.where(hidden, -np.inf, scores)
    p = np.exp(scores - scores.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    y = p @ v
    ds = scale * p * (g @ v.T - (g * y).sum(axis=-1, keepdims=True))
    return {"y": y, "gin.q": ds @ k, "gin.k": ds.T @ q, "gin.v": p.T @ g}


def run_program(program, inputs):
    results = []
    with tempfile.TemporaryDirectory() as scratch:
        source = os.path.join(scratch, "in.safetensors")
        tensors.write(source, inputs)
        for run in range(2):
            out = os.path.join(scratch, f"{run}.safetensors")
            words = [program, "call", "--entry", "vjp", "--inputs", source]
            done = subprocess.run(
                [*words, "--outputs", out], capture_output=True, text=True, check=False
            )
            if done.returncode:
                raise RuntimeError(f"exit code {done.returncode}: {done.stderr}")
            results.append(tensors.read(out))
    return results


def check(folder, shape, failures):
    """The worst error in units of its tolerance."""
    causal, batch, heads, key_heads, queries, keys, depth = shape
    name, group = name_of(shape), heads // key_heads
    random = np.random.default_rng(11)
    draw = lambda *dims: random.standard_normal(dims, np.float32)
    inputs = {"q": draw(batch, queries, heads, depth)}
    inputs.update({n: draw(batch, keys, key_heads, depth) for n in "kv"})
    inputs["gout.y"] = draw(batch, queries, heads, depth)
    try:
        runs = run_program(os.path.join(folder, name), inputs)
    except RuntimeError as error:
        failures.append(f"{name}: {error}")
        return float("nan")
    for key, value in runs[0].items():
        if value.tobytes() != runs[1][key].tobytes():
            failures.append(f"{name}/{key}: two runs differ")
        if not np.all(np.isfinite(value)):
            failures.append(f"{name}/{key}: a value is not finite")
    worst = 0.0
    for entry in (0, batch // 2, batch - 1):
        key_head = entry % key_heads
        k, v = (inputs[n][entry, :, key_head].astype(float) for n in "kv")
        sums = {}
        for head in range(group * key_head, group * (key_head + 1)):
            q, g = (inputs[n][entry, :, head].astype(float) for n in ("q", "gout.y"))
            exact = reference(q, k, v, g, scale_of(shape), causal)
            batched = (x[None, None] for x in (q, k, v, g))
            terms = tolerance.attention(*batched, scale_of(shape), causal)
            for key, value in exact.items():
                count, sizes = terms[key]
                at = head if key in ("y", "gin.q") else key_head
                old = sums.get((key, at), (0, 0.0, 0.0))
                sums[key, at] = (old[0] + count, old[1] + sizes[0, 0], old[2] + value)
        for (key, at), (count, sizes, value) in sums.items():
            limit = tolerance.bound("f32", count, sizes, 8.0)
            error, where = tolerance.ratio(runs[0][key][entry, :, at], value, limit)
            worst = max(worst, error)
            if not error <= 1:
                failures.append(
                    f"{name}/{key}[{entry}, {where}, {at}]: {error:.3g} of its tolerance"
                )
    return worst


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--prepare", action="store_true")
    parser.add_argument("--bin", default="")
    parser.add_argument("--arch", default="sm_80,sm_90a")
    args = parser.parse_args()
    if args.prepare:
        prepare(args)
        return
    failures, worst = [], 0.0
    for shape in SHAPES:
        worst = max(worst, check(args.folder, shape, failures))
    for failure in failures:
        print(f"FAILED {failure}")
    print(
        f"{len(SHAPES)} shapes, {len(failures)} failures, "
        f"worst {worst:.3g} of its tolerance"
    )
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
