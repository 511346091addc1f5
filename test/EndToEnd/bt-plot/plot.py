#!/usr/bin/env python3
"""Pictures of runs and event files for TensorBoard hold the numbers of the runs;
what is no run is refused.

usage: plot.py --bin DIR --data-python PYTHON
"""
import json
import os
import struct
import subprocess
import sys
import time
import xml.etree.ElementTree as xml

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../programs/Inputs"))
from harness import Test  # noqa: E402

test = Test(__doc__, lambda parser: parser.add_argument("--data-python", required=True))
TOOL = test.tool("bt-plot")


def run(name, steps, start, cut=""):
    lines = []
    for step in range(steps):
        if step % 5 == 0:
            lines.append({"step": step, "val_loss": start + 0.5 - step / 50})
        lines.append(
            {
                "step": step,
                "loss": start - step / 50,
                "grad_norm": 2.0 / (step + 1),
                "lr": 0.1 * (step + 1),
                "tokens_per_s": 1000 + step,
            }
        )
    text = "".join(json.dumps(line) + "\n" for line in lines)
    os.makedirs(os.path.dirname(test.path(name)), exist_ok=True)
    test.write(name, text + cut)
    return lines


first = run("a/run.jsonl", 30, 5.0)
# A run that was killed while it wrote a line.
second = run("b/run.jsonl", 20, 4.0, cut='{"step": 20, "lo')


def labels(path):
    """The texts of an SVG."""
    root = xml.fromstring(test.bytes(path))
    return {"".join(e.itertext()).strip() for e in root.iter() if e.tag.endswith("text")}


said = test.run(TOOL, "a/run.jsonl", "b/run.jsonl").stdout.decode().split()
test.check(said == ["a/run.png", "a/run.svg"], f"wrote {said}")
test.check(test.bytes("a/run.png")[:8] == b"\x89PNG\r\n\x1a\n", "a PNG")
width, height = struct.unpack(">II", test.bytes("a/run.png")[16:24])
test.check(width >= 1000 and height >= 600, f"{width}x{height}")
root = xml.fromstring(test.bytes("a/run.svg"))
test.check(root.tag.endswith("svg"), "an SVG")
texts = labels("a/run.svg")
for label in (
    *("loss", "learning rate", "gradient norm", "tokens/s"),
    *("a/run", "b/run", "a/run, validation"),
):
    test.check(label in texts, f"label {label}")
test.run(TOOL, "a/run.jsonl", "b/run.jsonl", "-o", "again.svg", "-o", "again.png")
test.check(test.bytes("again.svg") == test.bytes("a/run.svg"), "the same SVG again")
test.check(test.bytes("again.png") == test.bytes("a/run.png"), "the same PNG again")
test.run(TOOL, "a/run.jsonl", "--smooth", 4, "-o", "smooth.svg")
test.check(test.bytes("smooth.svg") != test.bytes("a/run.svg"), "smoothed")
# A step that was left out because its numbers are not finite.
test.write(
    "skipped.jsonl",
    '{"step": 0, "loss": 2.0, "grad_norm": 1.0}\n'
    '{"step": 1, "loss": null, "grad_norm": null, "skipped": true}\n'
    '{"step": 2, "loss": 1.5, "grad_norm": 0.5}\n'
    '{"step": 3, "val_loss": 1.75, "val_accuracy": 0.5}\n',
)
test.run(TOOL, "skipped.jsonl", "-o", "skipped.svg", "--smooth", 2)
test.check(
    {"loss", "gradient norm", "accuracy"} <= labels("skipped.svg"), "panels of a run"
)
test.check("skipped" in labels("skipped.svg"), "the name of a run")
test.run(TOOL, "skipped.jsonl", "--tensorboard", "events")
test.write("lr.jsonl", '{"step": 3, "lr": 0.5}\n')
test.run(TOOL, "lr.jsonl", "-o", "lr.svg")
test.check("learning rate" in labels("lr.svg"), "one panel")
test.check("gradient norm" not in labels("lr.svg"), "no more panels")

