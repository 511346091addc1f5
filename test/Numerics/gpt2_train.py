#!/usr/bin/env python3
"""Trains the golden GPT-2 through the public path, bt-model → bt-compile →
`train --init … --data … --metrics …`, and compares with the float64 run of
PyTorch: losses and gradient norms of every step, every gradient of step 0 and
every final parameter.

The policies that round products are held to what PyTorch got with them on an
H200 instead: the root mean square of the losses' relative errors, and the
relative errors of all gradients and of all final parameters together, may be 2
(tf32) or 2.5 times (bf16) as large.

usage: gpt2_train.py --bin DIR --precision fp32|fp32tc|fp64|bf16|tf32 [--target T]
                     [--compile-flag FLAG …] [--phase PHASE --folder DIR]

The phases prepare, run and check may be on different machines, with --folder
carried from one to the next; the run needs neither compiler nor --bin.
"""
import argparse
import json
import os
import sys
import tempfile

import numpy as np

import tensors
import tolerance
from golden_gpt2 import GOLDENS, LAYER, OUTER, run, token_stream

# Relative limits of losses and gradient norms. In fp32 and fp32tc: the run has to
# stay as close to float64 as the issue of this test asks (2e-6, 1e-5); in fp64 the two
# programs differ in the order of additions alone.
LIMITS = {"fp32": (2e-6, 1e-5), "fp32tc": (2e-6, 1e-5), "fp64": (1e-9, 1e-9)}

# The runs of PyTorch that the other policies are compared with, and how many times
# their errors are allowed.
PYTORCH = {"bf16": "cuda_bf16_autocast", "tf32": "cuda_tf32"}
ALLOWED = {"cuda_bf16_autocast": 2.5, "cuda_tf32": 2.0}


def exported(golden):
    """The Hugging Face name, and whether files hold the matrix transposed."""
    if golden in OUTER:
        return OUTER[golden], False
    layer, rest = golden.split(".", 1)
    name = LAYER[rest]
    return f"h.{layer[1:]}.{name}", ".c_" in f".{name}" and name.endswith("weight")


def to_file(array, transposed):
    return np.ascontiguousarray(array.T) if transposed else array


def write_shard(path, tokens):
    header = np.zeros(256, dtype="<i4")
    header[:3] = 20240520, 1, len(tokens)
    with open(path, "wb") as file:
        file.write(header.tobytes() + tokens.astype("<u2").tobytes())


def least_v(config, grad):
    """A lower bound of √v̂ over all steps, of which the first gradient is a part:
    v̂_t ≥ (1 - β2)·β2^(t-1)/(1 - β2^t)·g_1²."""
    beta, t = config["b2"], config["steps"]
    return np.abs(grad) * np.sqrt((1 - beta) * beta ** (t - 1) / (1 - beta**t))


class Report:
    def __init__(self):
        self.count = self.failures = 0
        self.worst = {}

    def check(self, kind, name, actual, expected, limit):
        error, where = tolerance.ratio(actual, expected, limit)
        self.count += 1
        if not error <= 1:
            self.failures += 1
            print(f"FAILED {kind} {name}{list(where)}: {error:.3g} of its tolerance")
        self.worst[kind] = max(self.worst.get(kind, (0.0, "none")), (error, name))

    def finish(self):
        for kind, (error, name) in self.worst.items():
            print(f"worst {kind}: {error:.3g} of its tolerance, {name}")
        print(f"{self.count} comparisons, {self.failures} failures")
        sys.exit(1 if self.failures else 0)


def prepare(options, config, arrays, folder):
    """Writes the program, its weights and its data."""
    tool = lambda name: os.path.join(options.bin, name)
    path = lambda name: os.path.join(folder, name)
    os.makedirs(folder, exist_ok=True)
    steps, batch, length = config["steps"], config["B"], config["T"]
    init = {}
    for name in [k[5:] for k in arrays if k.startswith("init.")]:
        target, transposed = exported(name)
        init[target] = to_file(arrays["init." + name], transposed)
    tensors.write(path("init.safetensors"), init)
    write_shard(
        path("data.bin"),
        token_stream(steps * batch * length + 1, config["seed"]),
    )
    sizes = []
    for flag, key in (
        ("layers", "L"),
        ("heads", "H"),
        ("dim", "d"),
        ("vocab", "V"),
        ("context", "T"),
    ):
        sizes += [f"--{flag}", str(config[key])]
    run(tool("bt-model"), "gpt2", *sizes, "-o", path("gpt2.mlir"))
    run(
        tool("bt-compile"),
        path("gpt2.mlir"),
        f"--target={options.target}",
        f"--batch={batch}",
        f"--seq={length}",
        f"--precision={options.precision}",
        *options.compile_flag,
        "-o",
        path("gpt2"),
    )


