#!/usr/bin/env python3
"""Runs programs that `ops.py --prepare` left, and compares their results.

usage: device_check.py DIR [--filter REGEX]

Each folder of DIR holds a program, its inputs, expected results and tolerances.
A program is run twice; the two runs have to agree in every bit. Needs numpy and
what the program needs, nothing else of BluTrain.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile

import tensors
import tolerance


def check(folder, failures):
    """The worst error in units of its tolerance."""
    name = os.path.basename(folder)
    path = lambda file: os.path.join(folder, file)
    runs = []
    with tempfile.TemporaryDirectory() as scratch:
        for run in range(2):
            out = os.path.join(scratch, f"{run}.safetensors")
            words = [path("program"), "call", "--entry", "vjp"]
            words += ["--inputs", path("in.safetensors"), "--outputs", out]
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            if done.returncode:
                failures.append(f"{name}: exit code {done.returncode}: {done.stderr}")
                return float("nan")
            runs.append(tensors.read(out))
    worst = 0.0
    limits = tensors.read(path("limit.safetensors"))
    for key, expected in tensors.read(path("expected.safetensors")).items():
        if runs[0][key].tobytes() != runs[1][key].tobytes():
            failures.append(f"{name}/{key}: two runs differ")
        error, where = tolerance.ratio(runs[0][key], expected, limits[key])
        worst = max(worst, error) if error == error else error
        if not error <= 1:
            failures.append(f"{name}/{key}{list(where)}: {error:.3g} of its tolerance")
    return worst


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--filter", default="")
    args = parser.parse_args()
    failures, worst, count = [], (0.0, "none"), 0
    for name in sorted(os.listdir(args.folder)):
        folder = os.path.join(args.folder, name)
        if not os.path.exists(os.path.join(folder, "expected.safetensors")):
            continue
        if not re.search(args.filter, name):
            continue
        count += 1
        error = check(folder, failures)
        if error > worst[0]:
            worst = (error, name)
    for failure in failures:
        print(f"FAILED {failure}")
    print(
        f"{count} cases, {len(failures)} failures, "
        f"worst {worst[0]:.3g} of its tolerance in {worst[1]}"
    )
    sys.exit(1 if failures or not count else 0)


main()
