#!/usr/bin/env python3
"""The memory plan: a build that checks every access runs clean, what it saw is
what the report predicted, and the planner comes near the lower bound.

usage: memory.py --bin DIR --part gpt2|models|bound
"""
import json
import os
import re
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
from harness import HERE, Test, tensors, tokens  # noqa: E402

test = Test(
    __doc__,
    lambda parser: parser.add_argument(
        "--part", choices=("gpt2", "models", "bound"), required=True
    ),
)
ALIGNMENT = 64
NOTE = rb"memory check passed: at most (\d+) bytes live, high water at byte (\d+) of (\d+)"


def report(name):
    with open(test.path(name), encoding="utf-8") as file:
        return json.load(file)


def build(model, *flags):
    program = test.compile(model, "program", *flags, "--report=plan.json")
    return program, report("plan.json")


def check_bound(what, plan):
    for entry in [plan] + plan["entries"]:
        peak, bound = entry["peak_bytes"], entry["lower_bound"]
        where = entry.get("name", "all entries")
        test.check(
            0 < bound <= peak <= 1.02 * bound,
            f"{what}, {where}: {peak} bytes, lower bound {bound}",
        )


def check_note(what, plan, entries, done):
    """High-water mark of a run of these entries, state included."""
    found = re.search(NOTE, done.stderr)
    if not test.check(found, f"{what}: no memory check in {done.stderr[-300:]!r}"):
        return
    _, water, arena = map(int, found.groups())
    peaks = [e["peak_bytes"] for e in plan["entries"] if e["name"] in entries]
    expected = max(peaks)
    # The plan counts whole multiples of its alignment.
    test.check(
        -(-water // ALIGNMENT) * ALIGNMENT == expected,
        f"{what}: the run reached byte {water}, the plan predicted {expected}",
    )
    test.check(arena == plan["peak_bytes"], f"{what}: arena of {arena} bytes")


def call(what, program, plan, entry, inputs):
    """Runs one entry; names and shapes of all it reads come from `inputs`."""
    tensors.write(test.path("in.safetensors"), inputs)
    words = ("--entry", entry, "--inputs", "in.safetensors", "--outputs", "o")
    done = test.run(program, "call", *words)
    check_note(f"{what}, {entry}", plan, {entry}, done)
    return tensors.read(test.path("o"))


def parameters(text, rng):
    found, stack = {}, None
    for line in text.splitlines():
        opened = re.match(r'  %.*blu.stack "(\w+)" \[0 to (\d+)\]', line)
        stack = (opened.group(1), int(opened.group(2))) if opened else stack
        stack = None if line.startswith("  }") else stack
        param = re.search(r'blu.param "([^"]+)".* : tensor<([0-9x]+)xf32>', line)
        if param:
            shape = [int(e) for e in param.group(2).split("x")]
            for i in range(stack[1] if stack else 1):
                prefix = f"{stack[0]}.{i}." if stack else ""
                value = rng.normal(0, 0.3, shape).astype(np.float32)
                found[prefix + param.group(1)] = value
    return found


SCALARS = dict(
    **dict(lr=0.01, beta1=0.9, beta2=0.95, eps=1e-8, weight_decay=0.1, clip=1.0),
    **dict(loss_limit=np.inf, norm_limit=np.inf),
)


def gpt2():
    test.shard("data.bin", tokens(400, 64))
    model = test.gpt2()
    for more in ((), ("--remat=full", "--dropout=0.1", "--accum=2"), ("--remat=none",)):
        what = f"gpt2 {' '.join(more)}"
        flags = ("--batch=2", "--seq=8", "--debug-memory", *more)
        program, plan = build(model, *flags)
        words = ("--data", "data.bin", "--steps", 2, "--lr", "1e-2", "--quiet")
        save = ("--save", "w.safetensors")
        done = test.run(program, "train", *words, *save)
        check_note(what + ", train", plan, {"train"}, done)
        done = test.run(program, "train", *words, "--val", "data.bin")
        check_note(what + ", train with validation", plan, {"train", "eval"}, done)
        words = ("--weights", "w.safetensors", "--quiet")
        done = test.run(program, "eval", "--data", "data.bin", *words)
        check_note(what + ", eval", plan, {"eval"}, done)
        done = test.run(program, "generate", *words, "--prompt-tokens", "1,2,3")
        check_note(what + ", generate", plan, {"prefill", "decode"}, done)
        check_bound(what, plan)


def models():
    outputs, peaks = {}, {}
    for name, rows, width, classes in (
        ("nested", 5, 7, 11),
        ("mlp", 9, 13, 5),
        ("plain", 16, 8, 8),
        ("checkpoint", 16, 8, 8),
    ):
        rng = np.random.default_rng(3)
        source = os.path.join(HERE, "models", name + ".mlir")
        with open(source, encoding="utf-8") as file:
            inputs = parameters(file.read(), rng)
        inputs["x"] = rng.normal(0, 1, (rows, width)).astype(np.float32)
        inputs["label"] = rng.integers(0, classes, rows).astype(np.int32)
        flags = ("--batch=9",) if name == "mlp" else ()
        # What is recomputed is what the model says.
        flags += ("--remat=none", "--debug-memory")
        program, plan = build(source, *flags)
        scalars = {k: np.array(v) for k, v in SCALARS.items()}
        scalars["step"] = np.array(1)
        outputs[name] = call(name, program, plan, "train", inputs | scalars)
        call(name, program, plan, "eval", inputs)
        check_bound(name, plan)
        peaks[name] = next(
            e["peak_bytes"] for e in plan["entries"] if e["name"] == "train"
        )
    test.check(
        peaks["checkpoint"] < peaks["plain"],
        f"peak with regions that run again: {peaks['checkpoint']}, without: "
        f"{peaks['plain']}",
    )
    for name, value in outputs["plain"].items():
        test.check(
            value.tobytes() == outputs["checkpoint"][name].tobytes(),
            f"{name} differs with regions that run again",
        )


def bound():
    plan = ("--compile-to=plan", "--report=plan.json")
    large = dict(layers=12, heads=12, dim=768, vocab=50257, context=1024)
    middle = dict(layers=4, heads=4, dim=256, vocab=8192, context=256)
    for what, sizes, *flags in (
        ("124M", large, "--batch=1", "--seq=64"),
        ("benchmark", middle, "--batch=4", "--seq=256"),
        ("benchmark, full", middle, "--batch=4", "--seq=256", "--remat=full"),
        ("benchmark, none", middle, "--batch=4", "--seq=256", "--remat=none"),
        ("benchmark, accum", middle, "--batch=1", "--seq=256", "--accum=4"),
        ("odd", dict(layers=3, heads=3, dim=21, vocab=101), "--batch=5", "--seq=13"),
    ):
        model = test.gpt2(**sizes)
        test.run(test.tool("bt-compile"), model, *flags, *plan, "-o", "plan.mlir")
        check_bound(what, report("plan.json"))


{"gpt2": gpt2, "models": models, "bound": bound}[test.options.part]()
test.finish()
