#!/usr/bin/env python3
"""Compares programs for several GPUs with one for one GPU and with PyTorch's DDP: all take
turns on the same GPUs, medians are compared.

usage: cuda_ranks.py --devices N --data SHARD --one EXE [--program NAME=EXE]…
                     [--peer COMMAND] [--name NAME] [--rounds N] [--steps N] [--warm N]
                     [--tune NAME=FILE]… [--trace DIR] [--out FILE]

--one is compiled for one device and a batch of B, the programs (zero0=…, zero1=…) for
dp=N and a batch of N·B. COMMAND, such as `pytorch_train.py … --serve`, is started as N
ranks with the variables that torchrun sets, and answers as cuda_compare.py says. A round is a turn of
each; a turn of ours is a run of N steps after some to warm up. "Of N times one" is the speed
of N devices over N times that of one, "of DDP" over PyTorch's. Memory is a rank's, of
rank 0. --trace keeps a trace of each program's steps in a folder.

Prints a table; --out gets all numbers as a line of JSON, appended.
"""
import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
from pathlib import Path

from cuda_compare import run_program

PORT = 29531


class Ranks:
    """PyTorch's, which stay between turns."""

    def __init__(self, command, count):
        self.processes = []
        for rank in range(count):
            env = dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank))
            env.update(WORLD_SIZE=str(count), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(PORT))
            pipe = subprocess.PIPE if rank == 0 else subprocess.DEVNULL
            self.processes.append(
                subprocess.Popen(shlex.split(command), stdin=pipe, stdout=pipe, text=True, env=env)
            )
        self.first = self.read()

    def read(self):
        for line in self.processes[0].stdout:
            if line.startswith("RESULT "):
                return json.loads(line[len("RESULT ") :])
        for process in self.processes:
            process.kill()
        sys.exit(f"error: the peer ended with exit code {self.processes[0].wait()}")

    def turn(self):
        self.processes[0].stdin.write("go\n")
        self.processes[0].stdin.flush()
        return self.read()

    def quit(self):
        self.processes[0].stdin.close()
        for process in self.processes:
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()


def flags_of(options, name, devices):
    flags = ("--devices", str(devices)) if devices > 1 else ()
    return flags + (("--tune", options.tune[name]) if name in options.tune else ())


def trace(options, name, program):
    command = [program, "train", "--quiet", "--data", options.data, "--steps", "6"]
    command += ["--lr", "1e-4", *flags_of(options, name, options.devices)]
    command += ["--profile", str(Path(options.trace) / f"{options.name}-{name}.json")]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def named(text):
    name, _, path = text.partition("=")
    if not path:
        raise argparse.ArgumentTypeError(f"expected NAME=FILE, got {text}")
    return name, path


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--devices", type=int, required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--one", required=True)
    parser.add_argument("--program", type=named, action="append", default=[])
    parser.add_argument("--tune", type=named, action="append", default=[])
    parser.add_argument("--peer")
    parser.add_argument("--name", default="ranks")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--warm", type=int, default=5)
    parser.add_argument("--trace")
    parser.add_argument("--out")
    options = parser.parse_args()
    options.tune = dict(options.tune)

    peer = Ranks(options.peer, options.devices) if options.peer else None
    turns = {}
    for name, program in [("one", options.one), *options.program]:
        flags = flags_of(options, name, 1 if name == "one" else options.devices)
        turns[name] = lambda p=program, f=flags: run_program(options, p, f)
    if peer:
        turns["DDP"] = peer.turn
    for name, turn in turns.items():
        if name != "DDP":
            turn()  # the page cache and the clocks
    results = {name: [] for name in turns}
    for _ in range(options.rounds):
        for name, turn in turns.items():
            results[name].append(turn())
    if peer:
        peer.quit()
    if options.trace:
        for name, program in options.program:
            trace(options, name, program)

    ms = {name: statistics.median(r["ms"] for r in rs) for name, rs in results.items()}
    tokens = results["one"][0]["tokens_per_step"]
    print(
        "| run | ms | tokens/s | of N times one | of DDP | GiB a rank | device, GiB |\n"
        + "|---" * 7
        + "|"
    )
    for name, value in ms.items():
        count = 1 if name == "one" else options.devices
        scale = "" if name == "one" else f"{100 * ms['one'] / value:.1f}%"
        of_ddp = f"{ms['DDP'] / value:.3f}" if peer and name not in ("one", "DDP") else ""
        last = peer.first if name == "DDP" else results[name][-1]
        device = last.get("device_gib", last.get("dev_used_gib", 0))
        print(
            f"| {options.name} {name} | {value:.2f} | {count * tokens / value * 1e3:,.0f} "
            f"| {scale} | {of_ddp} | {last['alloc_gib']:.2f} | {device:.2f} |"
        )
    sys.stdout.flush()
    if options.out:
        record = {"name": options.name, "devices": options.devices, "ms": ms}
        record["peer"] = peer.first if peer else None
        record["results"] = results
        with open(options.out, "a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
