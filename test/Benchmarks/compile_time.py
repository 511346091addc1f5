#!/usr/bin/env python3
"""Times bt-compile: GPT-2 124M (B=1, T=64) and three of its steps, and models of 12
and 48 layers, which should compile in much the same time.

usage: compile_time.py --bin build/bin [--rounds N]
"""
import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time


def run(*words):
    begin = time.perf_counter()
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(words)}\n{done.stderr}")
    return time.perf_counter() - begin


def write_tokens(path, count, vocab):
    random.seed(1)
    header = [20240520, 1, count] + [0] * 253
    with open(path, "wb") as file:
        file.write(b"".join(n.to_bytes(4, "little") for n in header))
        for _ in range(count):
            file.write(random.randrange(vocab).to_bytes(2, "little"))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bin", default="build/bin")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    tool = lambda name: os.path.join(options.bin, name)
    with tempfile.TemporaryDirectory() as folder:
        path = lambda name: os.path.join(folder, name)

        def compile_model(name, *flags):
            run(tool("bt-model"), "gpt2", *flags, "-o", path(name + ".mlir"))
            return lambda: run(
                tool("bt-compile"),
                path(name + ".mlir"),
                "--batch=1",
                "--seq=64",
                "-o",
                path(name),
            )

        models = {
            "GPT-2 124M": compile_model("124m", "--preset=124m"),
            "12 layers": compile_model("l12", "--preset=124m", "--layers=12"),
            "48 layers": compile_model("l48", "--preset=124m", "--layers=48"),
        }
        times = {name: [] for name in models}
        for _ in range(options.rounds):
            for name, measure in models.items():
                times[name].append(measure())
        medians = {name: statistics.median(t) for name, t in times.items()}
        for name, median in medians.items():
            print(f"compile {name}: {median:.2f} s")
        print(
            "48 layers take "
            f"{medians['48 layers'] / medians['12 layers']:.2f} of the time of 12"
        )
        write_tokens(path("data.bin"), 3 * 64 + 1, 50257)
        run(
            path("124m"),
            "train",
            f"--data={path('data.bin')}",
            "--steps=3",
            "--lr=1e-4",
            f"--metrics={path('run.jsonl')}",
            "--quiet",
        )
        with open(path("run.jsonl"), encoding="utf-8") as file:
            for line in map(json.loads, file):
                print(
                    f"step {line['step']}: loss {line['loss']:.4f}, "
                    f"{line['step_ms']:.0f} ms"
                )


if __name__ == "__main__":
    main()
