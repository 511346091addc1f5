#!/usr/bin/env python3
"""Compares a compiled program's training step with PyTorch's on one GPU: the two take
turns, medians are compared, and the memory of each.

usage: cuda_compare.py --program EXE --data SHARD --peer COMMAND [--name NAME]
                       [--pairs N] [--steps N] [--warm N] [--tune FILE]
                       [--out FILE]

COMMAND starts a server, such as `pytorch_train.py … --serve`: it prints a line
`RESULT {"ms": median milliseconds a step, "alloc_gib": peak allocation, …}` when it is
warm, and another one for each line that it reads, after running its steps again.
Each turn of the program is a run of its own of N steps after some to warm up.
Its memory is what its allocators hold of the device, reserves for libraries
included; that of PyTorch is `max_memory_allocated`. Beside them stands what the whole
device had in use, contexts and all, as nvidia-smi or the driver saw it.

Prints a row of a table; --out gets all numbers as a line of JSON, appended.
"""
import argparse
import json
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

GIB = 2.0**30
HEADER = (
    "| run | pairs | ms | PyTorch, ms | speed | pair by pair | GiB | PyTorch, GiB | share "
    "| device, GiB | PyTorch, GiB | first step, s | PyTorch, s |\n" + "|---" * 13 + "|"
)


class Peer:
    def __init__(self, command):
        self.process = subprocess.Popen(
            shlex.split(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.first = self.read()

    def read(self):
        for line in self.process.stdout:
            if line.startswith("RESULT "):
                result = json.loads(line[len("RESULT ") :])
                if "ms" not in result:
                    sys.exit(f"error: the peer answered {line.strip()}")
                return result
        sys.exit(f"error: the peer ended with exit code {self.process.wait()}")

    def turn(self):
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        return self.read()

    def quit(self):
        self.process.stdin.write("quit\n")
        self.process.stdin.close()
        self.process.wait(timeout=60)


def run_program(options, program, flags=()):
    """A run of steps that are timed after some to warm up."""
    with tempfile.TemporaryDirectory() as folder:
        metrics = Path(folder) / "metrics.jsonl"
        command = [program, "train", "--quiet", "--data", options.data]
        command += ["--steps", str(options.warm + options.steps), "--lr", "1e-4"]
        command += ["--metrics", str(metrics), *flags]
        subprocess.run(command, check=True)
        lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    times = [line["step_ms"] for line in lines if "step_ms" in line]
    last = [line for line in lines if "allocated_bytes" in line][-1]
    return {
        "ms": statistics.median(times[options.warm :]),
        "tokens_per_step": last["tokens"] / len(times),
        "alloc_gib": last["allocated_bytes"] / GIB,
        "arena_gib": last["arena_bytes"] / GIB,
        "device_gib": (last["device_bytes"] - last["device_bytes_at_start"]) / GIB,
    }


def first_step(options):
    """Seconds from the start of the process to the end of one step and of it."""
    start = time.perf_counter()
    command = [options.program, "train", "--quiet", "--data", options.data]
    subprocess.run(command + ["--steps", "1", "--lr", "1e-4"], check=True)
    return time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--program", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--peer", required=True)
    parser.add_argument("--name")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--warm", type=int, default=5)
    parser.add_argument("--tune")
    parser.add_argument("--out")
    options = parser.parse_args()
    name = options.name or Path(options.program).name

    flags = ("--tune", options.tune) if options.tune else ()
    peer = Peer(options.peer)
    run_program(options, options.program, flags)  # the page cache and the clocks
    started = first_step(options)
    ours, theirs = [], []
    for _ in range(options.pairs):
        ours.append(run_program(options, options.program, flags))
        theirs.append(peer.turn())
    peer.quit()
    ms, peer_ms = (statistics.median(r["ms"] for r in rs) for rs in (ours, theirs))
    gib, peer_gib = ours[-1]["alloc_gib"], peer.first.get("alloc_gib")
    ratios = [b["ms"] / a["ms"] for a, b in zip(ours, theirs)]
    text = lambda x, digits=2: "" if x is None else f"{x:.{digits}f}"
    share = "" if peer_gib is None else f"{100 * gib / peer_gib:.0f}%"
    print(
        f"| {name} | {options.pairs} | {ms:.2f} | {peer_ms:.2f} | {peer_ms / ms:.3f} "
        f"| {min(ratios):.3f} to {max(ratios):.3f} | {gib:.2f} | {text(peer_gib)} | {share} "
        f"| {ours[-1]['device_gib']:.2f} | {text(peer.first.get('dev_used_gib'))} "
        f"| {started:.2f} | {text(peer.first.get('first_step_s'), 1)} |",
        flush=True,
    )
    if options.out:
        record = {"name": name, "first_step_s": started, "peer": peer.first}
        record.update(ours=ours, theirs=[r["ms"] for r in theirs], speed=peer_ms / ms)
        with open(options.out, "a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    if sys.argv[1:] == ["--header"]:
        print(HEADER)
    else:
        main()
