#!/usr/bin/env python3
"""Programs whose logits are padded to an aligned number of columns do what those
do that compute as many as there are classes: losses, gradients, weights and
moments, evaluation, generation. Nothing outside the program shows the padding,
and each goes on from the other's checkpoints.

usage: vocabulary.py --bin DIR --part tied|variants|heads|files
"""
import json
import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
from harness import HERE, Test, tensors, tokens, tolerance  # noqa: E402

PARTS = ("tied", "variants", "heads", "files")
test = Test(
    __doc__, lambda parser: parser.add_argument("--part", choices=PARTS, required=True)
)
STEPS = 4
# Programs differ in the order of additions alone, but in bf16, where rounding another
# last bit of an f32 changes one of a bf16.
LIMITS = {"fp64": 1e-11, "fp32": 3e-5, "bf16": 3e-2}


def build(model, *flags, name="p"):
    """The program without padding and the one with it."""
    return [
        test.compile(model, f"{name}{multiple}", *flags, f"--pad-vocab={multiple}")
        for multiple in (0, 64)
    ]


def apart(a, b):
    """The largest difference, relative to the size of all elements."""
    a, b = np.asarray(a, float), np.asarray(b, float)
    size = np.sqrt(np.mean(np.square(b)))
    return np.max(np.abs(a - b)) / size if size else np.max(np.abs(a))


def compare(what, found, expected, limit):
    test.check(found.keys() == expected.keys(), f"{what}: {sorted(found)}")
    for name, value in expected.items():
        if test.check(
            found[name].shape == value.shape,
            f"{what}: {name} has shape {found[name].shape}, expected {value.shape}",
        ):
            distance = apart(found[name], value)
            test.check(
                distance <= limit,
                f"{what}: {name} is {distance:.3g} apart, at most {limit:.3g}",
            )


def train_all(what, model, vocab, *flags):
    """A run of each program. Adam's second step divides by gradients that may be
    all rounding, so eps is large."""
    precision = next(f[12:] for f in flags if f.startswith("--precision="))
    limit = LIMITS[precision]
    test.shard("data.bin", tokens(400, vocab, seed=2))
    runs = []
    for program in build(model, *flags):
        more = ("--dump-grads", "grads.safetensors", "--weight-decay", "0.1")
        if "--optimizer=sgd" not in flags:
            more += ("--eps", "1e-3")
        metrics, _ = test.train(program, *more, steps=STEPS)
        runs.append(
            (
                metrics,
                tensors.read(test.path("grads.safetensors")),
                tensors.read(test.path("run.safetensors")),
            )
        )
    plain, padded = runs
    test.check(len(plain[0]) == len(padded[0]) == STEPS, f"{what}: lines of metrics")
    for kind in ("loss", "grad_norm"):
        rows = [[line[kind] for line in run[0]] for run in runs]
        distance = apart(rows[1], rows[0])
        test.check(distance <= limit, f"{what}: {kind} {rows[1]}, expected {rows[0]}")
    compare(f"{what}, gradients", padded[1], plain[1], limit)
    compare(f"{what}, weights", padded[2], plain[2], limit)


def stage(model, *flags):
    words = ("--compile-to=blu", "-o", "stage.mlir")
    test.run(test.tool("bt-compile"), model, *flags, *words)
    return test.bytes("stage.mlir").decode()


SIZES = ("--batch=3", "--seq=8")
PADDED = "classes = 61"


def tied():
    model = test.gpt2(layers=1, vocab=61)
    # Whether there is something to compare at all.
    for flags, holds in (
        ((), False),
        (("--pad-vocab=8",), True),
        (("--target=cuda",), True),
        (("--target=cuda", "--pad-vocab=0"), False),
    ):
        text = stage(model, *SIZES, *flags)
        test.check((PADDED in text) == holds, f"{flags}: padded is not {holds}")
    for precision in LIMITS:
        train_all(f"tied, {precision}", model, 61, *SIZES, f"--precision={precision}")


