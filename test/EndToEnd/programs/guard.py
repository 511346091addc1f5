#!/usr/bin/env python3
"""A step whose loss or norm is not finite, or not below its limit, leaves weights
and optimizer state bit for bit; `train` then goes on or stops.

usage: guard.py --bin DIR
"""
import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
from harness import Test, tensors  # noqa: E402

test = Test(__doc__)
ROWS, WIDTH, CLASSES = 4, 5, 3
rng = np.random.default_rng(1)
SIZES = ("--inputs", WIDTH, "--hidden", "7", "--classes", CLASSES)
model = test.model("mlp", *SIZES, name="mlp.mlir")
SCALARS = dict(lr=0.01, beta1=0.9, beta2=0.95, eps=1e-8, weight_decay=0.1, clip=1.0)
GIVEN = dict(
    image=rng.normal(0, 1, (ROWS, WIDTH)).astype(np.float32),
    label=rng.integers(0, CLASSES, ROWS).astype(np.int32),
    step=np.array(1),
    momentum=np.array(0.9),
    **{k: np.array(v) for k, v in SCALARS.items()},
)
for name, shape in (
    ("fc1.weight", (7, WIDTH)),
    ("fc1.bias", (7,)),
    ("fc2.weight", (CLASSES, 7)),
    ("fc2.bias", (CLASSES,)),
):
    GIVEN[name] = rng.normal(0, 0.3, shape).astype(np.float32)
    for moment in ("moment1", "moment2"):
        GIVEN[f"{moment}:{name}"] = rng.uniform(0.1, 1, shape).astype(np.float32)

GIVEN["moment1:updates"] = np.array(4)


def call(program, **changed):
    limits = dict(loss_limit=np.array(np.inf), norm_limit=np.array(np.inf))
    tensors.write(test.path("in.safetensors"), GIVEN | limits | changed)
    words = ("--entry", "train", "--inputs", "in.safetensors", "--state", "--quiet")
    test.run(program, "call", *words, "--outputs", "out.safetensors")
    return tensors.read(test.path("out.safetensors"))


def check(program, what, applies, **changed):
    found = call(program, **changed)
    state = [k for k in found if ":" not in k and "." in k or k.startswith("moment")]
    test.check(len(state) in (8, 13), f"{what}: state {state}")
    test.check(bool(found["applied"]) == applies, f"{what}: applied {found['applied']}")
    given = GIVEN | changed
    for name in state:
        kept = found[name].tobytes() == given[name].tobytes()
        test.check(kept != applies, f"{what}: {name} is {'kept' if kept else 'changed'}")
    return found


for optimizer in ("adamw", "sgd"):
    program = test.compile(model, optimizer, "--batch=4", f"--optimizer={optimizer}")
    found = check(program, f"{optimizer}, a usual step", True)
    loss, norm = float(found["loss"]), float(found["grad_norm"])
    for what, value in (("loss", loss), ("norm", norm)):
        more, same = np.array(np.nextafter(value, np.inf)), np.array(value)
        check(program, f"{optimizer}, below {what}", True, **{what + "_limit": more})
        check(program, f"{optimizer}, at {what}", False, **{what + "_limit": same})
    # Bias correction goes by the updates before, not by the number of the step.
    if optimizer == "adamw":
        test.check(found["moment1:updates"] == 5, "counts the update")
        later = check(program, "another step", True, step=np.array(100))
        test.check(
            all(later[k].tobytes() == found[k].tobytes() for k in found),
            "the number of the step changes the update",
        )
        later = call(program, **{"moment1:updates": np.array(99)})
        name = "fc1.weight"
        test.check(
            later["moment1:" + name].tobytes() == found["moment1:" + name].tobytes()
            and later[name].tobytes() != found[name].tobytes(),
            "the number of updates changes the moments or not the weights",
        )
    # 0/0 where no label counts.
    none = np.full(ROWS, -100, np.int32)
    check(program, f"{optimizer}, no labels", False, label=none)
    for value in (np.nan, np.inf, -np.inf):
        image = GIVEN["image"].copy()
        image[1, 2] = value
        check(program, f"{optimizer}, {value} in the input", False, image=image)
    # Finite gradients whose norm is not.
    image = GIVEN["image"] * np.float32(1e25)
    found = check(program, f"{optimizer}, a norm too large", False, image=image)
    test.check(np.isinf(found["grad_norm"]), f"norm {found['grad_norm']}")

# The same in a run: a rate so large that nothing after the second step is finite.
model = test.gpt2(layers=1)
program = test.compile(model, "gpt2", "--batch=2", "--seq=8", "--precision=fp32")
test.shard("data.bin", rng.integers(0, 64, 400))
huge = ("--lr", "1e30")
flags = ("--data", "data.bin", "--quiet", *huge, "--metrics", "m.jsonl")
skip = ("--on-nonfinite", "skip", "--checkpoint-every", 1, "--keep", 0)
test.run(program, "train", *flags, "--steps", 6, *skip, "--checkpoint-dir", "c")
metrics = test.lines("m.jsonl")
skipped = [line["step"] for line in metrics if line.get("skipped")]
test.check(len(metrics) == 6, f"{len(metrics)} steps")
test.check(skipped and skipped == list(range(skipped[0], 6)), f"skipped {skipped}")
first = skipped[0]
for step in range(first + 1, 7):
    for name in ("weights", "optimizer"):
        path = f"c/step-%08d/{name}.safetensors"
        test.check(
            test.bytes(path % first) == test.bytes(path % step),
            f"{name} of step {step} are not those of step {first}",
        )
stopped = test.run(program, "train", *flags, "--steps", 6, code=2)
test.check(
    f"step {first}: the " in stopped.stderr.decode(), f"stopped: {stopped.stderr!r}"
)
test.finish()
