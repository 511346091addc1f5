#!/usr/bin/env python3
"""Checks the interpreter on the golden GPT-2: loss, logits and every gradient of
step 0, each to 1e-9.

usage: gpt2.py --bin DIR
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

RELATIVE = 1e-9

def model_name(golden):
    """h0.qkv.w -> block.0.attn.c_attn.weight, the model's own name."""
    if golden in OUTER:
        return OUTER[golden]
    layer, rest = golden.split(".", 1)
    return f"block.{layer[1:]}.{LAYER[rest]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", required=True)
    tool = lambda name: os.path.join(parser.parse_args().bin, name)
    with open(os.path.join(GOLDENS, "goldens.json"), encoding="utf-8") as file:
        golden = json.load(file)["main"]
    config = golden["config"]
    arrays = tensors.read(os.path.join(GOLDENS, "gpt2_main.safetensors"))
    batch, length = config["B"], config["T"]
    stream = token_stream(batch * length + 1, config["seed"]).astype(np.int32)
    params = {k[5:]: v for k, v in arrays.items() if k.startswith("init.")}
    feed = {model_name(k): v for k, v in params.items()}
    feed["tokens"] = stream[:-1].reshape(batch, length)
    feed["targets"] = stream[1:].reshape(batch, length)
    feed["gout.loss"] = np.array(1.0)

    with tempfile.TemporaryDirectory() as folder:
        path = lambda name: os.path.join(folder, name)
        tensors.write(path("in.safetensors"), feed)
        sizes = []
        for flag, key in (
            ("layers", "L"),
            ("heads", "H"),
            ("dim", "d"),
            ("vocab", "V"),
            ("context", "T"),
        ):
            sizes += [f"--{flag}", str(config[key])]
        run(tool("bt-model"), "gpt2", *sizes, "-o", path("model.mlir"))
        files = ["--inputs", path("in.safetensors"), "--outputs"]
        run(tool("bt-run"), path("model.mlir"), *files, path("forward.safetensors"))
        run(
            tool("bt-opt"),
            f"--blu-instantiate-programs=batch={batch} seq={length} train-only=true",
            "--blu-vjp",
            path("model.mlir"),
            "-o",
            path("vjp.mlir"),
        )
        run(tool("bt-run"), path("vjp.mlir"), *files, path("vjp.safetensors"))
        forward = tensors.read(path("forward.safetensors"))
        vjp = tensors.read(path("vjp.safetensors"))

    loss = np.array(golden["losses_f64"][0])
    pairs = [
        ("loss", forward["loss"], loss),
        ("loss of the vjp step", vjp["loss"], loss),
        ("logits", forward["logits"], arrays["logits0"]),
    ]
    squares = 0.0
    for name in params:
        grad = vjp["gin." + model_name(name)]
        pairs.append(("gradient of " + name, grad, arrays["grad0." + name]))
        squares += float(np.sum(np.square(grad)))
    pairs.append(
        ("gradient norm", np.sqrt(squares), np.array(golden["norms_f64"][0]))
    )
    worst, failed = (0.0, "none"), 0
    for name, actual, expected in pairs:
        size = np.sqrt(np.mean(np.square(expected)))
        limit = RELATIVE * np.maximum(np.abs(expected), size)
        error, where = tolerance.ratio(actual, expected, limit)
        if not error <= 1:
            failed += 1
            print(f"FAILED {name}{list(where)}: {error:.3g} of its tolerance")
        worst = max(worst, (error, name))
    print(
        f"{len(pairs)} tensors, {failed} failures, "
        f"worst {worst[0] * RELATIVE:.3g} relative in {worst[1]}"
    )
    sys.exit(1 if failed else 0)


main()
