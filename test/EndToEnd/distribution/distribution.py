#!/usr/bin/env python3
"""Programs for several devices compute what one device computes.

usage: distribution.py --bin DIR --part losses|zero|accum|optimizer|remat|evaluate|
                       counts|start|checkpoints|classifier [--ranks N...]
"""
import json
import os
import subprocess
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "programs", "Inputs"))
from harness import Test, tokens  # noqa: E402

PARTS = (
    *("losses", "zero", "accum", "optimizer", "remat", "evaluate"),
    *("counts", "start", "checkpoints", "classifier"),
)


def add_options(parser):
    parser.add_argument("--part", choices=PARTS, required=True)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2])


test = Test(__doc__, add_options)
VOCAB, T, BATCH, STEPS = 61, 16, 24, 10
model = test.gpt2(vocab=VOCAB, context=T)
test.shard("data.bin", tokens(9000, VOCAB))
COMMON = (f"--batch={BATCH}", f"--seq={T}", "--verify-plan")


def run(name, ranks, *flags, steps=STEPS, model=model, train=()):
    """Losses and weights of a program for so many ranks."""
    mesh = () if ranks == 1 else (f"--mesh=dp={ranks}",)
    program = test.compile(model, name, *COMMON, *mesh, *flags)
    start = () if ranks == 1 else ("--devices", ranks)
    lines, saved = test.train(program, *start, *train, steps=steps, out=name)
    for line in lines:
        line.pop("collective_calls", None)
        line.pop("collective_bytes", None)
    return lines, saved


def close(found, expected, what, most=1e-5):
    for key in ("loss", "grad_norm"):
        worst = max(
            abs(a[key] - b[key]) / abs(b[key]) for a, b in zip(found, expected)
        )
        test.check(worst <= most, f"{what}: {key} off by {worst:.3g}")
    test.check(
        [line["tokens"] for line in found] == [line["tokens"] for line in expected],
        f"{what}: tokens",
    )


def losses():
    """Any number of ranks, dropout and clipping on: one device's losses."""
    expected, _ = run("one", 1, "--dropout=0.1", train=("--clip", 0.5))
    for ranks in test.options.ranks:
        found, _ = run(f"dp{ranks}", ranks, "--dropout=0.1", train=("--clip", 0.5))
        close(found, expected, f"{ranks} ranks")


def zero():
    """The stages of ZeRO give the same bits."""
    for ranks in test.options.ranks:
        reference = run(f"z0-{ranks}", ranks)
        for stage in (1, 2, 3):
            found = run(f"z{stage}-{ranks}", ranks, f"--zero={stage}")
            test.check(found[0] == reference[0], f"metrics, stage {stage}, {ranks}")
            test.check(found[1] == reference[1], f"weights, stage {stage}, {ranks}")


def accum():
    """Microbatches and ranks together are one batch."""
    expected, _ = run("k2", 1, "--accum=2", "--batch=12", "--loss-head-bytes=4096")
    for stage in (0, 1, 2, 3):
        flags = ("--accum=2", "--batch=12", "--loss-head-bytes=4096")
        found, _ = run(f"k2z{stage}", 3, *flags, f"--zero={stage}")
        close(found, expected, f"3 ranks, 2 microbatches, stage {stage}")


def both_stages(name, *flags):
    expected, _ = run(name + "1", 1, *flags, steps=4)
    for stage in (0, 1, 3):
        found, _ = run(f"{name}2-{stage}", 2, *flags, f"--zero={stage}", steps=4)
        close(found, expected, f"{name}, stage {stage}")


def optimizer():
    """Another optimizer."""
    both_stages("sgd", "--optimizer=sgd")


def remat():
    """Iterations that are computed again, with the same masks."""
    both_stages("remat", "--remat=full", "--dropout=0.2")


def evaluate():
    """Evaluation is of all ranks' batches, with the weights of any of them."""
    run("dp2", 2, steps=1)
    program = test.path("dp2")
    single = test.compile(model, "one", *COMMON)
    lines = []
    for words in ((single,), (program,)):
        start = ("--devices", 2) if words == (program,) else ()
        test.run(
            *words,
            *("eval", "--data", "data.bin", "--weights", "dp2.safetensors"),
            *("--metrics", "eval.jsonl", "--quiet", *start),
        )
        lines.append(test.lines("eval.jsonl")[0])
    one, two = lines
    test.check(
        abs(one["val_loss"] - two["val_loss"]) <= 1e-5 * one["val_loss"],
        f"val_loss {two['val_loss']} on 2 ranks, {one['val_loss']} on one",
    )
    test.check(one["tokens"] == two["tokens"], "tokens of eval")


