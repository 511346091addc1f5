#!/usr/bin/env python3
"""Weights keep their bits through every format, mean the same in each (NumPy
computes the same logits from the folder), and what is damaged or of another
model is refused.

usage: convert.py --bin DIR --part formats|refuse
"""
import json
import os
import shutil
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
from common import *  # noqa: E402, F403
import folder as reference  # noqa: E402

test, program = start(
    __doc__,
    lambda parser: parser.add_argument(
        "--part", choices=("formats", "refuse"), required=True
    ),
)
TOOL = test.tool("bt-weights")


def convert(source, target, *flags):
    return test.run(TOOL, "convert", source, "-o", target, *flags).stdout.decode()


def same(one, other):
    a, b = (tensors.read(test.path(name)) for name in (one, other))
    return a.keys() == b.keys() and all(
        a[k].dtype == b[k].dtype and np.array_equal(a[k], b[k]) for k in a
    )


test.train(program, "--checkpoint-dir", "c", steps=30)
arrays = tensors.read(test.path("run.safetensors"))
expected = evaluate(test, program, "run.safetensors")
said = convert("run.safetensors", "hf")
test.check(
    said == f"hf: {LAYERS} layers, {HEADS} heads, width {DIM}, context {CONTEXT}, "
    f"vocabulary {VOCAB}, 36096 parameters\n",
    said,
)
convert("hf", "model.bin")


def formats():
    convert("model.bin", "back.safetensors")
    convert("c/step-00000030", "checkpoint.safetensors")
    test.check(same("run.safetensors", "back.safetensors"), "through both formats")
    test.check(same("run.safetensors", "checkpoint.safetensors"), "out of a checkpoint")
    for name in ("hf", "back.safetensors"):
        test.check(evaluate(test, program, name) == expected, f"loss of {name}")

    # Elsewhere: the folder alone.
    values = reference.logits(test.path("hf"), INPUTS)
    loss = reference.loss(values, TARGETS)
    test.check(abs(loss - expected) < 1e-6 * abs(loss), f"loss {loss}, ours {expected}")
    ours = prefill(test, program, "run.safetensors", INPUTS[0])
    error = np.abs(ours - values[0]).max()
    test.check(error < 1e-5 * np.abs(values).max(), f"logits differ by {error}")

    # What an llm.c program reads.
    content = test.bytes("model.bin")
    header = np.frombuffer(content[:1024], "<i4")
    test.check(
        header[:8].tolist() == [20240326, 3, CONTEXT, VOCAB, LAYERS, HEADS, DIM, 384],
        f"header {header[:8]}",
    )
    numbers = np.frombuffer(content[1024:], "<f4")
    table = numbers[: 384 * DIM].reshape(384, DIM)
    test.check(np.array_equal(table[:VOCAB], arrays["wte.weight"]), "wte")
    test.check(not table[VOCAB:].any(), "padding of wte")
    at = (384 + CONTEXT) * DIM + 2 * LAYERS * DIM
    qkv = numbers[at:][: LAYERS * 3 * DIM * DIM].reshape(LAYERS, 3 * DIM, DIM)
    test.check(np.array_equal(qkv[1], arrays["h.1.attn.c_attn.weight"].T), "qkvw")
    test.check(np.array_equal(numbers[-DIM:], arrays["ln_f.bias"]), "lnfb")

    # Rounded to bf16, once.
    convert("hf", "narrow.bin", "--dtype", "bf16")
    convert("narrow.bin", "narrow.safetensors")
    convert("narrow.bin", "wide.safetensors", "--dtype", "f32")
    test.check(np.frombuffer(test.bytes("narrow.bin")[4:8], "<i4")[0] == 5, "version 5")
    rounded = evaluate(test, program, "narrow.safetensors")
    test.check(evaluate(test, program, "wide.safetensors") == rounded, "bf16 as f32")
    test.check(0 < abs(rounded - expected) < 1e-2, f"bf16 {rounded}, f32 {expected}")

    # Another vocabulary: rows more, or fewer.
    test.gpt2("wide.mlir", **SIZES | {"vocab": 320})
    wide = test.compile("wide.mlir", "wide", f"--batch={BATCH}", f"--seq={CONTEXT}")
    convert("hf", "padded.safetensors", "--vocab", 320)
    evaluate(test, wide, "padded.safetensors")
    convert("padded.safetensors", "cut.safetensors", "--vocab", VOCAB)
    test.check(same("run.safetensors", "cut.safetensors"), "padded and cut")

    # A folder in parts, with masks and a head.
    os.makedirs(test.path("parts"))
    shutil.copy(test.path("hf/config.json"), test.path("parts"))
    everything = tensors.read(test.path("hf/model.safetensors"))
    everything["lm_head.weight"] = everything["transformer.wte.weight"]
    everything["transformer.h.0.attn.bias"] = np.ones((1, 1, 4, 4), bool)
    places = {}
    for i, part in enumerate((list(everything)[::2], list(everything)[1::2])):
        name = f"model-{i}.safetensors"
        tensors.write(test.path("parts/" + name), {k: everything[k] for k in part})
        places |= dict.fromkeys(part, name)
    test.write("parts/model.safetensors.index.json", json.dumps({"weight_map": places}))
    convert("parts", "joined.safetensors")
    test.check(same("run.safetensors", "joined.safetensors"), "a folder in parts")

    said = test.run(TOOL, "inspect", "model.bin").stdout.decode().splitlines()
    test.check("llm.c, 2 layers, 4 heads" in said[0] and len(said) == 29, f"{said[:2]}")


