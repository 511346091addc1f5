#!/usr/bin/env python3
"""`train --debug-nonfinite` names the operation that first made a value which is
not finite, in the program or in its state and inputs.

usage: nonfinite.py --bin DIR
"""
import os
import re
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
from harness import Test, tensors, tokens  # noqa: E402

test = Test(__doc__)
MODEL = """
blu.model @m(%tokens: tensor<?x?xi32> {blu.name = "tokens"}, %targets: tensor<?x?xi32> {blu.name = "targets"})
    -> (tensor<f32> {blu.name = "loss"}) attributes {blu.vocab_size = 16 : i64} {
  %w = blu.param "w" init(#blu.normal<0.0, 0.5>) : tensor<16x8xf32>
  %u = blu.param "u" init(#blu.normal<0.0, 0.5>) : tensor<8x8xf32>
  %x = blu.embedding %w, %tokens : (tensor<16x8xf32>, tensor<?x?xi32>) -> tensor<?x?x8xf32>
  %y = blu.linear %x, %u : (tensor<?x?x8xf32>, tensor<8x8xf32>) -> tensor<?x?x8xf32>
  %l = blu.log %y : tensor<?x?x8xf32>
  %e = blu.exp %l : tensor<?x?x8xf32>
  %z = blu.linear %e, %w : (tensor<?x?x8xf32>, tensor<16x8xf32>) -> tensor<?x?x16xf32>
  %loss = blu.cross_entropy %z, %targets ignore_index = -100 reduction(mean) : (tensor<?x?x16xf32>, tensor<?x?xi32>) -> tensor<f32>
  blu.return %loss : tensor<f32>
}
"""
test.write("m.mlir", MODEL)
test.shard("data.bin", tokens(100, 16))
flags = ("--batch=2", "--seq=4")
program = test.compile(test.path("m.mlir"), "m", *flags, "--debug-nonfinite")
words = ("--data", "data.bin", "--lr", "1e-3", "--steps", 2, "--debug-nonfinite")


def origin(program, *more):
    done = test.run(program, "train", *words, "--quiet", *more, code=2)
    text = done.stderr.decode()
    found = re.search(
        r"error: step 0: the loss is -?nan; the first value that is not finite is of "
        r"'([^']*)'.*: element (\d+) of (\d+) is (-?nan|-?inf)",
        text,
    )
    test.check(found, f"no origin in {text}")
    return found.groups() if found else (None,) * 4


# The logarithm of a negative number, in line 8 of the model.
what, *_ = origin(program)
test.check(what and "m.mlir:8:" in what, f"found {what}")
# A parameter, and with it no operation at all.
test.train(program, steps=0, out="init")
weights = dict(tensors.read(test.path("init.safetensors")))
weights["u"] = np.abs(weights["u"])
weights["w"] = np.abs(weights["w"])
tensors.write(test.path("good.safetensors"), weights)
test.run(program, "train", *words, "--init", "good.safetensors", "--quiet")
weights["u"] = weights["u"].copy()
weights["u"][3, 2] = np.inf
tensors.write(test.path("bad.safetensors"), weights)
what, element, count, value = origin(program, "--init", "bad.safetensors")
test.check(
    what and "u" in what and (element, count, value) == ("26", "64", "inf"),
    f"found {what}, element {element} of {count} is {value}",
)
# Looking, and being able to, changes no bit.
plain = test.compile(test.path("m.mlir"), "plain", *flags)
init = ("--init", "good.safetensors")
one = test.train(plain, *init)[1]
test.check(test.train(program, *init)[1] == one, "weights of a build that can look")
look = ("--debug-nonfinite", *init)
test.check(test.train(program, *look)[1] == one, "weights of a run that looks")
test.refuse(
    r"--debug-nonfinite: expected a program compiled with",
    *(plain, "train", *words),
)
test.finish()