def train(config, folder):
    """Trains in `folder`, where everything lies and goes."""
    path = lambda name: os.path.join(folder, name)
    hyper = []
    for flag, key in (
        ("lr", "lr"),
        ("beta1", "b1"),
        ("beta2", "b2"),
        ("eps", "eps"),
        ("weight-decay", "wd"),
        ("clip", "clip"),
    ):
        hyper += [f"--{flag}", repr(config[key])]
    run(
        path("gpt2"),
        "train",
        *("--init", path("init.safetensors")),
        *("--data", path("data.bin")),
        *("--steps", str(config["steps"])),
        *hyper,
        *("--metrics", path("run.jsonl")),
        *("--dump-grads", path("grads.safetensors")),
        *("--save", path("final.safetensors")),
        "--quiet",
    )


def relative_error(actual, expected):
    """Of many arrays as one vector."""
    error = sum(np.sum(np.square(a - e)) for a, e in zip(actual, expected))
    return np.sqrt(error / sum(np.sum(np.square(e)) for e in expected))


def compare_with_pytorch(report, golden, key, metrics, grads, final):
    """`grads` and `final` are pairs of arrays, found and expected."""
    reference = golden[key]
    exact = np.array(golden["losses_f64"])
    loss_error = lambda losses: np.sqrt(np.mean(np.square(losses / exact - 1)))
    found = np.array([line["loss"] for line in metrics])
    for kind, error, allowed in (
        ("losses", loss_error(found), loss_error(np.array(reference["losses"]))),
        ("gradients", relative_error(*zip(*grads)), reference["rel_grad0"]),
        ("parameters", relative_error(*zip(*final)), reference["rel_final"]),
    ):
        print(f"{kind}: {error:.3g}, {error / allowed:.3g} of PyTorch's error")
        report.check(kind, key, error, 0.0, ALLOWED[key] * allowed)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", default="")
    parser.add_argument("--precision", choices=[*LIMITS, *PYTORCH], required=True)
    parser.add_argument("--compile-flag", action="append", default=[])
    parser.add_argument("--target", default="cpu")
    parser.add_argument(
        "--phase", default="all", choices=("all", "prepare", "run", "check")
    )
    parser.add_argument("--folder", default="")
    options = parser.parse_args()
    with open(os.path.join(GOLDENS, "goldens.json"), encoding="utf-8") as file:
        golden = json.load(file)["main"]
    config = golden["config"]
    arrays = tensors.read(os.path.join(GOLDENS, "gpt2_main.safetensors"))
    names = [k[5:] for k in arrays if k.startswith("init.")]
    steps, batch, length = config["steps"], config["B"], config["T"]

    with tempfile.TemporaryDirectory() as scratch:
        folder = options.folder or scratch
        if options.phase in ("all", "prepare"):
            prepare(options, config, arrays, folder)
        if options.phase in ("all", "run"):
            train(config, folder)
        if options.phase in ("prepare", "run"):
            return
        path = lambda name: os.path.join(folder, name)
        with open(path("run.jsonl"), encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        grads = tensors.read(path("grads.safetensors"))
        final = tensors.read(path("final.safetensors"))

    report = Report()
    metrics = [line for line in lines if "loss" in line]
    if [line["step"] for line in metrics] != list(range(steps)):
        sys.exit(f"expected metrics of steps 0 to {steps - 1}")
    if options.precision in PYTORCH:
        pairs = lambda found, key: [
            (found[exported(n)[0]], to_file(arrays[key + n], exported(n)[1]))
            for n in names
        ]
        compare_with_pytorch(
            report,
            golden,
            PYTORCH[options.precision],
            metrics,
            pairs(grads, "grad0."),
            pairs(final, "final."),
        )
        report.finish()
    relative = tolerance.path(
        "f32",
        tolerance.gpt2_lengths(
            config["L"], config["d"], config["H"], config["V"], length, batch * length
        ),
    )
    loss_limit, norm_limit = LIMITS[options.precision]
    for line, loss, norm in zip(metrics, golden["losses_f64"], golden["norms_f64"]):
        step = f"of step {line['step']}"
        report.check("loss", step, line["loss"], loss, loss_limit * abs(loss))
        report.check(
            "gradient norm", step, line["grad_norm"], norm, norm_limit * norm
        )
    for name in names:
        target, transposed = exported(name)
        for kind, actual, key in (
            ("gradient", grads[target], "grad0."),
            ("final parameter", final[target], "final."),
        ):
            expected = to_file(arrays[key + name], transposed)
            if options.precision == "fp64":
                size = np.sqrt(np.mean(np.square(expected)))
                limit = 1e-9 * np.maximum(np.abs(expected), size)
            elif kind == "gradient":
                size = np.sqrt(np.mean(np.square(expected)))
                limit = relative * np.maximum(np.abs(expected), size)
            else:
                grad = to_file(arrays["grad0." + name], transposed)
                limit = tolerance.adamw(
                    "f32",
                    expected,
                    steps,
                    config["lr"],
                    relative,
                    np.sqrt(np.mean(np.square(grad))),
                    least_v(config, grad),
                )
            report.check(kind, name, actual, expected, limit)
    report.finish()


main()
