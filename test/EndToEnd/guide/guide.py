#!/usr/bin/env python3
"""Runs the lines of README.md's user guide, and looks at what they leave: a run
that was killed and went on, weights that NumPy reads elsewhere.

usage: guide.py --bin DIR --readme README.md
"""
import json
import os
import re
import subprocess
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../programs/Inputs"))
sys.path.insert(0, os.path.join(HERE, "../bt-weights/Inputs"))
from harness import Test  # noqa: E402
import folder  # noqa: E402

test = Test(__doc__, lambda parser: parser.add_argument("--readme", required=True))
with open(test.options.readme, encoding="utf-8") as file:
    guide = re.search(r"^## By hand\n.*?^```sh\n(.*?)^```$", file.read(), re.M | re.S)[1]
tools = os.path.abspath(test.options.bin)
done = subprocess.run(
    ["bash", "-exuo", "pipefail", "-c", guide],
    cwd=test.folder,
    env=os.environ | {"PATH": f"{tools}:{os.environ['PATH']}:/usr/games"},
    stdin=subprocess.DEVNULL,
    stdout=subprocess.PIPE,
    stderr=subprocess.STDOUT,
    check=False,
)
said = done.stdout.decode(errors="replace")
if done.returncode:
    sys.exit(f"exit code {done.returncode}\n{said}")

size = os.path.getsize(test.path("text.txt"))
test.check(size >= 4_000_000, f"{size} bytes of text")
lines = test.lines("run.jsonl")
steps = [line["step"] for line in lines if "loss" in line]
test.check(steps == list(range(60)), f"steps {steps}")
losses = [line["loss"] for line in lines if "loss" in line]
test.check(losses[-1] < losses[0] - 2, f"losses from {losses[0]} to {losses[-1]}")
at_end = [line["val_loss"] for line in lines if "val_loss" in line][-1]
evaluated = test.lines("eval.jsonl")[0]["val_loss"]
test.check(evaluated == at_end, f"eval {evaluated}, at the end {at_end}")
results = re.findall(r"^loss ([0-9.]+), perplexity", said, re.M)
test.check(len(results) == 2 and results[0] == results[1], f"evaluations {results}")
test.check("In the beginning" in said.rsplit("+ ./gpt2 generate", 1)[1], "a sample")
for name in ("run.png", "run.svg", "run.config.toml", "run/step-00000060/manifest.json"):
    test.check(os.path.getsize(test.path(name)) > 0, name)
killed = "note: going on from run/step-" in said
print("killed and went on" if killed else "done before it could be killed")

# Elsewhere: the same loss of the same ten batches.
stream = np.fromfile(test.path("text_val_000000.bin"), "<u2")[512:].astype(int)
windows = 10 * 4
inputs = stream[: windows * 64].reshape(windows, 64)
targets = stream[1 : windows * 64 + 1].reshape(windows, 64)
mean = np.mean(
    [
        folder.loss(folder.logits(test.path("gpt2-hf"), inputs[i : i + 4]), targets[i : i + 4])
        for i in range(0, windows, 4)
    ]
)
test.check(abs(mean - evaluated) < 1e-5, f"NumPy {mean}, eval {evaluated}")
with open(test.path("gpt2-hf/config.json"), encoding="utf-8") as file:
    test.check(json.load(file)["n_head"] == 4, "heads")
test.finish()
