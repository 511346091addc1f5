#!/usr/bin/env python3
"""Programs for several devices compute what one device computes.

usage: distribution.py --bin DIR --part losses|zero|accum|optimizer|remat|evaluate|
                       generate|counts|memory|start|variables|checkpoints|pieces|
                       classifier|hellaswag
                       [--ranks N...] [--loads N...] [--precision P]
"""
import json
import os
import re
import shutil
import subprocess
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "programs", "Inputs"))
from harness import Test, tensors, tokens  # noqa: E402

PARTS = (
    *("losses", "zero", "accum", "optimizer", "remat", "evaluate", "generate", "counts"),
    *("memory", "start", "variables", "checkpoints", "pieces", "classifier", "hellaswag"),
)

SIZES = (1, 2, 3, 4, 8)


def add_options(parser):
    parser.add_argument("--part", choices=PARTS, required=True)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2])
    parser.add_argument("--loads", type=int, nargs="+", default=SIZES)
    parser.add_argument("--precision", default="fp32")


test = Test(__doc__, add_options)
VOCAB, T, BATCH, STEPS = 61, 16, 24, 10
STAGES = (0, 1, 2, 3)
model = test.gpt2(vocab=VOCAB, context=T)
test.shard("data.bin", tokens(9000, VOCAB))
COMMON = (f"--batch={BATCH}", f"--seq={T}", "--verify-plan")


def run(name, ranks, *flags, steps=STEPS, model=model, train=()):
    """Losses and weights of a program for so many ranks."""
    mesh = () if ranks == 1 else (f"--mesh=dp={ranks}",)
    program = test.compile(model, name, *COMMON, *mesh, *flags)
    return execute(program, name, ranks, steps, train)


def execute(program, name, ranks, steps=STEPS, train=()):
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
        for stage in (0, 3):
            flags = ("--dropout=0.1", f"--zero={stage}")
            found, _ = run(f"dp{ranks}", ranks, *flags, train=("--clip", 0.5))
            close(found, expected, f"{ranks} ranks, stage {stage}")


def zero():
    """The stages of ZeRO give the same bits."""
    # More iterations than a ring has slots.
    deep = test.gpt2("deep.mlir", vocab=VOCAB, context=T, layers=4)
    for ranks in test.options.ranks:
        flag = f"--precision={test.options.precision}"
        reference = run(f"z0-{ranks}", ranks, flag, model=deep)
        for stage in STAGES[1:]:
            found = run(f"z{stage}-{ranks}", ranks, flag, f"--zero={stage}", model=deep)
            test.check(found[0] == reference[0], f"metrics, stage {stage}, {ranks}")
            test.check(found[1] == reference[1], f"weights, stage {stage}, {ranks}")
        if ranks > 4:
            continue
        # Collectives that run as late as the waits allow give them too.
        os.environ["BLURT_LATE_COLLECTIVES"] = "1"
        for stage in STAGES:
            name = f"z{stage}-{ranks}"
            late = execute(test.path(name), f"late-{name}", ranks)
            test.check(late[0] == reference[0], f"late metrics, stage {stage}, {ranks}")
            test.check(late[1] == reference[1], f"late weights, stage {stage}, {ranks}")
        del os.environ["BLURT_LATE_COLLECTIVES"]



def accum():
    """Microbatches and ranks together are one batch."""
    expected, _ = run("k2", 1, "--accum=2", "--batch=12", "--loss-head-bytes=4096")
    for stage in STAGES:
        flags = ("--accum=2", "--batch=12", "--loss-head-bytes=4096")
        found = run(f"k2z{stage}", 3, *flags, f"--zero={stage}")
        close(found[0], expected, f"3 ranks, 2 microbatches, stage {stage}")
        os.environ["BLURT_LATE_COLLECTIVES"] = "1"
        late = execute(test.path(f"k2z{stage}"), f"late{stage}", 3)
        test.check(late == found, f"late, 2 microbatches, stage {stage}")
        del os.environ["BLURT_LATE_COLLECTIVES"]


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
    single = test.compile(model, "one", *COMMON)
    lines = []
    for stage in (None, 0, 1, 3):
        program, start = single, ()
        if stage is not None:
            flags = (f"--zero={stage}", "--mesh=dp=2")
            program, start = test.compile(model, "two", *COMMON, *flags), ("--devices", 2)
        test.run(
            *(program, "eval", "--data", "data.bin", "--weights", "dp2.safetensors"),
            *("--metrics", "eval.jsonl", "--quiet", *start),
        )
        lines.append(test.lines("eval.jsonl")[0])
    one = lines[0]
    for line in lines[1:]:
        test.check(
            abs(one["val_loss"] - line["val_loss"]) <= 1e-5 * one["val_loss"],
            f"val_loss {line['val_loss']} on 2 ranks, {one['val_loss']} on one",
        )
        test.check(one["tokens"] == line["tokens"], "tokens of eval")
    # In training, between steps.
    numbers = []
    for ranks, flags in ((1, ()), (3, ("--zero=3",))):
        found, _ = run(f"val{ranks}", ranks, *flags, steps=4,
                       train=("--val", "data.bin", "--val-every", 2, "--val-batches", 2))
        numbers.append([line["val_loss"] for line in found if "val_loss" in line])
    test.check(len(numbers[0]) == 3 and np.allclose(*numbers, rtol=1e-5, atol=0),
               f"validation: {numbers}")


