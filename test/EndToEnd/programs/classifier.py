#!/usr/bin/env python3
"""Training and evaluating a classifier of images in IDX files: on made-up images
against numpy, or on a part of Fashion-MNIST.

usage: classifier.py --bin DIR [--fashion]
"""
import gzip
import os
import re
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
from harness import Test, tensors  # noqa: E402

test = Test(
    __doc__, lambda parser: parser.add_argument("--fashion", action="store_true")
)
FASHION = "/usr/share/datasets/fashion-mnist"
# Programs for a device have no f64; losses here are below 3.
PRECISION, NEAR, ROUNDED = ("fp32", 5e-6, 5e-6) if test.for_device else ("fp64", 1e-9, 1e-12)
PARTS = ("images-idx3-ubyte", "labels-idx1-ubyte")


def idx(name, array, pack=False):
    header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
    data = header + array.astype(np.uint8).tobytes()
    with open(test.path(name), "wb") as file:
        file.write(gzip.compress(data) if pack else data)


def read_idx(path):
    with gzip.open(path) as file:
        data = file.read()
    shape = np.frombuffer(data[4 : 4 + 4 * data[3]], ">u4")
    return np.frombuffer(data[4 + 4 * data[3] :], np.uint8).reshape(shape)


def compile_mlp(name, inputs, hidden, classes, *flags):
    words = ("--inputs", inputs, "--hidden", hidden, "--classes", classes)
    return test.compile(test.model("mlp", *words, name="mlp.mlir"), name, *flags)


def accuracy(program, *words):
    done = test.run(program, "eval", *words).stdout.decode()
    found = re.search(r"accuracy ([0-9.]+), (\d+) images in (\d+) batches", done)
    test.check(found, f"no accuracy in {done}")
    return float(found.group(1)), int(found.group(2)), int(found.group(3))


def fashion():
    for split, count in (("train", 6000), ("t10k", 1000)):
        for part in PARTS:
            whole = read_idx(f"{FASHION}/{split}-{part}.gz")
            idx(f"{split}-{part}", whole[:count], pack=split == "train")
    program = compile_mlp("mlp", 784, "64", 10, "--batch=50")
    test.run(
        program,
        "train",
        *("--data", "train-" + PARTS[0], "--steps", 600, "--lr", "1e-3", "--shuffle"),
        *("--schedule", "linear", "--quiet", "--save", "w.safetensors"),
    )
    words = ("--data", "t10k-" + PARTS[0], "--weights", "w.safetensors")
    share, count, _ = accuracy(program, *words)
    test.check(count == 1000, f"{count} images")
    # Measured: 0.83; a constant answer has 0.1.
    test.check(share >= 0.8, f"accuracy {share}, expected at least 0.8")


