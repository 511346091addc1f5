#!/usr/bin/env python3
"""Models written by hand and random GPT-2s: loss and every gradient of the
compiled vector-Jacobian product against the interpreter, in f64 to 1e-9 and in
f32 within tolerance.py.

usage: models.py --bin DIR [--models NAME …] [--gpt2 COUNT] [--first SEED]
"""
import os
import random
import re
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
from harness import HERE, Test, tensors, tolerance  # noqa: E402

FUNCTION = tolerance.FUNCTION


def flags(parser):
    parser.add_argument("--models", nargs="*", default=[])
    parser.add_argument("--gpt2", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)


test = Test(__doc__, flags)

# Reduction lengths on the longest path through each model and back: linear maps
# K + 1 and back N, softmax N + FUNCTION + 3 and back, and so on; the last is the
# number of rows that a parameter's gradient adds up.
LOSS = lambda n: [n + 2 * FUNCTION + 3, n + FUNCTION + 6]
NESTED = [7] + 3 * ([8, 7] + 2 * [FUNCTION, FUNCTION + 3, 1, 1, 2, 5]) + [
    *(17 + FUNCTION + 3, 2 * 17 + 2 * FUNCTION + 8, 2, 18, 11),
    *LOSS(11),
    5,
]
MIDDLE = [512 + FUNCTION + 3, 2 * 512 + 2 * FUNCTION + 8, FUNCTION + 3, FUNCTION, 1, 1]
WIDE = 2 * ([9, 8, 513, 512, FUNCTION + 5, FUNCTION + 5] + MIDDLE) + LOSS(8) + [16]
MLP = [14, 13, 19 + 5, 2 * 19 + 12, 20, 17, FUNCTION + 4, FUNCTION + 8, 18, 5]
MODELS = {
    "nested": ((), NESTED),
    "plain": ((), WIDE),
    "checkpoint": ((), WIDE),
    "mlp": (("--batch=9",), MLP + LOSS(5) + [9]),
}


def static_text(source, sizes):
    """The model with its unknown dims replaced, as bt-opt does it."""
    words = [test.tool("bt-opt"), source]
    batch, seq = sizes
    if batch:
        option = f"batch={batch} seq={seq} train-only=true"
        words.insert(1, f"--blu-instantiate-programs={option}")
    return test.run(*words).stdout.decode()


def compare(what, sizes, source, lengths, inputs, dtypes=("f64", "f32")):
    text = static_text(source, sizes)
    static = test.write("static.mlir", text)
    test.run(test.tool("bt-opt"), "--blu-vjp", static, "-o", "vjp.mlir")
    for dtype in dtypes:
        # The same numbers for both, those that the dtype holds.
        feed = {
            k: v.astype(np.float32).astype(v.dtype)
            if dtype == "f32" and v.dtype.kind == "f"
            else v
            for k, v in inputs.items()
        }
        tensors.write(test.path("in.safetensors"), feed)
        files = ("--inputs", "in.safetensors", "--outputs", "out.safetensors")
        test.run(test.tool("bt-run"), "vjp.mlir", *files)
        exact = tensors.read(test.path("out.safetensors"))
        test.compile(static, "program", "--vjp", f"--precision=fp{dtype[1:]}")
        test.run(test.path("program"), "call", "--entry", "vjp", *files)
        actual = tensors.read(test.path("out.safetensors"))
        test.check(
            set(exact) <= set(actual),
            f"{what} in {dtype}: no results {sorted(set(exact) - set(actual))}",
        )
        relative = 1e-9 if dtype == "f64" else tolerance.path("f32", lengths)
        for name, expected in exact.items():
            size = np.sqrt(np.mean(np.square(expected)))
            # A row of an embedding's gradient is the sum of what came to its id.
            if re.search(r"w[tp]e.weight$", name):
                rows = np.sqrt(np.mean(np.square(expected), axis=1, keepdims=True))
                size = np.maximum(size, rows)
            limit = relative * np.maximum(np.abs(expected), size)
            error, where = tolerance.ratio(actual.get(name, 0), expected, limit)
            test.check(
                error <= 1,
                f"{what} in {dtype}: {name}{where}: {error:.3g} of its tolerance",
            )


