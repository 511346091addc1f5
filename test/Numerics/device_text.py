#!/usr/bin/env python3
"""Trains the small GPT-2 that device_bundle.py left, and compares with the CPU.

usage: device_text.py DIR

Each program runs twice; metrics and weights have to agree in every bit. In fp32
the losses may be at most three times as far from the CPU program's in f64 as
those of the CPU program in f32 are, by their largest relative distance over all
steps: both round every operation to f32, in another order. In tf32 and bf16 the
distance is printed and has to stay below 1%.
"""
import json
import os
import subprocess
import sys
import tempfile

import numpy as np

ROUNDED = 1e-2


def losses(path):
    with open(path, encoding="utf-8") as file:
        return np.array([row["loss"] for row in map(json.loads, file) if "loss" in row])


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
        runs = []
        for _ in range(2):
            with tempfile.TemporaryDirectory() as scratch:
                at = lambda name: os.path.join(scratch, name)
                words = [path(precision), "train", "--data", path("t_train_000000.bin")]
                words += [*flags, "--metrics", at("m"), "--save", at("w")]
                done = subprocess.run(words, capture_output=True, text=True, check=False)
                if done.returncode:
                    sys.exit(f"{precision}: exit code {done.returncode}: {done.stderr}")
                with open(at("w"), "rb") as file:
                    runs.append((losses(at("m")), file.read()))
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
    print(f"text: {failures} failures")
    sys.exit(1 if failures else 0)


main()