def made_up():
    rng = np.random.default_rng(3)
    kinds = rng.integers(60, 200, (4, 4, 4))
    label = rng.integers(0, 4, 203)
    image = np.clip(kinds[label] + rng.normal(0, 20, (203, 4, 4)), 0, 255)
    image = image.astype(np.uint8)
    idx("t-" + PARTS[0], image)
    idx("t-" + PARTS[1], label)
    idx("packed", image, pack=True)
    program = compile_mlp("mlp", 16, "8", 4, "--batch=10", f"--precision={PRECISION}")
    data = dict(data="t-" + PARTS[0])

    def predicted(weights):
        w = {k: v.astype(float) for k, v in tensors.read(test.path(weights)).items()}
        h = image.reshape(203, 16) / 255 @ w["fc1.weight"].T + w["fc1.bias"]
        h = 0.5 * h * (1 + np.tanh(np.sqrt(2 / np.pi) * (h + 0.044715 * h**3)))
        z = h @ w["fc2.weight"].T + w["fc2.bias"]
        z -= z.max(axis=1, keepdims=True)
        log = z - np.log(np.exp(z).sum(axis=1, keepdims=True))
        return log

    val = ("--val", "packed", "--val-labels", "t-" + PARTS[1], "--val-every", 20)
    metrics, saved = test.train(program, "--shuffle", *val, **data, steps=60)
    log = predicted("run.safetensors")
    expected = np.mean(log.argmax(axis=1) == label)
    test.check(expected > 0.9, f"accuracy {expected} by numpy")
    words = ("--weights", "run.safetensors", "--data", "packed")
    words += ("--labels", "t-" + PARTS[1], "--metrics", "e.jsonl")
    share, count, batches = accuracy(program, *words)
    # 203 images: the last 3 count for the accuracy, not for the loss.
    test.check(abs(share - expected) < 1e-4, f"accuracy {share}, expected {expected}")
    test.check((count, batches) == (200, 20), f"{count} images, {batches} batches")
    line = test.lines("e.jsonl")[0]
    loss = -np.mean(log[np.arange(200), label[:200]])
    test.check(abs(line["val_loss"] - loss) < NEAR, f"{line}, expected loss {loss}")
    test.check(line["accuracy"] == expected, f"{line}, expected {expected}")
    test.check(line["images"] == 200, f"{line}")
    lines = [m for m in metrics if "val_loss" in m]
    test.check(len(lines) == 4, f"{len(lines)} validations")
    test.check(lines[-1]["val_accuracy"] == expected, f"{lines[-1]}")
    share, count, _ = accuracy(program, *words, "--val-batches", 3)
    first = np.mean(log.argmax(axis=1)[:30] == label[:30])
    test.check(abs(share - first) < 1e-4 and count == 30, f"{share} of {count}")

    # Without --shuffle step s takes images [10 s, 10 s + 10), again from the start.
    test.train(program, **data, steps=0, out="zero")
    log = predicted("zero.safetensors")
    words = ("--data", data["data"], "--steps", 22, "--lr", 0, "--quiet")
    test.run(program, "train", *words, "--metrics", "still.jsonl")
    metrics = test.lines("still.jsonl")
    for step in (0, 7, 20, 21):
        taken = np.arange(10 * step, 10 * step + 10) % 203
        loss = -np.mean(log[taken, label[taken]])
        test.check(
            abs(metrics[step]["loss"] - loss) < NEAR,
            f"step {step}: loss {metrics[step]['loss']}, expected {loss}",
        )
        test.check(metrics[step]["tokens"] == 10 * step + 10, f"{metrics[step]}")

    # A run that goes on is the run.
    more = ("--shuffle", "--checkpoint-dir", "c", "--resume")
    test.train(program, *more, **data, steps=33)
    test.check(
        test.train(program, *more, **data, steps=60)[1] == saved, "weights after resume"
    )

    # Microbatches read the images of one batch.
    accum = compile_mlp(
        "accum", 16, "8", 4, "--batch=2", "--accum=5", f"--precision={PRECISION}"
    )
    init = ("--init", "zero.safetensors")
    one = test.train(program, *init, **data)[0]
    other = test.train(accum, *init, **data)[0]
    for a, b in zip(one, other):
        test.check(abs(a["loss"] - b["loss"]) <= ROUNDED, f"{a['loss']} and {b['loss']}")

    def refused(pattern, *flags):
        words = ("--steps", 1, "--lr", 1, *flags)
        test.refuse(pattern, program, "train", *words)

    refused(r"absent-images-idx3: cannot open", "--data", "absent-images-idx3")
    refused(r"--labels: expected the file of the labels", "--data", "packed")
    refused(
        r"expected images of 16 elements, got a file of 203",
        *("--data", "t-" + PARTS[1], "--labels", "t-" + PARTS[1]),
    )
    idx("bad-" + PARTS[0], image)
    label[200] = 4
    idx("bad-" + PARTS[1], label)
    refused(r"label 200: expected one below .* 4 classes, got 4", "--data", "bad-" + PARTS[0])
    idx("few-" + PARTS[0], image[:9])
    idx("few-" + PARTS[1], label[:9])
    refused(
        r"--data: expected at least 10 images for one batch, got 9",
        *("--data", "few-" + PARTS[0]),
    )


if test.options.fashion:
    fashion()
else:
    made_up()
test.finish()