def parameters(text, rng):
    """Values of every parameter of a model, those of stacks by iteration.

    Matrices keep the size of what goes through them, as tolerance.path assumes:
    it follows errors that add up, not ones that a layer amplifies.
    """
    found, count = {}, [1]
    for line in text.splitlines():
        stack = re.search(r'blu.stack "(\w+)" \[0 to (\d+)\]', line)
        if stack:
            count.append((stack.group(1), int(stack.group(2))))
        elif re.match(r"\s*\}", line) and len(count) > 1:
            count.pop()
        param = re.search(r'blu.param "([^"]+)".* : tensor<([0-9x]+)xf32>', line)
        if not param:
            continue
        shape = [int(e) for e in param.group(2).split("x")]
        for i in range(count[1][1] if len(count) > 1 else 1):
            prefix = f"{count[1][0]}.{i}." if len(count) > 1 else ""
            value = rng.normal(0, shape[-1] ** -0.5, shape)
            if len(shape) == 1 and "bias" not in param.group(1):
                value += 1
            found[prefix + param.group(1)] = value
    return found


if test.options.models:
    for name in test.options.models:
        more, lengths = MODELS[name]
        rng = np.random.default_rng(7)
        source = os.path.join(HERE, "models", name + ".mlir")
        with open(source, encoding="utf-8") as file:
            text = file.read()
        inputs = parameters(text, rng)
        rows = 9 if more else int(re.search(r"%x: tensor<(\d+)x", text).group(1))
        width = int(re.search(r"%x: tensor<[?\d]+x(\d+)x", text).group(1))
        classes = int(re.findall(r"tensor<[?\d]+x(\d+)xf32>, tensor<[?\d]+xi32>", text)[0])
        inputs["x"] = rng.normal(0, 1, (rows, width))
        inputs["label"] = rng.integers(0, classes, rows).astype(np.int32)
        inputs["label"][1] = -100
        inputs["gout.loss"] = np.array(0.75)
        compare(name, (9, 0) if more else (0, 0), source, lengths, inputs)

for seed in range(test.options.first, test.options.first + test.options.gpt2):
    draw = random.Random(seed)
    heads = draw.choice([1, 2, 3, 5])
    config = dict(
        layers=draw.randint(1, 3),
        heads=heads,
        dim=heads * draw.choice([1, 3, 4, 7, 8, 16]),
        vocab=draw.choice([2, 3, 17, 64, 101, 127, 256, 509]),
        context=draw.choice([5, 16, 33, 70]),
    )
    batch, length = draw.randint(1, 4), draw.randint(1, config["context"])
    what = f"gpt2 of seed {seed} {config} B={batch} T={length}"
    source = test.gpt2(**config)
    with open(source, encoding="utf-8") as file:
        text = file.read()
    rng = np.random.default_rng(seed)
    inputs = parameters(text, rng)
    inputs["tokens"] = rng.integers(0, config["vocab"], (batch, length)).astype("i4")
    inputs["targets"] = rng.integers(0, config["vocab"], (batch, length)).astype("i4")
    inputs["gout.loss"] = np.array(1.0)
    lengths = tolerance.gpt2_lengths(
        config["layers"],
        config["dim"],
        heads,
        config["vocab"],
        length,
        batch * length,
    )
    # A layer norm of a few elements has few results (of two: ±1, whatever its
    # input), so cancellation leaves next to nothing of its gradient. In f64 enough.
    dtypes = ("f64", "f32") if config["dim"] >= 16 else ("f64",)
    compare(what, (batch, length), source, lengths, inputs, dtypes)
test.finish()