def variants():
    model = test.gpt2(layers=1, vocab=61)
    for precision, more in (
        ("fp64", ("--accum=3", "--optimizer=sgd")),
        ("fp64", ("--loss-head-bytes=8192",)),
        ("bf16", ("--accum=2", "--loss-head-bytes=2048", "--remat=full")),
    ):
        flags = (*SIZES, f"--precision={precision}", *more)
        train_all(f"tied, {' '.join(flags[2:])}", model, 61, *flags)


def heads():
    model = os.path.join(HERE, "models", "heads.mlir")
    text = stage(model, *SIZES, "--pad-vocab=64")
    test.check(text.count(PADDED) == 4, f"two heads of two programs\n{text}")
    for precision, more in (("fp64", ()), ("bf16", ()), ("bf16", ("--accum=3",))):
        flags = (*SIZES, f"--precision={precision}", *more)
        train_all(f"heads, {' '.join(flags[2:])}", model, 61, *flags)


def files():
    """253 are bytes, so that text can be generated."""
    vocab = 253
    model = test.gpt2(layers=1, vocab=vocab, context=24)
    test.shard("data.bin", tokens(600, vocab, seed=3))
    for precision in ("fp64", "bf16"):
        limit = LIMITS[precision]
        programs = build(model, "--batch=2", "--seq=12", f"--precision={precision}")
        infos = [test.run(p, "info").stdout.decode().splitlines() for p in programs]
        count = [[line for line in info if "parameters" in line] for info in infos]
        test.check(count[0] and count[0] == count[1], f"parameters: {count}")
        # Half a run of each, and the rest by both.
        done = []
        for i, program in enumerate(programs):
            keep = ("--checkpoint-dir", f"{precision}-{i}", "--checkpoint-every=2")
            test.train(program, "--eps=1e-3", *keep, "--keep=0", steps=STEPS)
            done.append(tensors.read(test.path("run.safetensors")))
        compare(f"{precision}, whole runs", done[1], done[0], limit)
        for i, j in ((0, 1), (1, 0)):
            place = test.path(f"{precision}-{i}")
            last = os.path.join(place, f"step-{STEPS:08}")
            with open(os.path.join(last, "manifest.json"), encoding="utf-8") as file:
                kept = json.load(file)["files"]
            shapes = {
                tuple(t["shape"])
                for file in kept.values()
                for name, t in file["tensors"].items()
                if name.endswith("wte.weight")
            }
            test.check(shapes == {(vocab, 16)}, f"shapes in a checkpoint: {shapes}")
            # All is done: what was restored is saved, bit by bit.
            resume = ("--checkpoint-dir", place, "--resume", "--eps=1e-3")
            test.train(programs[j], *resume, steps=STEPS, out="same")
            same = tensors.read(test.path("same.safetensors"))
            before = tensors.read(os.path.join(last, "weights.safetensors"))
            for name, value in before.items():
                test.check(
                    same[name].tobytes() == value.tobytes(),
                    f"{precision}, checkpoint of {i} in {j}: {name} changed",
                )
            # From the middle on, with the moments of the other.
            test.run("rm", "-r", last)
            test.train(programs[j], *resume, steps=STEPS, out="rest")
            rest = tensors.read(test.path("rest.safetensors"))
            compare(f"{precision}, {i} continued by {j}", rest, done[0], limit)
        # Weights of one in the other: what is generated is not padded at all.
        weights = ("--weights", "run.safetensors")
        losses, texts = [], []
        for program in programs:
            words = ("--val-batches=3", "--metrics", "eval.jsonl", "--quiet")
            test.run(program, "eval", "--data", "data.bin", *weights, *words)
            losses.append([line["val_loss"] for line in test.lines("eval.jsonl")])
            words = ("--prompt", "Hello", "--max-tokens=12", "--temperature=0.8", "--quiet")
            texts.append(test.run(program, "generate", *weights, *words).stdout)
        test.check(apart(losses[1], losses[0]) <= limit, f"eval: {losses}")
        test.check(texts[0] == texts[1], f"generate: {texts}")
        # Columns of padding are no tokens.
        test.shard("bad.bin", [vocab] * 600)
        for program in programs:
            words = ("train", "--data", "bad.bin", "--steps=1", "--lr=1", "--quiet")
            test.refuse(rf"token.*{vocab}", program, *words)


dict(tied=tied, variants=variants, heads=heads, files=files)[test.options.part]()
test.finish()