def generate():
    """Without whole parameters all ranks generate, and rank 0 prints."""
    run("dp2", 2, steps=3)
    words = ("generate", "--weights", "dp2.safetensors", "--prompt-tokens", "1,2,3",
             "--max-tokens", 8, "--quiet")
    plain = test.compile(model, "one", f"--batch={BATCH}", f"--seq={T}")
    for precision in ("fp32", "bf16"):
        flags = (f"--batch={BATCH}", f"--seq={T}", f"--precision={precision}")
        plain = test.compile(model, "one", *flags)
        expected = test.run(plain, *words).stdout
        for stage in (1, 3):
            program = test.compile(model, "two", *flags, "--mesh=dp=2", f"--zero={stage}")
            # Stage 1 keeps whole parameters in fp32.
            alone = (stage, precision) == (1, "fp32")
            found = test.run(program, *words, *(() if alone else ("--devices", 2))).stdout
            test.check(found == expected, f"stage {stage}, {precision}: {found}")
            if not alone:
                test.refuse("is for 2 devices: start it with --devices 2", program, *words)
    test.write("in.safetensors", "")
    test.refuse("call: expected a program for one device, got one of 2",
                program, "call", "--entry", "eval", "--inputs", "in.safetensors")


def sizes(name, ranks):
    """By parameter: elements of a piece, each tensor cut on its own."""
    with open(test.path(name + ".safetensors"), "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    header.pop("__metadata__")
    return {
        tensor: -(-int(np.prod(entry["shape"])) // ranks)
        for tensor, entry in header.items()
    }


def counts():
    """Bytes and calls are what the formulas say."""
    for ranks in test.options.ranks:
        for microbatches in (1, 2) if ranks <= 4 else (1,):
            for stage in STAGES:
                check_counts(ranks, test.options.precision, microbatches, stage)


def check_counts(ranks, precision, microbatches, stage):
    name = f"c{ranks}{stage}"
    run(name, ranks, f"--zero={stage}", f"--precision={precision}", f"--accum={microbatches}",
        f"--batch={BATCH // microbatches}", "--remat=full", steps=3)
    line = test.lines(name + ".jsonl")[-1]
    pieces = sizes(name, ranks)
    rounded = precision == "bf16"

    def gathered(names, wide=()):
        """Bytes of these as products and norms read them."""
        return sum(
            pieces[n] * (2 if rounded and ".ln_" not in n and n not in wide else 4)
            for n in names
        )

    block = [n for n in pieces if n.startswith("h.")]
    outside = ["wte.weight", "wpe.weight", "ln_f.weight", "ln_f.bias"]
    test.check(len(block) + len(outside) == len(pieces), "names of parameters")
    reduced = 4 * sum(pieces.values())
    # Loss, labels counted for it and for its gradient, and norm are numbers that all
    # ranks tell all; microbatches share the counts.
    scalars = 4 if microbatches == 1 else 3
    # A call for each of 2 iterations and for what comes before and after them; all
    # of it at once where whole gradients wait for the last microbatch.
    calls = 4 if microbatches == 1 or stage >= 2 else 1
    if stage == 0:
        total, calls = 2 * reduced, 2 * calls
    elif stage < 3:
        weights = gathered(pieces, wide=outside) if rounded else reduced
        times = microbatches if stage == 2 else 1
        total = times * reduced + weights
        # What is there at the step's beginning goes at once if microbatches share
        # it; what is updated goes by bucket.
        calls = times * calls + (1 if microbatches > 1 and (rounded or stage == 1) else 3)
    else:
        # Forward all of it, the tied embedding once more for the head; backward
        # what computes a block again, which does not need its last sum.
        again = [n for n in block if not n.endswith("mlp.c_proj.bias")]
        total = microbatches * (
            reduced + gathered(pieces, wide=outside) + gathered(["wte.weight"])
            + gathered(again)
        )
        calls = microbatches * (calls + 2 + 2 * 2)
    expected = (ranks - 1) * (total + scalars * 4)
    what = f"{ranks} ranks, {precision}, {microbatches} microbatches, stage {stage}"
    test.check(
        line["collective_bytes"] == expected,
        f"{what}: {line['collective_bytes']} bytes, expected {expected}",
    )
    test.check(
        line["collective_calls"] == calls + scalars,
        f"{what}: {line['collective_calls']} calls, expected {calls + scalars}",
    )


def memory():
    """State of a rank, and all that it needs, are what the formulas say."""
    ranks, layers, dim, vocab = 4, 24, 64, 64
    deep = test.gpt2("deep.mlir", layers=layers, dim=dim, vocab=vocab)
    params = layers * (12 * dim * dim + 13 * dim) + (vocab + 16 + 2) * dim
    # Stage 0 also has pieces of gradients for the norm. With one microbatch stage 1
    # is the program of stage 2.
    formulas = {
        "fp32": [16 + 4 / ranks, 4 + 12 / ranks, 4 + 12 / ranks, 16 / ranks],
        "bf16": [18, 2 + 16 / ranks, 2 + 16 / ranks, 18 / ranks],
    }
    for precision, wanted in formulas.items():
        for stage, factor in enumerate(wanted):
            what = f"stage {stage}, {precision}"
            program = test.compile(
                deep, "deep", "--batch=4", "--seq=8", f"--mesh=dp={ranks}",
                "--remat=full", f"--zero={stage}", f"--precision={precision}",
            )
            text = test.run(program, "info", "--memory").stdout.decode()

            def number(pattern, text=text):
                return int(re.search(pattern + r"\s+(\d+) bytes", text).group(1))

            whole, piece = 4 * params, 4 * params // ranks
            cut = stage == 3 or (stage > 0 and precision == "bf16")
            moments = piece if stage else whole
            for owner, bytes_ in (("parameters", piece if cut else whole),
                                  ("moment1", moments), ("moment2", moments)):
                found = number("    " + owner)
                # The number of updates is beside the moments.
                test.check(0 <= found - bytes_ <= 8, f"{owner}: {found}, {bytes_}, {what}")
            # Without what generation keeps. Above the formula: two slots of an
            # iteration's gradients, in stage 3 of its parameters too; activations of
            # 8 tokens and the piece of a parameter that is updated.
            unit = 4 / layers
            most = (factor + 0.3 + (4 if stage == 3 else 2) * unit) * params
            found = number("entry 'train': peak") - number("    other")
            test.check(
                factor * params <= found * 1.03 and found <= most,
                f"{found / params:.3f} bytes a parameter, expected {factor}, {what}",
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


def variables():
    """Variables as torchrun and srun set them start ranks without mpirun."""
    program = test.compile(model, "tcp", *COMMON, "--mesh=dp=2")
    clean = {
        k: v for k, v in os.environ.items()
        if not k.startswith(("OMPI_", "PMIX_", "SLURM_"))
    }
    expected, _ = run("mpi", 2, steps=3)
    launchers = {
        "torchrun": ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
        "srun": ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID",
                 "SLURM_NTASKS_PER_NODE"),
    }
    for number, (launcher, names) in enumerate(launchers.items()):
        port = str(20000 + 2 * (os.getpid() % 5000) + number)
        common = dict(clean, MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
        if launcher == "srun":
            common["SLURM_STEP_ID"] = "0"
        out = launcher + ".jsonl"
        ranks = [
            subprocess.Popen(
                [program, "train", "--data", "data.bin", "--steps", "3", "--lr",
                 "1e-2", "--quiet", "--metrics", out],
                env=dict(common, **dict(zip(names, (str(rank), "2", str(rank), "2")))),
                cwd=test.folder,
            )
            for rank in range(2)
        ]
        codes = [rank.wait(timeout=100) for rank in ranks]
        test.check(codes == [0, 0], f"ranks by {launcher}: exit codes {codes}")
        test.check(
            [line["loss"] for line in test.lines(out)]
            == [line["loss"] for line in expected],
            f"losses by variables of {launcher} and by mpirun",
        )
    # A job of Slurm that srun has not started a step of is one process.
    job = dict(clean, SLURM_PROCID="0", SLURM_NTASKS="2")
    test.refuse("is for 2 devices: start it with --devices 2", program, "train",
                "--data", "data.bin", "--steps", 1, "--lr", "1e-3", env=job)


def checkpoints():
    """A checkpoint of so many ranks goes on under any number, to the same losses."""
    # Stages take turns, so that each pair of numbers has another pair of stages.
    def plan(ranks, turn):
        stage = STAGES[turn % len(STAGES)]
        mesh = (f"--mesh=dp={ranks}", f"--zero={stage}") if ranks > 1 else ()
        name = f"n{ranks}z{stage}"
        if not os.path.exists(test.path(name)):
            test.compile(model, name, f"--batch={BATCH}", f"--seq={T}", *mesh)
        return test.path(name), ("--devices", ranks) if ranks > 1 else ()

    def train(of, folder, steps, *flags):
        program, start = of
        flags = ("--checkpoint-dir", folder, *flags)
        return test.train(program, *start, *flags, steps=steps, out=folder)[0]

    expected, _ = test.train(plan(1, 0)[0], steps=6, out="whole")
    for saved in test.options.ranks:
        turn = SIZES.index(saved)
        train(plan(saved, turn), "saved", 3)
        for second in test.options.loads:
            folder = f"{saved}-{second}"
            shutil.copytree(test.path("saved"), test.path(folder))
            shutil.copy(test.path("saved.jsonl"), test.path(folder + ".jsonl"))
            # The metrics go on in the file of the first part.
            of = plan(second, turn + SIZES.index(second))
            close(train(of, folder, 6, "--resume"), expected,
                  f"{saved} ranks, then {second}")
        shutil.rmtree(test.path("saved"))


def pieces():
    """State in pieces: damage is found, weights and gradients are those of one device."""
    one = test.compile(model, "one", f"--batch={BATCH}", f"--seq={T}")
    four = test.compile(model, "four", f"--batch={BATCH}", f"--seq={T}", "--mesh=dp=4", "--zero=3")
    test.train(four, "--devices", 4, "--checkpoint-dir", "kept", steps=3, out="part")
    with open(test.path("kept/step-00000003/optimizer.safetensors"), "r+b") as file:
        file.seek(-1, os.SEEK_END)
        last = file.read(1)
        file.seek(-1, os.SEEK_END)
        file.write(bytes([last[0] ^ 1]))
    test.refuse("damaged: expected the checksum", four, "train", "--data", "data.bin",
                "--steps", 7, "--lr", "1e-2", "--checkpoint-dir", "kept", "--resume",
                "--devices", 4)
    test.train(one, steps=6, out="whole")
    grads, losses = [], []
    for program, start in ((one, ()), (four, ("--devices", 4))):
        found, _ = test.train(program, *start, "--init", "whole.safetensors",
                              "--dump-grads", "grads.safetensors", steps=2, out="part")
        grads.append(tensors.read(test.path("grads.safetensors")))
        losses.append(found)
    close(losses[1], losses[0], "weights of one device")
    test.check(grads[0].keys() == grads[1].keys(), "names of gradients")
    # A gradient is a sum over all tokens, in another order with ranks: in f32 off by at
    # most half a unit in the last place for each.
    most = BATCH * T * 2.0**-24
    for name, expected in grads[0].items():
        off = np.abs(expected - grads[1][name]).max() / np.abs(expected).max()
        test.check(off <= most, f"gradient of {name} off by {off:.3g}")


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


def hellaswag():
    """Questions are shared among the ranks, and answered as by one."""
    rng = np.random.default_rng(2)
    words, count = [], 11
    for number in range(count):
        # Contexts of all lengths, of which some lose their beginning.
        context = rng.integers(0, VOCAB, int(rng.integers(1, T)))
        example = [65535, 0, number, int(rng.integers(4)), 4, len(context), *context]
        for _ in range(4):
            ending = rng.integers(0, VOCAB, int(rng.integers(1, 7)))
            example += [len(ending), *ending]
        example[1] = 2 * len(example)
        words += example
    header = np.zeros(256, "<i4")
    header[:4] = 20240522, 1, count, 0
    with open(test.path("questions.bin"), "wb") as file:
        file.write(header.tobytes() + np.array(words, "<u2").tobytes())
    found = {}
    for ranks in (1, *test.options.ranks):
        mesh = (f"--mesh=dp={ranks}",) if ranks > 1 else ()
        program = test.compile(model, f"h{ranks}", "--batch=6", f"--seq={T}", *mesh)
        start = ("--devices", ranks) if ranks > 1 else ()
        if ranks == 1:
            test.train(program, steps=5)
        done = test.run(program, "eval", "--hellaswag", "questions.bin", "--weights",
                        "run.safetensors", "--metrics", "h.jsonl", *start)
        notes = [line for line in done.stderr.decode().splitlines() if "note" in line]
        found[ranks] = (test.lines("h.jsonl"), done.stdout, notes)
    test.check("lose their beginning" in str(found[1]), f"notes: {found[1]}")
    for ranks in test.options.ranks:
        test.check(found[ranks] == found[1], f"{found[ranks]}, expected {found[1]}")


{name: globals()[name] for name in PARTS}[test.options.part]()
test.finish()
