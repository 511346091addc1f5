#!/usr/bin/env python3
"""A rank that dies, hangs or differs is named; all ranks end and none is left.

usage: faults.py --bin DIR [--rounds N]
"""
import os
import re
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "programs", "Inputs"))
from harness import Test, tokens  # noqa: E402

test = Test(__doc__, lambda parser: parser.add_argument("--rounds", type=int, default=1))
VOCAB, T, RANKS, TIMEOUT = 61, 16, 3, 3
model = test.gpt2(vocab=VOCAB, context=T)
test.shard("data.bin", tokens(9000, VOCAB))
FLAGS = ("--batch=6", f"--seq={T}", f"--mesh=dp={RANKS}")
program = test.compile(model, "dp", *FLAGS)
other = test.compile(model, "other", *FLAGS, "--zero=1")
WORDS = ("train", "--data", "data.bin", "--steps", "1000000", "--lr", "1e-3", "--quiet")
port = [20000 + os.getpid() % 20000]


def ranks_of(path):
    """Processes of that executable, by rank; the one that started them has none."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{pid}/exe") != path:
                continue
            with open(f"/proc/{pid}/environ", "rb") as file:
                entries = file.read().split(b"\0")
        except OSError:
            continue
        for entry in entries:
            if entry.startswith(b"OMPI_COMM_WORLD_RANK="):
                found.append((int(entry.split(b"=")[1]), int(pid)))
    return [pid for _, pid in sorted(found)]


def gone(path):
    for _ in range(100):
        if not ranks_of(path):
            return True
        time.sleep(0.1)
    return False


def signalled(kind, what, pattern):
    run = subprocess.Popen(
        [program, *WORDS, "--devices", str(RANKS), "--timeout", str(TIMEOUT),
         "--metrics", "run.jsonl"],
        cwd=test.folder, stderr=subprocess.PIPE, text=True,
    )
    metrics = test.path("run.jsonl")
    while run.poll() is None and not (
        os.path.exists(metrics) and os.path.getsize(metrics) > 1000
    ):
        time.sleep(0.05)
    ranks = ranks_of(program)
    if not test.check(len(ranks) == RANKS, f"{what}: {len(ranks)} ranks run"):
        run.terminate()
        run.communicate(timeout=60)
        return
    start = time.monotonic()
    os.kill(ranks[1], kind)
    _, text = run.communicate(timeout=60)
    took = time.monotonic() - start
    test.check(took < TIMEOUT + 8, f"{what}: took {took:.1f} s")
    test.check(run.returncode != 0, f"{what}: exit code {run.returncode}")
    test.check(re.search(pattern, text), f"{what}: expected /{pattern}/ in\n{text}")
    test.check(gone(program), f"{what}: ranks are left")
    os.remove(metrics)


def by_variables(what, pattern, commands):
    """Ranks started one by one."""
    port[0] += 1
    ranks = [
        subprocess.Popen(
            command, cwd=test.folder, stderr=subprocess.PIPE, text=True,
            env=dict(os.environ, RANK=str(rank), WORLD_SIZE=str(RANKS),
                     MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port[0])),
        )
        for rank, command in enumerate(commands)
    ]
    text = "".join(rank.communicate(timeout=60)[1] for rank in ranks)
    codes = [rank.returncode for rank in ranks]
    test.check(all(codes), f"{what}: exit codes {codes}")
    test.check(re.search(pattern, text), f"{what}: expected /{pattern}/ in\n{text}")


for _ in range(test.options.rounds):
    where = r"rank 1 \(process \d+ on .*\) {} in [a-z_ ]+"
    signalled(signal.SIGKILL, "SIGKILL", where.format("has died"))
    signalled(signal.SIGSTOP, "SIGSTOP", where.format("is stopped"))
    words = (*WORDS, "--timeout", str(TIMEOUT))
    by_variables(
        "another executable", "rank 2 has another program",
        [(program, *words), (program, *words), (other, *words)],
    )
    by_variables(
        "another flag", "rank 1 has another options",
        [(program, *words), (program, *words, "--clip", "2"), (program, *words)],
    )
    by_variables(
        "a missing rank", "not all ranks have started in time|did not answer|cannot reach",
        [(program, *words), (program, *words), ("false",)],
    )
test.finish()
