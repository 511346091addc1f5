#!/usr/bin/env python3
"""A trained model means the same in transformers, and a model of transformers
means the same here.

usage: elsewhere.py --bin DIR --torch-python PYTHON
"""
import os
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "Inputs"))
from common import (  # noqa: E402
    CONTEXT,
    DIM,
    HEADS,
    INPUTS,
    LAYERS,
    TARGETS,
    VOCAB,
    evaluate,
    prefill,
    start,
)

test, program = start(__doc__, lambda p: p.add_argument("--torch-python", required=True))
TOOL = test.tool("bt-weights")


def torch_side(*words):
    script = os.path.join(HERE, "torch_side.py")
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    words = (test.options.torch_python, script, *words)
    return test.run(*words, env=environment).stdout.decode()


np.save(test.path("tokens.npy"), INPUTS.astype("i8"))
np.save(test.path("targets.npy"), TARGETS.astype("i8"))


def compare(what, folder, weights):
    said = torch_side("run", folder, "tokens.npy", "targets.npy", "logits.npy")
    theirs, logits = float(said), np.load(test.path("logits.npy"))
    ours = evaluate(test, program, weights)
    test.check(abs(ours - theirs) < 2e-6 * theirs, f"{what}: loss {ours}, {theirs}")
    for row in range(len(INPUTS)):
        error = np.abs(prefill(test, program, weights, INPUTS[row]) - logits[row]).max()
        bound = 1e-5 * np.abs(logits).max()
        test.check(error < bound, f"{what}: row {row}: {error} above {bound}")
    print(f"{what}: loss {ours:.7f}, transformers {theirs:.7f}, logits within {error:.2g}")


# Ours there.
test.train(program, steps=30)
test.run(TOOL, "convert", "run.safetensors", "-o", "ours")
compare("ours", "ours", "run.safetensors")
# Theirs here: the folder as it is, and through llm.c's format.
torch_side("make", "theirs", *map(str, (VOCAB, CONTEXT, DIM, LAYERS, HEADS)))
test.run(TOOL, "convert", "theirs", "-o", "theirs.bin")
test.run(TOOL, "convert", "theirs.bin", "-o", "theirs.safetensors")
compare("theirs", "theirs", "theirs.safetensors")
direct = evaluate(test, program, "theirs")
test.check(direct == evaluate(test, program, "theirs.safetensors"), "the folder itself")
# And what was trained from there goes back.
test.train(program, "--init", "theirs", steps=3)
test.run(TOOL, "convert", "run.safetensors", "-o", "further")
compare("further", "further", "run.safetensors")
test.finish()
