#!/usr/bin/env python3
"""A rank that dies, hangs, differs or has no room is named; all end, none is left.

usage: faults.py --bin DIR --fault kill|stop|program|flag|disk|missing
                 [--rounds N] [--first N] [--seed S] [--ranks N] [--timeout S]

Each round is at another moment: at the start, in a step, in a save, in validation,
with a victim and a delay drawn by the seed. On GPUs, which need some seconds to
start, a longer time-out is due.
"""
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "programs", "Inputs"))
from harness import Test, tokens  # noqa: E402


def add_options(parser):
    parser.add_argument("--fault", choices=FAULTS, required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ranks", type=int, default=3)
    parser.add_argument("--timeout", type=int, default=3)


FAULTS = ("kill", "stop", "program", "flag", "disk", "missing")
test = Test(__doc__, add_options)
draw = random.Random(test.options.seed)
VOCAB, T, RANKS, TIMEOUT = 61, 16, test.options.ranks, test.options.timeout
model = test.gpt2(vocab=VOCAB, context=T)
test.shard("data.bin", tokens(9000, VOCAB))
FLAGS = ("--batch=6", f"--seq={T}", f"--mesh=dp={RANKS}")
program = test.compile(model, "dp", *FLAGS)
WORDS = ("train", "--data", "data.bin", "--lr", "1e-3", "--quiet",
         "--timeout", str(TIMEOUT))
ENDLESS = ("--steps", "1000000")
# What spends nearly all of its time at one moment, and the file that shows that it
# has come to it.
MOMENTS = {
    "a step": ((), "run.jsonl"),
    "the start": ((), None),
    "a save": (("--checkpoint-dir", "saved", "--checkpoint-every", "1"),
               "saved/step-00000001"),
    "validation": (("--val", "data.bin", "--val-every", "1", "--val-batches", "99"),
                   "run.jsonl"),
}
# What one rank says of another that is at fault.
BLAME = r"rank (\d+) \(process \d+[^)]*\) (has died|is stopped|has not|did not)"


def processes():
    """Of all processes: number, session, executable, environment."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
                session = int(file.read().rpartition(")")[2].split()[3])
            exe = os.readlink(f"/proc/{pid}/exe")
            with open(f"/proc/{pid}/environ", "rb") as file:
                entries = file.read().split(b"\0")
        except (OSError, IndexError, ValueError):
            continue
        yield int(pid), session, exe, entries


def ranks_of(session):
    """Processes of the program, by rank; the one that started them has none."""
    found = {}
    for pid, its, exe, entries in processes():
        if its != session or exe != program:
            continue
        for entry in entries:
            name, _, value = entry.partition(b"=")
            if name in (b"OMPI_COMM_WORLD_RANK", b"RANK"):
                found[int(value)] = pid
    return found


class Running:
    """Commands with a session each, and what they say, with the time of it."""

    def __init__(self, commands):
        self.lines, self.threads = [], []
        self.all = [
            subprocess.Popen(words, cwd=test.folder, stderr=subprocess.PIPE, text=True,
                             errors="replace", start_new_session=True, **more)
            for words, more in commands
        ]
        for one in self.all:
            self.threads.append(threading.Thread(target=self.listen, args=(one,)))
            self.threads[-1].start()

    def listen(self, one):
        for line in one.stderr:
            self.lines.append((time.monotonic(), line))

    def text(self):
        return "".join(line for _, line in self.lines)

    def finish(self, what, limit=60):
        """Waits for the end, which no process may outlive."""
        end = time.monotonic() + limit
        codes = []
        for one in self.all:
            try:
                codes.append(one.wait(timeout=max(0.1, end - time.monotonic())))
            except subprocess.TimeoutExpired:
                codes.append(None)
        sessions = {one.pid for one in self.all}
        for _ in range(50):
            left = [p for p, session, *_ in processes() if session in sessions]
            if not left or None in codes:
                break
            time.sleep(0.1)
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        for thread in self.threads:
            thread.join()
        test.check(not left, f"{what}: {len(left)} processes are left\n{self.text()}")
        test.check(all(codes), f"{what}: exit codes {codes}\n{self.text()}")


def named(what, running, since, pattern, victim, limit=TIMEOUT + 5):
    """The victim is named in time, and nobody else in its place."""
    at = [when for when, line in running.lines if re.search(pattern, line)]
    test.check(at, f"{what}: expected /{pattern}/ in\n{running.text()}")
    took = at[0] - since if at else 0
    test.check(took < limit, f"{what}: was named after {took:.1f} s")
    others = {int(r) for r, _ in re.findall(BLAME, running.text())} - {victim}
    test.check(not others, f"{what}: ranks {others} are named in\n{running.text()}")


def clear():
    for name in ("run.jsonl", "run.config.toml"):
        if os.path.exists(test.path(name)):
            os.remove(test.path(name))
    shutil.rmtree(test.path("saved"), ignore_errors=True)


def signalled(number, kind, state):
    moment = list(MOMENTS)[number % len(MOMENTS)]
    flags, sign = MOMENTS[moment]
    victim = draw.randrange(RANKS)
    what = f"{signal.Signals(kind).name} of rank {victim} in {moment}"
    running = Running([(
        (program, *WORDS, *ENDLESS, "--devices", str(RANKS), "--metrics", "run.jsonl",
         *flags), {},
    )])
    session = running.all[0].pid
    ranks, end = {}, time.monotonic() + 60
    while running.all[0].poll() is None and time.monotonic() < end and (
        len(ranks) < RANKS or (sign and not os.path.exists(test.path(sign)))
    ):
        time.sleep(0.02)
        ranks = ranks_of(session)
    time.sleep(draw.uniform(0, 0.5))
    if test.check(len(ranks) == RANKS, f"{what}: ranks {ranks} run\n{running.text()}"):
        since = time.monotonic()
        os.kill(ranks[victim], kind)
    else:
        running.all[0].terminate()
    running.finish(what)
    if len(ranks) == RANKS:
        pattern = rf"rank {victim} \(process \d+[^)]*\) {state} in \w+"
        if moment == "the start":
            # Before they know each other, what started them says so.
            pattern += (
                rf"|process rank {victim} with PID|rank {victim} ended with signal"
                if kind == signal.SIGKILL
                else rf"|rank {victim} has not started|from rank {victim} at the start"
            )
        named(what, running, since, pattern, victim)
    clear()


def by_variables(what, pattern, victim, commands, limit=TIMEOUT + 5):
    """Ranks started one by one, some later than others."""
    port = 20000 + draw.randrange(20000)
    since = time.monotonic()
    running = Running([
        (words, dict(more, env=dict(
            os.environ, RANK=str(rank), WORLD_SIZE=str(RANKS),
            MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))))
        for rank, (words, more) in enumerate(commands)
    ])
    running.finish(what)
    named(what, running, since, pattern, victim, limit)
    clear()


def of_ranks(victim, words, more=None):
    """The usual command for all ranks but one."""
    usual = ((program, *WORDS, *ENDLESS), {})
    return [(words, more or {}) if r == victim else usual for r in range(RANKS)]


def kill(number):
    signalled(number, signal.SIGKILL, "has died")


def stop(number):
    signalled(number, signal.SIGSTOP, "is stopped")


def another_program(number):
    """Another plan, or the same one in another file."""
    victim, other = draw.randrange(RANKS), test.path(f"other{number % 2}")
    if not os.path.exists(other) and number % 2 == 0:
        test.compile(model, "other0", *FLAGS, "--zero=1")
    if not os.path.exists(other):
        shutil.copy(program, other)
        with open(other, "ab") as file:
            file.write(b"\0")
    kind = "program" if number % 2 == 0 else "executable"
    by_variables(f"another {kind} on rank {victim}", rf"rank {victim} has another {kind}",
                 victim, of_ranks(victim, (other, *WORDS, *ENDLESS)))


def another_flag(number):
    flags = (("--clip", "2"), ("--seed", "7"), ("--steps", "999"), ("--shuffle",),
             ("--weight-decay", "0.3"))
    victim, flag = draw.randrange(RANKS), flags[number % len(flags)]
    words = (program, *WORDS, *(() if flag[0] == "--steps" else ENDLESS), *flag)
    by_variables(f"{flag[0]} on rank {victim}", rf"rank {victim} has another options",
                 victim, of_ranks(victim, words))


def full_disk(number):
    """Rank 0 is the one that writes. A limit for its files fills the disk for it
    alone, as far as a file may grow; /dev/full is full from the start."""
    room, flags = (
        (0, ("--metrics", "run.jsonl", *ENDLESS)),
        (2000, ("--metrics", "run.jsonl", *ENDLESS)),
        (9000, ("--checkpoint-dir", "saved", "--checkpoint-every", "3", *ENDLESS)),
        (9000, ("--save", "run.safetensors", "--steps", "9")),
        (None, ("--metrics", "/dev/full", *ENDLESS)),
    )[number % 5]

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        if room is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))

    usual = (program, *WORDS, *flags)
    why = "No space left on device" if room is None else "File too large"
    by_variables(f"room for {room} bytes with {flags[0]}",
                 f"error: rank 0: .*{why}", 0,
                 [(usual, dict(preexec_fn=limit) if rank == 0 else {})
                  for rank in range(RANKS)])


def missing(number):
    """A rank that never starts."""
    victim = 1 + number % (RANKS - 1)
    by_variables("a missing rank", rf"rank {victim} has not started in time", victim,
                 of_ranks(victim, ("false",)))


chosen = dict(kill=kill, stop=stop, program=another_program, flag=another_flag,
              disk=full_disk, missing=missing)[test.options.fault]
for i in range(test.options.rounds):
    chosen(test.options.first + i)
test.finish()
