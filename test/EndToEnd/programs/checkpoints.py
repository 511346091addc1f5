#!/usr/bin/env python3
"""A run that stopped and went on is the run that did not stop: the same metrics
and the same weights, whether it ended, was told to end or was killed; and a
checkpoint of another program or another plan is told apart.

usage: checkpoints.py --bin DIR --part resume|kill|refuse [--kills N]
"""
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
from harness import Test, tensors, tokens  # noqa: E402


def add(parser):
    parser.add_argument("--part", choices=("resume", "kill", "refuse"), required=True)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)


test = Test(__doc__, add)
SHAPE = dict(layers=2, heads=2, dim=16, vocab=64, context=16)
# Dropout, so that a mask has to be that of its step.
FLAGS = ("--batch=2", "--seq=16", "--dropout=0.1")
model = test.gpt2(**SHAPE)
test.shard("data.bin", tokens(1500, SHAPE["vocab"]))
test.shard("val.bin", tokens(300, SHAPE["vocab"], seed=1))
SCHEDULE = ("--schedule", "cosine", "--warmup", 3)
VAL = ("--val", "val.bin", "--val-every", 4, "--val-batches", 2)
# Of the device and of the end of a run, not of its steps.
ONCE = {
    *("device", "gemm_file", "arena_bytes", "allocated_bytes", "pinned_bytes"),
    *("device_bytes", "device_bytes_at_start", "reserves"),
}


def train(program, *flags, out="run", steps=10):
    # Rates follow the number of steps, so all runs say the same.
    return test.train(program, *SCHEDULE, *VAL, *flags, out=out, steps=steps)


def clean(folder="c"):
    shutil.rmtree(test.path(folder), ignore_errors=True)


def moments(folder):
    return test.bytes(os.path.join(folder, "optimizer.safetensors"))


def stop(program, flags, number):
    """Sends a signal after a few steps; the exit code and what it said."""
    os.remove(test.path("run.jsonl"))
    words = [program, "train", "--data", "data.bin", "--lr", "1e-2"]
    words += ["--steps", 100000, "--metrics", "run.jsonl", *SCHEDULE, *VAL, *flags]
    with subprocess.Popen(
        [str(w) for w in words], cwd=test.folder, stderr=subprocess.PIPE
    ) as process:
        end = time.monotonic() + 60
        while time.monotonic() < end and process.poll() is None:
            if os.path.exists(test.path("run.jsonl")):
                if len(test.bytes("run.jsonl").splitlines()) > 3:
                    break
            time.sleep(0.002)
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
    return process.returncode, said.decode()


def resume():
    for precision, more in (("fp32", ()), ("bf16", ("--shuffle", "--seed", 3))):
        program = test.compile(
            model, "gpt2-" + precision, *FLAGS, "--precision", precision
        )
        clean("whole")
        keep = ("--checkpoint-dir", "whole", "--checkpoint-every", 1, "--keep", 0)
        whole = train(program, *more, *keep, out="whole")
        for step in (1, 4, 7, 9):
            clean()
            os.makedirs(test.path("c"))
            name = f"step-{step:08}"
            shutil.copytree(test.path("whole/" + name), test.path("c/" + name))
            shutil.copy(test.path("whole.jsonl"), test.path("run.jsonl"))
            again = train(program, *more, "--checkpoint-dir", "c", "--resume")
            what = f"{precision} from step {step}"
            test.check(again[0] == whole[0], f"metrics of {what}")
            test.check(again[1] == whole[1], f"weights of {what}")
            test.check(
                moments("c/step-00000010") == moments("whole/step-00000010"),
                f"moments of {what}",
            )
    # Told to end.
    clean()
    shutil.copytree(test.path("whole/step-00000002"), test.path("c/step-00000002"))
    flags = (*more, "--checkpoint-dir", "c", "--resume")
    code, said = stop(program, flags, signal.SIGTERM)
    test.check(code == 0 and "stopped by SIGTERM" in said, f"SIGTERM: {code} {said}")
    names = sorted(n for n in os.listdir(test.path("c")) if n.startswith("step-"))
    step = int(names[-1].removeprefix("step-"))
    last = test.lines("run.jsonl")[-1]["step"]
    test.check(last == step - 1, f"stopped with {names}, the last line is {last}")
    weights = tensors.read(test.path(f"c/{names[-1]}/weights.safetensors"))
    state = tensors.read(test.path(f"c/{names[-1]}/optimizer.safetensors"))
    expected = {f"moment{i}.{name}": w.shape for name, w in weights.items() for i in (1, 2)}
    expected["updates"] = ()
    test.check(
        {name: m.shape for name, m in state.items()} == expected,
        "moments have the names and shapes of the weights",
    )
    test.check(state["updates"] == step, f"{state['updates']} updates in {step} steps")


