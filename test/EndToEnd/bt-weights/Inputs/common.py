"""What the tests of bt-weights share: a trained model, and its logits."""
import os
import sys

import numpy as np

INPUTS_FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(INPUTS_FOLDER, "../../programs/Inputs"))
from harness import Test, tensors, tokens  # noqa: E402, F401

LAYERS, HEADS, DIM, VOCAB, CONTEXT, BATCH = 2, 4, 32, 300, 32, 2
SIZES = dict(layers=LAYERS, heads=HEADS, dim=DIM, vocab=VOCAB, context=CONTEXT)
# A file of 3 batches.
STREAM = tokens(3 * BATCH * CONTEXT + 1, VOCAB)
INPUTS = STREAM[:-1].reshape(-1, CONTEXT)
TARGETS = STREAM[1:].reshape(-1, CONTEXT)


def start(doc, add=lambda parser: None):
    test = Test(doc, add)
    test.shard("data.bin", STREAM)
    test.gpt2("gpt2.mlir", **SIZES)
    program = test.compile("gpt2.mlir", "gpt2", f"--batch={BATCH}", f"--seq={CONTEXT}")
    return test, program


def evaluate(test, program, weights):
    test.run(
        *(program, "eval", "--data", "data.bin", "--weights", weights),
        *("--quiet", "--metrics", "eval.jsonl"),
    )
    return test.lines("eval.jsonl")[-1]["val_loss"]


def prefill(test, program, weights, ids):
    """The logits of one sequence, as the compiled program computes them."""
    feed = {"tokens": np.asarray(ids, np.int32).reshape(1, -1)}
    feed["position"] = np.zeros((), np.int32)
    for name, array in tensors.read(test.path(weights)).items():
        own = "block." + name[2:] if name.startswith("h.") else name
        turned = ".c_" in name and name.endswith(".weight")
        feed[own] = np.ascontiguousarray(array.T) if turned else array
    tensors.write(test.path("call.safetensors"), feed)
    files = ("--inputs", "call.safetensors", "--outputs", "out.safetensors")
    test.run(program, "call", "--entry", "prefill", *files)
    return tensors.read(test.path("out.safetensors"))["logits"].reshape(-1, VOCAB)