def counts():
    """Bytes and calls are what the formulas say."""
    for ranks in test.options.ranks:
        for stage in (0, 1, 3):
            name = f"c{ranks}{stage}"
            run(name, ranks, f"--zero={stage}", steps=3)
            line = test.lines(name + ".jsonl")[-1]
            with open(test.path(name + ".safetensors"), "rb") as file:
                header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
            header.pop("__metadata__")
            # Each tensor is cut on its own, ⌈n/N⌉ elements a piece.
            pieces = 0
            for entry in header.values():
                size = 1
                for extent in entry["shape"]:
                    size *= extent
                pieces += -(-size // ranks)
            # Loss, labels counted for it and for its gradient, and norm are numbers
            # that all ranks tell all.
            scalars = 4 * 4 * (ranks - 1)
            expected = 2 * (ranks - 1) * pieces * 4 + scalars
            test.check(
                line["collective_bytes"] == expected,
                f"{name}: {line['collective_bytes']} bytes, expected {expected}",
            )
            # A call for each of 2 iterations and for what comes before and
            # after them; each is followed by a gather, and those of stage 1 are
            # one for all iterations.
            calls = (4 + 4 if stage == 0 else 4 + 3) + 4
            test.check(
                line["collective_calls"] == calls,
                f"{name}: {line['collective_calls']} calls, expected {calls}",
            )


def start():
    """Ranks that cannot be started, or not so, are refused."""
    program = test.compile(model, "dp2", *COMMON, "--mesh=dp=2")
    words = (program, "train", "--data", "data.bin", "--steps", 1, "--lr", "1e-3")
    test.refuse("is for 2 devices: start it with --devices 2", *words)
    test.refuse("expected the 2 devices .* got 3", *words, "--devices", 3)
    env = dict(os.environ, RANK="0", WORLD_SIZE="3", MASTER_ADDR="127.0.0.1")
    test.refuse("expected as many ranks, got 3 from torchrun", *words, env=env)
    env["WORLD_SIZE"] = "2"
    test.refuse("expected MASTER_ADDR and MASTER_PORT", *words, env=env)
    single = test.compile(model, "one", f"--batch={BATCH}", f"--seq={T}")
    words = (single, "train", "--data", "data.bin", "--steps", 1, "--lr", "1e-3")
    test.refuse("--devices: needs a program for several", *words, "--devices", 2)
    test.refuse("compiled with --mesh dp=3 for the 3 ranks",
                *words, env=dict(env, WORLD_SIZE="3", MASTER_PORT="1"))
    # A batch that does not divide is refused where the input is declared.
    test.refuse(
        r"gpt2.mlir:\d+:\d+: error: input 'tokens': dim 0 of 24 does not divide by "
        "axis 'dp' of 5",
        test.tool("bt-compile"), model, *COMMON, "--mesh=dp=5", "-o", "x",
    )
    # Variables as torchrun sets them start ranks without mpirun.
    program = test.compile(model, "tcp", *COMMON, "--mesh=dp=2")
    ranks = [
        subprocess.Popen(
            [program, "train", "--data", "data.bin", "--steps", "3", "--lr", "1e-2",
             "--quiet", "--metrics", "tcp.jsonl"],
            env=dict(os.environ, RANK=str(rank), WORLD_SIZE="2",
                     MASTER_ADDR="127.0.0.1", MASTER_PORT=str(20000 + os.getpid() % 9999)),
            cwd=test.folder,
        )
        for rank in range(2)
    ]
    test.check([r.wait(timeout=100) for r in ranks] == [0, 0], "ranks by variables")
    expected, _ = run("mpi", 2, steps=3)
    found = test.lines("tcp.jsonl")
    test.check(
        [line["loss"] for line in found] == [line["loss"] for line in expected],
        "losses by TCP and by MPI",
    )


def checkpoints():
    """A checkpoint of one plan goes on under any other, to the same losses."""
    plans = {
        "one": (1, ()),
        "two": (2, ("--zero=1",)),
        "three": (3, ("--zero=2",)),
        "four": (4, ()),
    }
    programs = {}
    for name, (ranks, flags) in plans.items():
        mesh = (f"--mesh=dp={ranks}",) if ranks > 1 else ()
        flags = (f"--batch={BATCH}", f"--seq={T}", *mesh, *flags)
        start = ("--devices", ranks) if ranks > 1 else ()
        programs[name] = (test.compile(model, name, *flags), start)

    def train(name, folder, steps):
        program, start = programs[name]
        folder = ("--checkpoint-dir", folder, "--resume")
        return test.train(program, *start, *folder, steps=steps, out="part")[0]

    program, _ = programs["one"]
    expected, _ = test.train(program, steps=6, out="whole")
    for first, second in (("one", "two"), ("two", "three"), ("three", "one"),
                          ("two", "four")):
        folder = f"{first}-{second}"
        train(first, folder, 3)
        # The metrics go on in the file of the first part.
        close(train(second, folder, 6), expected, f"{first}, then {second}")


def classifier():
    """A model of images and labels, whose batch is its only dim."""
    rng = np.random.default_rng(1)
    for name, magic, shape in (("images-idx3", 0x803, (96, 4, 4)),
                               ("labels-idx1", 0x801, (96,))):
        values = rng.integers(0, 256 if len(shape) > 1 else 10, shape)
        with open(test.path(f"train-{name}-ubyte"), "wb") as file:
            file.write(np.array([magic, *shape], dtype=">u4").tobytes())
            file.write(values.astype(np.uint8).tobytes())
    test.run(test.tool("bt-model"), "mlp", "--inputs", 16, "--hidden", 12,
             "--classes", 10, "-o", "mlp.mlir")
    losses, accuracies = [], []
    for ranks in (1, 2, 3):
        mesh = (f"--mesh=dp={ranks}", "--zero=1", "--verify-plan") if ranks > 1 else ()
        start = ("--devices", ranks) if ranks > 1 else ()
        program = test.compile(test.path("mlp.mlir"), f"mlp{ranks}", "--batch=12", *mesh)
        found, _ = test.train(program, *start, data="train-images-idx3-ubyte", steps=8)
        losses.append(found)
        test.run(program, "eval", "--data", "train-images-idx3-ubyte", "--quiet",
                 "--weights", "run.safetensors", "--metrics", "eval.jsonl", *start)
        accuracies.append(test.lines("eval.jsonl")[0]["accuracy"])
    for found in losses[1:]:
        close(found, losses[0], "classifier")
    test.check(len(set(accuracies)) == 1, f"accuracies {accuracies}")


{name: globals()[name] for name in PARTS}[test.options.part]()
test.finish()