def kill():
    """Kills at random moments, many of them inside a save, which is most of the
    time of so small a model."""
    rng = random.Random(test.options.seed)
    program = test.compile(model, "gpt2", *FLAGS)
    steps = 250 * test.options.kills
    whole = train(program, out="whole", steps=steps)
    # Saves at every third step.
    every = ("--checkpoint-dir", "c", "--checkpoint-every", 3, "--resume")
    words = [program, "train", "--data", "data.bin", "--lr", "1e-2", "--quiet"]
    words += ["--steps", steps, "--metrics", "run.jsonl", *SCHEDULE, *VAL, *every]
    kills, saved, inside = 0, 0, 0
    # A run that ends before it could be killed is not counted.
    for _ in range(4 * test.options.kills):
        if kills == test.options.kills:
            break
        with subprocess.Popen(
            [str(w) for w in words], cwd=test.folder, stderr=subprocess.PIPE
        ) as process:
            time.sleep(rng.uniform(0.02, 0.2))
            process.kill()
            _, said = process.communicate(timeout=60)
        if process.returncode == 0:
            break
        test.check(
            process.returncode == -signal.SIGKILL, f"kill {kills}: {said.decode()}"
        )
        kills += 1
        names = os.listdir(test.path("c")) if os.path.isdir(test.path("c")) else []
        inside += any(name.startswith("unfinished-") for name in names)
        found = [int(n.removeprefix("step-")) for n in names if n.startswith("step-")]
        newest = max(found, default=0)
        test.check(newest >= saved, f"kill {kills}: step {newest} after {saved}")
        # The next save waits for the one before it, so what the metrics say was
        # reached is less than two saves ahead.
        if os.path.exists(test.path("run.jsonl")):
            lines = test.bytes("run.jsonl").split(b"\n")[:-1]
            reached = max((json.loads(x)["step"] for x in lines if x), default=0)
            test.check(
                reached < newest + 6, f"kill {kills}: reached {reached}, saved {newest}"
            )
        saved = newest
    test.check(kills >= test.options.kills // 2, f"{kills} kills")
    # The rest of the steps is many: without a save at every third of them.
    again = train(program, "--checkpoint-dir", "c", "--resume", steps=steps)
    test.check(again[0] == whole[0], f"metrics after {kills} kills")
    test.check(again[1] == whole[1], f"weights after {kills} kills")
    left = [n for n in os.listdir(test.path("c")) if not n.startswith("step-")]
    test.check(left == ["config.toml"], f"left behind: {left}")
    print(f"{kills} kills, {inside} inside a save, the last at step {saved}")


def refuse():
    program = test.compile(model, "gpt2", *FLAGS)
    base = ("--checkpoint-dir", "c")
    train(program, *base, steps=4)
    # What may change: the steps, the rate, the batch, the plan.
    other = test.compile(model, "gpt2-batch", "--batch=3", "--seq=16", "--remat=full")
    shutil.copytree(test.path("c"), test.path("d"))
    metrics, _ = train(other, "--checkpoint-dir", "d", "--resume", steps=6)
    done = [line["tokens"] for line in metrics if "tokens" in line]
    test.check(done[3:] == [4 * 32, 4 * 32 + 48, 4 * 32 + 96], f"tokens {done}")

    def refused(pattern, what, *flags):
        words = (what, "train", "--data", "data.bin", "--lr", "1e-2", "--steps", 8)
        test.refuse(pattern, *words, *base, "--resume", "--quiet", *flags)

    wide = test.gpt2("wide.mlir", **SHAPE | {"dim": 32})
    deep = test.gpt2("deep.mlir", **SHAPE | {"layers": 3})
    refused(
        r"tensor 'wte.weight': expected F32\[64, 32\], got F32\[64, 16\]",
        test.compile(wide, "wide", *FLAGS),
    )
    refused(
        r"tensor 'h.2\.[a-z_.0-9]*': expected F32\[[0-9, ]*\], got none",
        test.compile(deep, "deep", *FLAGS),
    )
    refused(
        "expected the precision 'fp64' of this program, got 'fp32'",
        test.compile(model, "f64", *FLAGS, "--precision=fp64"),
    )
    refused(
        "expected the optimizer 'sgd' of this program, got 'adamw'",
        test.compile(model, "sgd", *FLAGS, "--optimizer=sgd"),
    )
    # One bit of one tensor.
    path = test.path("c/step-00000004/optimizer.safetensors")
    good = test.bytes(path)
    length = int.from_bytes(good[:8], "little")
    header = json.loads(good[8 : 8 + length])
    header.pop("__metadata__", None)
    for name in ("moment1.h.1.mlp.c_fc.weight", "moment2.ln_f.bias"):
        begin, end = header[name]["data_offsets"]
        bad = bytearray(good)
        bad[8 + length + (begin + end) // 2] ^= 4
        with open(path, "wb") as file:
            file.write(bad)
        refused(rf"optimizer.safetensors: tensor '{name}': damaged", program)
    with open(path, "wb") as file:
        file.write(good)
    train(program, *base, "--resume", steps=5)
    test.check(os.path.isdir(test.path("c/step-00000005")), "whole again")


{"resume": resume, "kill": kill, "refuse": refuse}[test.options.part]()
test.finish()