# For TensorBoard, read back.
test.run(TOOL, "a/run.jsonl", "b/run.jsonl", "--tensorboard", "events")
READER = """
import glob, json, struct, sys
from tensorboardX.proto.event_pb2 import Event
from tensorboardX.record_writer import masked_crc32c
found = {}
(path,) = glob.glob(sys.argv[1] + "/events.out.tfevents.*")
data, at = open(path, "rb").read(), 0
while at < len(data):
    (length,) = struct.unpack_from("<Q", data, at)
    (check,) = struct.unpack_from("<I", data, at + 12 + length)
    payload = data[at + 12 : at + 12 + length]
    assert masked_crc32c(payload) == check
    event = Event.FromString(payload)
    for value in event.summary.value:
        found.setdefault(value.tag, []).append([event.step, value.simple_value])
    at += 16 + length
print(json.dumps(found))
"""
for name, lines in (("a/run", first), ("b/run", second)):
    words = (test.options.data_python, "-c", READER, "events/" + name)
    found = json.loads(test.run(*words).stdout)
    test.check(
        set(found) == {"loss", "val_loss", "grad_norm", "lr", "tokens_per_s"},
        f"{name}: tags {sorted(found)}",
    )
    for key, points in found.items():
        wanted = [[line["step"], line[key]] for line in lines if key in line]
        near = len(points) == len(wanted) and all(
            p[0] == w[0] and abs(p[1] - w[1]) <= 1e-6 * abs(w[1])
            for p, w in zip(points, wanted)
        )
        test.check(near, f"{name}: {key}")
found = json.loads(
    test.run(test.options.data_python, "-c", READER, "events/skipped").stdout
)
test.check(
    found
    == {
        "loss": [[0, 2.0], [2, 1.5]],
        "grad_norm": [[0, 1.0], [2, 0.5]],
        "val_loss": [[3, 1.75]],
        "val_accuracy": [[3, 0.5]],
    },
    f"what is finite of a run: {found}",
)

# While a run goes on: it has not begun, it writes, it is resumed from step 1.
with subprocess.Popen(
    [TOOL, "live.jsonl", "--tensorboard", "live", "--follow"],
    cwd=test.folder,
    stdout=subprocess.PIPE,
) as process:
    test.check(process.stdout.readline() == b"live/live\n", "follows a run")

    def shown():
        words = (test.options.data_python, "-c", READER, "live/live")
        return json.loads(test.run(*words).stdout)

    def wait_for(wanted):
        for _ in range(100):
            if shown() == wanted:
                return
            time.sleep(0.1)
        test.check(False, f"shows {shown()}, expected {wanted}")

    test.write("live.jsonl", '{"step": 0, "loss": 4}\n{"step": 1, "loss": 3}\n{"st')
    wait_for({"loss": [[0, 4], [1, 3]]})
    test.write("next.jsonl", '{"step": 0, "loss": 4}\n')
    os.replace(test.path("next.jsonl"), test.path("live.jsonl"))
    with open(test.path("live.jsonl"), "a", encoding="utf-8") as file:
        file.write('{"step": 1, "loss": 3}\n{"step": 2, "loss": 2}\n')
    wait_for({"loss": [[0, 4], [1, 3], [2, 2]]})
    process.terminate()
    test.check(process.wait(timeout=60) == 0, "ends at a signal")


def refused(pattern, *words, left=()):
    test.refuse(pattern, TOOL, *words, left=left)


refused("events/a/run: expected a folder without event files", "a/run.jsonl", "b/run.jsonl", "--tensorboard", "events")
refused("none.jsonl: no such file", "none.jsonl")
refused("argument -o: expected a name that ends in .png or .svg, got 'x.pdf'", "a/run.jsonl", "-o", "x.pdf")
refused("--follow: expected --tensorboard", "a/run.jsonl", "--follow")
refused("--smooth: expected at least 1", "a/run.jsonl", "--smooth", 0)
for text, pattern in (
    ("", "expected metrics, got none"),
    ("[1]\n", "line 1: expected an object with a step"),
    ('{"step": 0, "loss": 1}\n{"loss": 2}\n', "line 2: expected an object with a step"),
    ("x\n", "line 1: is not JSON"),
    ("[" * 100000 + "\n", "line 1: is not JSON"),
    ('{"step": 0, "loss": 1', "expected metrics, got none"),
    ('{"step": 0, "loss": 1}\n\n', "line 2: is not JSON"),
    ('{"step": 0, "loss": 1' + "0" * 400 + "}\n", "expected metrics, got none"),
    ('{"step": 1, "other": 2}\n', "expected a loss or another curve, got none"),
):
    test.write("bad.jsonl", text)
    refused("bad.jsonl: " + pattern, "bad.jsonl", "-o", "bad.png")
test.finish()
