"""What the end-to-end tests share: running tools, models, shards, checks.

Each test is a script run with `--bin DIR`. `Test` gives it a folder that is empty
at the start, counts checks and ends with their number, so that a test which
checked nothing fails.

For a device on a machine that has no compiler: with BLUTRAIN_RECORD=DIR a test also
leaves there each of its programs, compiled with the flags in BLUTRAIN_RECORD_FLAGS;
with BLUTRAIN_REPLAY=DIR it takes them instead of compiling (device_bundle.py).
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "..", "Numerics"))
import tensors  # noqa: E402
import tolerance  # noqa: E402

MAGIC, VERSION = 20240520, 1
# These programs are too small for a second thread to be of use; a test of threads
# says how many.
os.environ.setdefault("BLURT_THREADS", "1")
# Times, and what others have of a device's memory.
MEASURED = ("step_ms", "tokens_per_s", "device_bytes", "device_bytes_at_start", "reserves")
# Seconds a command may take: one that goes on for ever fails here.
LIMIT = 240


class Test:
    def __init__(self, doc, add=lambda parser: None):
        parser = argparse.ArgumentParser(description=doc)
        parser.add_argument("--bin", required=True)
        add(parser)
        self.options = parser.parse_args()
        self.holder = tempfile.TemporaryDirectory()
        self.folder = self.holder.name
        self.checks = self.failures = self.compiled = 0
        self.for_device = not os.environ.keys().isdisjoint(
            ("BLUTRAIN_RECORD", "BLUTRAIN_REPLAY")
        )

    def path(self, name):
        return os.path.join(self.folder, name)

    def tool(self, name):
        return os.path.join(self.options.bin, name)

    def check(self, holds, what):
        self.checks += 1
        if not holds:
            self.failures += 1
            print(f"FAILED {what}")
        return holds

    def finish(self):
        print(f"{self.checks} checks, {self.failures} failures")
        sys.exit(1 if self.failures or not self.checks else 0)

    # Commands

    def run(self, *words, code=0, **more):
        """Runs a command in the folder; another exit code ends the test."""
        done = subprocess.run(
            [w if isinstance(w, bytes) else str(w) for w in words],
            capture_output=True,
            cwd=self.folder,
            check=False,
            timeout=LIMIT,
            **more,
        )
        if done.returncode != code:
            sys.exit(
                f"{' '.join(map(str, words))}\nexit code {done.returncode}, "
                f"expected {code}\n{done.stderr.decode(errors='replace')}"
            )
        return done

    def refuse(self, pattern, *words, code=1, left=(), **more):
        """A command that must fail with a message, and leave nothing behind."""
        before = snapshot(self.folder)
        done = subprocess.run(
            [w if isinstance(w, bytes) else str(w) for w in words],
            capture_output=True,
            cwd=self.folder,
            check=False,
            timeout=LIMIT,
            **more,
        )
        text = done.stderr.decode(errors="replace")
        line = " ".join(map(str, words)).replace(self.folder + "/", "")
        self.check(
            done.returncode == code,
            f"{line}: exit code {done.returncode}, expected {code}\n{text[:500]}",
        )
        self.check(
            re.search(pattern, text), f"{line}: expected /{pattern}/, got\n{text[:900]}"
        )
        after = snapshot(self.folder)
        changed = {
            k
            for k in before.keys() | after.keys()
            if before.get(k) != after.get(k) and k not in left
        }
        self.check(not changed, f"{line}: changed {sorted(changed)}")
        return text

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path(name)

    def model(self, kind, *flags, name):
        if "BLUTRAIN_REPLAY" not in os.environ:
            self.run(self.tool("bt-model"), kind, *flags, "-o", name)
        return self.path(name)

    def gpt2(self, name="gpt2.mlir", **sizes):
        config = dict(layers=2, heads=2, dim=16, vocab=64, context=16) | sizes
        flags = [w for k, v in config.items() for w in (f"--{k}", str(v))]
        return self.model("gpt2", *flags, name=name)

    def compile(self, model, name, *flags):
        self.compiled += 1
        script = os.path.splitext(os.path.basename(sys.argv[0]))[0]
        recorded = f"{script}-{self.compiled}"
        if folder := os.environ.get("BLUTRAIN_REPLAY"):
            shutil.copy(os.path.join(folder, recorded), self.path(name))
            return self.path(name)
        self.run(self.tool("bt-compile"), model, *flags, "-o", name)
        if folder := os.environ.get("BLUTRAIN_RECORD"):
            more = os.environ["BLUTRAIN_RECORD_FLAGS"].split()
            out = os.path.join(os.path.abspath(folder), recorded)
            self.run(self.tool("bt-compile"), model, *flags, *more, "-o", out)
        return self.path(name)

    def shard(self, name, tokens, magic=MAGIC, version=VERSION, count=None, tail=b""):
        header = np.zeros(256, dtype="<i4")
        header[:3] = magic, version, len(tokens) if count is None else count
        with open(self.path(name), "wb") as file:
            data = np.asarray(tokens).astype("<u2").tobytes()
            file.write(header.tobytes() + data + tail)
        return self.path(name)

    def lines(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def bytes(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def train(self, program, *flags, data="data.bin", steps=3, out="run"):
        """The metrics without what is measured, and the bytes of the weights."""
        self.run(
            program,
            "train",
            *("--data", data, "--steps", steps, "--lr", "1e-2", "--quiet"),
            *("--metrics", out + ".jsonl", "--save", out + ".safetensors"),
            *flags,
        )
        metrics = [
            {k: v for k, v in line.items() if k not in MEASURED}
            for line in self.lines(out + ".jsonl")
        ]
        return metrics, data_of(self.bytes(out + ".safetensors"))


def data_of(weights):
    """Tensors and their bytes; the metadata names the plan, which may differ."""
    length = int.from_bytes(weights[:8], "little")
    header = json.loads(weights[8 : 8 + length])
    header.pop("__metadata__", None)
    return header, weights[8 + length :]


def snapshot(folder):
    found = {}
    for place, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            status = os.lstat(path)
            found[os.path.relpath(path, folder)] = (status.st_mtime_ns, status.st_size)
    return found


def tokens(count, vocab, seed=0):
    return np.random.default_rng(seed).integers(0, vocab, count)
