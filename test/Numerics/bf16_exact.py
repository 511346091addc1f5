#!/usr/bin/env python3
"""Under the policy bf16 the gradients of weights are not rounded.

usage: bf16_exact.py --bin DIR

Activations, weights and cotangents here are integers that bf16 holds, the
weights signed permutations, so that every value stays one. The gradients, sums
of several thousand, would not fit bf16: they have to come out exactly, of a weight
that each iteration of a stack has of its own and of one that all share.
"""
import argparse
import os
import subprocess
import sys
import tempfile

import numpy as np

import tensors

ROWS, WIDTH, COUNT = 64, 8, 3
MODEL = """
blu.model @m(%x: tensor<64x8xf32> {blu.name = "x"}, %us: tensor<3x8x8xf32> {blu.name = "us"},
             %v: tensor<8x8xf32> {blu.name = "v"}) -> (tensor<64x8xf32> {blu.name = "y"}) {
  %y = blu.stack "s" [0 to 3] iteration(%i) carry(%h = %x) slices(%u = %us)
      : (tensor<64x8xf32>, tensor<3x8x8xf32>) -> (tensor<64x8xf32>) {
    %a = blu.linear %h, %u : (tensor<64x8xf32>, tensor<8x8xf32>) -> tensor<64x8xf32>
    %b = blu.matmul %a, %v : (tensor<64x8xf32>, tensor<8x8xf32>) -> tensor<64x8xf32>
    blu.yield %b : tensor<64x8xf32>
  }
  blu.return %y : tensor<64x8xf32>
}
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", required=True)
    options = parser.parse_args()
    draw = np.random.default_rng(1)

    def permutation():
        signs = draw.choice([-1.0, 1.0], WIDTH)
        return np.eye(WIDTH)[draw.permutation(WIDTH)] * signs[:, None]

    # Of one sign by column, so that sums grow.
    x = draw.integers(4, 8, (ROWS, WIDTH)).astype(float)
    g = draw.integers(4, 8, (ROWS, WIDTH)).astype(float)
    us = np.stack([permutation() for _ in range(COUNT)])
    v = permutation()

    inputs, hidden, h = [], [], x
    for u in us:
        inputs.append(h)
        hidden.append(h @ u.T)
        h = hidden[-1] @ v
    expected = {"y": h}
    du, dv, grad = np.zeros_like(us), np.zeros_like(v), g
    for i in reversed(range(COUNT)):
        dv += hidden[i].T @ grad
        grad = grad @ v.T
        du[i] = grad.T @ inputs[i]
        grad = grad @ us[i]
    expected.update({"gin.us": du, "gin.v": dv, "gin.x": grad})

    with tempfile.TemporaryDirectory() as folder:
        path = lambda name: os.path.join(folder, name)
        with open(path("m.mlir"), "w", encoding="utf-8") as file:
            file.write(MODEL)
        feed = {"x": x, "us": us, "v": v, "gout.y": g}
        tensors.write(
            path("in"), {name: a.astype(np.float32) for name, a in feed.items()}
        )
        compiler = os.path.join(options.bin, "bt-compile")
        flags = ("--vjp", "--target=cpu", "--precision=bf16")
        files = ("--inputs", path("in"), "--outputs", path("out"))
        for command in (
            (compiler, path("m.mlir"), *flags, "-o", path("m")),
            (path("m"), "call", *files, "--entry", "vjp"),
        ):
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        found = tensors.read(path("out"))
    for name, array in expected.items():
        if not np.array_equal(found[name], array):
            sys.exit(f"{name} is off by {np.max(np.abs(found[name] - array))}")
    print(f"exact, up to {max(np.max(np.abs(a)) for a in expected.values()):g}")


main()
