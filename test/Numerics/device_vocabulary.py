#!/usr/bin/env python3
"""A small GPT-2 with an odd vocabulary, whose logits are padded, against the CPU
program, whose are not.

usage: device_vocabulary.py --prepare --bin DIR [--arch LIST] DIR
       device_vocabulary.py DIR

The first leaves in DIR for each precision a program with padding and one without,
and what the CPU program gives in f64 and f32. The second runs each program twice,
whose results have to agree in every bit. In fp32, losses and gradients may be at
most three times as far from f64 as the CPU program's in f32; in any precision with
padding at most three times as far as without. Then each goes on from the other's
checkpoint, and evaluates the same weights.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import tensors

SIZES = "--layers 2 --heads 2 --dim 128 --vocab 8197 --context 64".split()
VOCAB, STEPS = 8197, 12
BATCH = ("--batch", "4", "--seq", "64", "--accum", "2")
TRAIN = f"--steps {STEPS} --lr 1e-3 --eps 1e-6 --seed 5 --quiet".split()
PRECISIONS = ("fp32", "tf32", "bf16")
# Relative distance of losses, whatever the rounding.
ROUNDED = 1e-2
# A distance that says nothing, of losses in f32.
NOISE = 1e-6


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(words)}\nexit code {done.returncode}: {done.stderr}")
    return done.stdout


def rows(path, key):
    with open(path, encoding="utf-8") as file:
        return np.array([row[key] for row in map(json.loads, file) if key in row])


def train(program, data, place, *words):
    """Losses, gradients of step 0, and the bytes of the final weights."""
    at = lambda name: os.path.join(place, name)
    files = ("--metrics", at("m"), "--save", at("w"), "--dump-grads", at("g"))
    run(program, "train", "--data", data, *TRAIN, *files, *words)
    with open(at("w"), "rb") as file:
        return rows(at("m"), "loss"), tensors.read(at("g")), file.read()


def prepare(args):
    at = lambda name: os.path.join(args.folder, name)
    os.makedirs(args.folder, exist_ok=True)
    tool = lambda name: os.path.join(args.bin, name)
    # Frequent and rare tokens, the last one of the vocabulary among them.
    random = np.random.default_rng(3)
    count = STEPS * 2 * 4 * 64 + 65
    tokens = np.minimum(random.zipf(1.2, count) - 1, VOCAB - 1)
    tokens[::7] = random.integers(0, VOCAB, len(tokens[::7]))
    header = np.zeros(256, dtype="<i4")
    header[:3] = 20240520, 1, count
    with open(at("data.bin"), "wb") as file:
        file.write(header.tobytes() + tokens.astype("<u2").tobytes())
    run(tool("bt-model"), "gpt2", *SIZES, "-o", at("gpt2.mlir"))
    compiler = (tool("bt-compile"), at("gpt2.mlir"), *BATCH)
    for precision in ("fp32", "fp64"):
        name = at(f"cpu-{precision}")
        run(*compiler, "--precision", precision, "-o", name)
        with tempfile.TemporaryDirectory() as scratch:
            losses, grads, weights = train(name, at("data.bin"), scratch)
        found = {k: v.astype(np.float32) for k, v in grads.items()}
        tensors.write(at(f"cpu-{precision}.safetensors"), found | {"losses": losses})
        if precision == "fp32":
            with open(at("weights.safetensors"), "wb") as file:
                file.write(weights)
        os.remove(name)
    flags = ("--target", "cuda", "--arch", args.arch)
    for precision in PRECISIONS:
        for name, more in ((f"{precision}", ()), (f"{precision}-plain", ("--pad-vocab=0",))):
            run(*compiler, *flags, "--precision", precision, *more, "-o", at(name))


def distance(found, exact):
    """Of losses, and the largest of a tensor's gradient."""
    apart = lambda a, b: float(np.linalg.norm(np.subtract(a, b, dtype=float)) / np.linalg.norm(b))
    losses, grads = found
    return np.array(
        [apart(losses, exact["losses"]), max(apart(v, exact[k]) for k, v in grads.items())]
    )


def evaluate(program, at):
    with tempfile.TemporaryDirectory() as scratch:
        metrics = os.path.join(scratch, "m")
        words = ("--data", at("data.bin"), "--weights", at("weights.safetensors"))
        run(program, "eval", *words, "--val-batches", "4", "--quiet", "--metrics", metrics)
        return rows(metrics, "val_loss")[0]


def check(args):
    at = lambda name: os.path.join(args.folder, name)
    read = lambda name: tensors.read(at(f"{name}.safetensors"))
    exact, single = read("cpu-fp64"), read("cpu-fp32")
    cpu = np.maximum(distance((single.pop("losses"), single), exact), NOISE)
    print(f"cpu fp32: losses {cpu[0]:.3g}, gradients {cpu[1]:.3g} from f64")
    failures = []
    for precision in PRECISIONS:
        found, whole, losses = {}, {}, {}
        for kind in ("", "-plain"):
            name = precision + kind
            runs = []
            for _ in range(2):
                with tempfile.TemporaryDirectory() as scratch:
                    runs.append(train(at(name), at("data.bin"), scratch))
            same = runs[0][2] == runs[1][2] and np.array_equal(runs[0][0], runs[1][0])
            if not same:
                failures.append(f"{name}: two runs differ")
            if any(v.shape != exact[k].shape for k, v in runs[0][1].items()):
                failures.append(f"{name}: a gradient has another shape than on the CPU")
            found[kind] = distance(runs[0][:2], exact)
            whole[kind] = runs[0][0]
            losses[kind] = evaluate(at(name), at)
            print(f"{name}: losses {found[kind][0]:.3g}, gradients {found[kind][1]:.3g}")
        limit = 3 * cpu if precision == "fp32" else np.array([ROUNDED, 1.0])
        for what, value, plain, most in zip(
            ("losses", "gradients"), found[""], found["-plain"], limit
        ):
            if not value <= most:
                failures.append(f"{precision}: {what} {value:.3g}, at most {most:.3g}")
            if not value <= 3 * plain + NOISE:
                failures.append(f"{precision}: {what} {value:.3g}, unpadded {plain:.3g}")
        if not abs(losses[""] / losses["-plain"] - 1) <= 3 * found["-plain"][0] + NOISE:
            failures.append(f"{precision}: evaluated to {losses}")
        for first, second in (("", "-plain"), ("-plain", "")):
            with tempfile.TemporaryDirectory() as scratch:
                folder = os.path.join(scratch, "c")
                keep = ("--checkpoint-dir", folder, "--checkpoint-every", "5", "--keep", "0")
                train(at(precision + first), at("data.bin"), scratch, *keep)
                for name in os.listdir(folder):
                    if name.startswith("step-") and int(name[5:]) > 5:
                        shutil.rmtree(os.path.join(folder, name))
                words = (*keep, "--resume")
                rest, _, _ = train(at(precision + second), at("data.bin"), scratch, *words)
            # The metrics were cut to the steps before and appended to.
            apart = np.max(np.abs(rest / whole[""] - 1)) if len(rest) == STEPS else np.inf
            if not apart <= 3 * found["-plain"][0] + NOISE:
                failures.append(f"{precision}: resumed, losses are {apart:.3g} apart")
    for failure in failures:
        print(f"FAILED {failure}")
    print(f"vocabulary: {len(failures)} failures")
    sys.exit(1 if failures else 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--prepare", action="store_true")
    parser.add_argument("--bin", default="")
    parser.add_argument("--arch", default="sm_80,sm_90a")
    args = parser.parse_args()
    (prepare if args.prepare else check)(args)


if __name__ == "__main__":
    main()