def refused(pattern, source, *flags, target="new.safetensors"):
    test.refuse(pattern, TOOL, "convert", source, "-o", target, *flags)


def refuse():
    refused("none: no such file", "none")
    refused("hf: expected a folder that is new or empty", "model.bin", target="hf")
    refused("argument --heads: hf says 4, got 2", "hf", "--heads", 2)
    refused("argument --vocab: expected at least 1", "hf", "--vocab", 0)
    tensors.write(test.path("plain.safetensors"), arrays)
    refused("does not say how many heads .*: give --heads N", "plain.safetensors", target="n")
    refused("heads that divides 32, got 5", "plain.safetensors", "--heads", 5, target="n")
    for name, pattern in (
        ("h.1.ln_2.bias", "missing tensor 'h.1.ln_2.bias'"),
        ("wte.weight", "expected the weights of a GPT-2, got no 'wte.weight'"),
    ):
        rest = {k: v for k, v in arrays.items() if k != name}
        tensors.write(test.path("bad.safetensors"), rest)
        refused("bad.safetensors: " + pattern, "bad.safetensors")
    for more, pattern in (
        ({"extra": np.zeros(3, "f4")}, "unexpected tensor 'extra'"),
        ({"h.0.ln_1.bias": np.zeros(3, "f4")}, r"'h.0.ln_1.bias': expected shape \[32\], got \[3\]"),
        ({"lm_head.weight": np.zeros((VOCAB, DIM), "f4")}, "expected it to equal 'wte.weight'"),
        ({"transformer.wpe.weight": np.zeros((CONTEXT, DIM), "f4")}, "with and without the prefix"),
        ({"wte.weight": np.zeros((VOCAB, DIM), "i4")}, "expected dtype F32, F64, BF16 or F16, got I32"),
    ):
        tensors.write(test.path("bad.safetensors"), arrays | more)
        refused("bad.safetensors: .*" + pattern, "bad.safetensors")
    weights = test.bytes("run.safetensors")
    for content, pattern in (
        (weights[:-1], "expected a safetensors file"),
        (b"", "expected a safetensors file"),
        (b"\xff" * 64, "expected a safetensors file"),
    ):
        with open(test.path("bad.safetensors"), "wb") as file:
            file.write(content)
        refused("bad.safetensors: " + pattern, "bad.safetensors")

    model = test.bytes("model.bin")
    for content, pattern in (
        (model[:100], "expected a header of 1024 bytes, got 100 bytes"),
        (model[:-2], "the file is truncated"),
        (model + b"\0\0\0\0", "the file is too long"),
        (b"\0" * 2048, "expected a model file with magic number 20240326, got 0"),
        (model[:4] + b"\x01" + model[5:], "expected model file version 3 or 5, got 1"),
        (model[:20] + b"\0\0\0\0" + model[24:], "heads: expected at least 1, got 0"),
        (model[:12] + b"\xff\xff\0\0" + model[16:], "padded vocabulary: expected at least 65535"),
        (model[:16] + b"\xff\xff\xff\x7f" + model[20:], "the file is truncated"),
    ):
        with open(test.path("bad.bin"), "wb") as file:
            file.write(content)
        refused("bad.bin: .*" + pattern, "bad.bin")

    config = json.loads(test.bytes("hf/config.json"))
    os.makedirs(test.path("bad"))
    shutil.copy(test.path("hf/model.safetensors"), test.path("bad"))
    for key, value, pattern, loads in (
        ("model_type", "llama", "model_type: expected 'gpt2', got 'llama'", False),
        ("activation_function", "relu", "activation_function: expected 'gelu_new'", False),
        ("layer_norm_epsilon", 1e-6, "layer_norm_epsilon: expected 1e-05", False),
        ("n_head", "4", "n_head: expected a number, got '4'", False),
        ("n_head", 8, None, False),
        ("n_layer", 3, "n_layer: expected 2 as in the tensors, got 3", True),
        ("n_inner", 64, "n_inner: expected 128 as in the tensors, got 64", True),
    ):
        test.write("bad/config.json", json.dumps(config | {key: value}))
        if pattern:
            refused("bad/config.json: " + pattern, "bad")
        # The program looks at what its own shapes do not show.
        if not loads:
            test.refuse(
                f"bad/config.json: {key}: expected .* as in this program, got",
                *(program, "eval", "--data", "data.bin", "--weights", "bad"),
            )
    test.write("bad/config.json", "[")
    refused("bad/config.json: is not JSON", "bad")
    os.remove(test.path("bad/config.json"))
    refused("bad/config.json: no such file", "bad")
    test.refuse(
        "c: expected a file, or a folder with a model.safetensors",
        *(program, "eval", "--data", "data.bin", "--weights", "c"),
    )


{"formats": formats, "refuse": refuse}[test.options.part]()
test.finish()
