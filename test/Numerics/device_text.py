#!/usr/bin/env python3
"""Trains the small GPT-2 that device_bundle.py left, and compares with the CPU.

usage: device_text.py DIR

Each program runs twice; metrics and weights have to agree in every bit. In fp32
the losses may be at most three times as far from the CPU program's in f64 as
those of the CPU program in f32 are, by their largest relative distance over all
steps: both round every operation to f32, in another order. In tf32 and bf16 the
distance is printed and has to stay below 1%. So it has to with programs compiled for
sm_80 or sm_89 alone, which run from the PTX that they carry.

Then the other commands: the validation loss is the CPU's, so is the text that is
generated in fp32, a resumed run ends in the bits of an uninterrupted one, tune
writes a file that training takes, --profile a trace that can be read.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

import numpy as np

ROUNDED = 1e-2
# Relative distance of a validation loss from the CPU program's in f32.
EVALUATED = {"fp32": 1e-6, "tf32": 1e-3, "bf16": 1e-2}


def losses(path):
    with open(path, encoding="utf-8") as file:
        return np.array([row["loss"] for row in map(json.loads, file) if "loss" in row])


class Program:
    """A program of the folder, run by command; any failure ends the script."""

    def __init__(self, folder, precision):
        self.path = lambda name: os.path.join(folder, name)
        self.precision = precision

    def run(self, *words):
        words = [self.path(self.precision), *words]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            line = " ".join(words)
            sys.exit(f"{line}\nexit code {done.returncode}: {done.stderr}")
        return done.stdout

    def train(self, scratch, *words):
        """Losses by step and the bytes of the final weights."""
        at = lambda name: os.path.join(scratch, name)
        data = ("--data", self.path("t_train_000000.bin"))
        self.run("train", *data, "--metrics", at("m"), "--save", at("w"), *words)
        with open(at("w"), "rb") as file:
            return losses(at("m")), file.read()


def check_commands(program, folder, flags):
    """The commands besides a plain train; returns what differs."""
    path = lambda name: os.path.join(folder, name)
    problems = []
    weights = ("--weights", path("weights.safetensors"))
    out = program.run("eval", "--data", path("t_val_000000.bin"), *weights)
    number = lambda text: float(re.search(r"loss\D*([0-9.]+)", text).group(1))
    with open(path("cpu-eval"), encoding="utf-8") as file:
        wanted = number(file.read())
    if abs(number(out) / wanted - 1) > EVALUATED[program.precision]:
        problems.append(f"eval: loss {number(out)}, on the CPU {wanted}")
    if program.precision == "fp32":
        words = "--max-tokens 60 --temperature 0".split()
        text = program.run("generate", *weights, "--prompt", "In the beginning", *words)
        with open(path("cpu-generate"), encoding="utf-8") as file:
            if text != file.read():
                problems.append("generate: another text than on the CPU")
    with tempfile.TemporaryDirectory() as scratch:
        at = lambda name: os.path.join(scratch, name)
        keep = ("--checkpoint-dir", at("c"), "--checkpoint-every", "7")
        whole = program.train(scratch, *flags)
        # The schedule is a function of --steps: stop by taking the checkpoint back.
        program.train(scratch, *flags, *keep, "--keep", "0")
        for name in os.listdir(at("c")):
            if name.startswith("step-") and int(name[5:]) > 105:
                shutil.rmtree(os.path.join(at("c"), name))
        resumed = program.train(scratch, *flags, *keep, "--resume")
        if resumed[1] != whole[1]:
            problems.append("resume: other weights than without a stop")
        program.run("tune", "-o", at("g.json"), "--repeat", "2")
        tuned = program.train(scratch, *flags, "--tune", at("g.json"))
        if not np.all(np.isfinite(tuned[0])):
            problems.append("tune: a loss is not finite")
        program.train(scratch, *flags, "--profile", at("trace.json"))
        with open(at("trace.json"), encoding="utf-8") as file:
            if not json.load(file)["traceEvents"]:
                problems.append("profile: the trace is empty")
    return problems


def main():
    folder = sys.argv[1]
    path = lambda name: os.path.join(folder, name)
    with open(path("flags"), encoding="utf-8") as file:
        flags = file.read().split()
    exact, cpu = losses(path("cpu-fp64.jsonl")), losses(path("cpu-fp32.jsonl"))
    distance = lambda found: float(np.max(np.abs(found / exact - 1)))
    failures = 0
    print(f"cpu fp32: {distance(cpu):.3g} from f64, last loss {cpu[-1]:.6f}")
    for precision in ("fp32", "tf32", "bf16"):
        program = Program(folder, precision)
        runs = []
        for _ in range(2):
            with tempfile.TemporaryDirectory() as scratch:
                runs.append(program.train(scratch, *flags))
        same = runs[0][1] == runs[1][1] and np.array_equal(runs[0][0], runs[1][0])
        found = distance(runs[0][0])
        limit = 3 * distance(cpu) if precision == "fp32" else ROUNDED
        ok = same and found <= limit
        failures += not ok
        print(
            f"{precision}: {found:.3g} from f64, at most {limit:.3g}; last loss "
            f"{runs[0][0][-1]:.6f}; two runs {'agree' if same else 'DIFFER'}"
            f"{'' if ok else ' FAILED'}"
        )
        for arch in ("sm_80", "sm_89"):
            with tempfile.TemporaryDirectory() as scratch:
                other = Program(folder, f"{precision}-{arch}").train(scratch, *flags)
            found = distance(other[0])
            ok = found <= limit
            failures += not ok
            print(f"{precision} of {arch}: {found:.3g} from f64{'' if ok else ' FAILED'}")
        for problem in check_commands(program, folder, flags):
            failures += 1
            print(f"{precision}: FAILED {problem}")
    print(f"text: {failures} failures")
    sys.exit(1 if failures else 0)


main()
