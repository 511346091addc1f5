#!/usr/bin/env python3
"""One step of K microbatches is the step of one batch, whatever K is and however
many labels of each microbatch are ignored: loss, gradients and new weights.

usage: weighted.py --bin DIR --part tokens|chunks|classifier
"""
import os
import re
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
from harness import Test, tensors, tolerance  # noqa: E402

PARTS = ("tokens", "chunks", "classifier")
test = Test(
    __doc__, lambda parser: parser.add_argument("--part", choices=PARTS, required=True)
)
ROWS, T, VOCAB, IGNORED = 16, 6, 23, -100
MICROBATCHES = (1, 2, 4, 8, 16)
FLOATS = {"fp64": np.float64, "fp32": np.float32}
SCALARS = dict(
    **dict(lr=0.01, beta1=0.9, beta2=0.95, eps=1e-3, weight_decay=0.1, clip=0.0),
    **dict(loss_limit=np.inf, norm_limit=np.inf),
)
rng = np.random.default_rng(5)


def step(program, inputs, count):
    inputs = dict(inputs)
    for name in names:
        shape = inputs[name].shape
        if count > 1:
            inputs[name] = inputs[name].reshape(count, ROWS // count, *shape[1:])
    inputs |= {k: np.array(v) for k, v in SCALARS.items()} | {"step": np.array(1)}
    inputs["seed"] = np.array(1)
    tensors.write(test.path("in.safetensors"), inputs)
    words = ("--entry", "train", "--inputs", "in.safetensors", "--state", "--quiet")
    test.run(program, "call", *words, "--outputs", "out.safetensors")
    return tensors.read(test.path("out.safetensors"))


def compare(model, flags, inputs, params, counts=MICROBATCHES):
    for precision, dtype in FLOATS.items():
        unit = tolerance.UNIT["f64" if precision == "fp64" else "f32"]
        reference = None
        for count in counts if precision == "fp64" else counts[::2]:
            words = (f"--batch={ROWS // count}", f"--accum={count}", *flags)
            program = test.compile(model, "p", *words, f"--precision={precision}")
            given = {
                k: v.astype(dtype) if v.dtype.kind == "f" else v
                for k, v in (inputs | params).items()
            }
            found = step(program, given, count)
            what = f"{os.path.basename(model)} {precision}, {count} microbatches"
            test.check(bool(found["applied"]), f"{what}: the step was not applied")
            if reference is None:
                reference = found
                continue
            test.check(found.keys() == reference.keys(), f"{what}: {found.keys()}")
            for name, expected in reference.items():
                if expected.dtype.kind != "f":
                    continue
                size = np.sqrt(np.mean(np.square(expected, dtype=float)))
                limit = 2000 * unit * max(size, 1e-3)
                worst = np.max(np.abs(found[name].astype(float) - expected))
                test.check(
                    worst <= limit,
                    f"{what}: {name} differs by {worst:.3g}, at most {limit:.3g}",
                )


def parameters(source):
    """Random values of the parameters, by the names that `call` reads."""
    with open(source, encoding="utf-8") as file:
        lines = file.read().splitlines()
    found, stack = {}, None
    for line in lines:
        if at := re.search(r'blu\.stack "(\w+)" \[(\d+) to (\d+)\]', line):
            stack = at.group(1), int(at.group(2)), int(at.group(3))
        elif stack and re.search(r"blu\.yield", line):
            stack = None
        if param := re.search(r'blu\.param "([^"]+)".*: tensor<([0-9x]+)xf32>', line):
            shape = [int(e) for e in param.group(2).split("x")]
            for i in range(stack[1], stack[2]) if stack else (None,):
                name = param.group(1) if i is None else f"{stack[0]}.{i}.{param.group(1)}"
                found[name] = rng.normal(0, 0.3, shape)
    return found



def language_model(chunks):
    """Rows with all, some, one and none of their labels counted."""
    global names
    model = test.gpt2(layers=1, heads=2, dim=8, vocab=VOCAB, context=T)
    targets = rng.integers(0, VOCAB, (ROWS, T)).astype(np.int32)
    for row in range(ROWS):
        targets[row, : (row * 5) % (T + 1)] = IGNORED
    targets[:2] = IGNORED
    inputs = dict(
        tokens=rng.integers(0, VOCAB, (ROWS, T)).astype(np.int32), targets=targets
    )
    names = list(inputs)
    flags = (f"--seq={T}", *(("--loss-head-bytes=400",) if chunks else ()))
    counts = (1, 4, 8) if chunks else MICROBATCHES
    compare(model, flags, inputs, parameters(model), counts)


def classifier():
    """A few ignored labels, whole microbatches of them among these."""
    global names
    test.run(
        test.tool("bt-model"),
        *("mlp", "--inputs", 5, "--hidden", "7", "--classes", 3, "-o", "mlp.mlir"),
    )
    label = rng.integers(0, 3, ROWS).astype(np.int32)
    label[[0, 1, 2, 3, 9, 12]] = IGNORED
    inputs = dict(image=rng.normal(0, 1, (ROWS, 5)), label=label)
    names = list(inputs)
    model = test.path("mlp.mlir")
    compare(model, (), inputs, parameters(model))

    # Without a label that counts there is no mean, and the step changes nothing.
    program = test.compile(model, "none", "--batch=4", "--accum=4")
    given = inputs | parameters(model)
    given = {
        k: v.astype(np.float32) if v.dtype.kind == "f" else v for k, v in given.items()
    }
    given["label"] = np.full_like(label, IGNORED)
    found = step(program, given, 4)
    test.check(np.isnan(found["loss"]), f"loss {found['loss']} of no labels")
    test.check(not found["applied"], "a step without labels was applied")
    for name, value in given.items():
        if name in found:
            test.check(found[name].tobytes() == value.tobytes(), f"{name} changed")


names = []
if test.options.part == "classifier":
    classifier()
else:
    language_model(chunks=test.options.part == "chunks")
test.finish()
