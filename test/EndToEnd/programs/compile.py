#!/usr/bin/env python3
"""bt-compile: bad input and flags, stages that can be gone on from, the report,
the reproducer line, text and bytecode.

usage: compile.py --bin DIR --part invalid|stages|programs
"""
import os
import re
import shlex
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "Inputs"))
from harness import Test, tokens  # noqa: E402

import json  # noqa: E402

test = Test(
    __doc__,
    lambda parser: parser.add_argument(
        "--part", choices=("invalid", "stages", "programs"), required=True
    ),
)
COMPILE = test.tool("bt-compile")
model = test.gpt2()
SIZES = ("--batch=2", "--seq=8")
STAGES = ("blu", "grad", "shard", "fuse", "plan", "kernel", "llvm")

HEAD = 'blu.model @m(%x: tensor<4x4xf32> {blu.name = "x"})'
LOSS = '(tensor<f32> {blu.name = "loss"})'
# Two ops without a rule between parameters and loss, and one beside the path.
NO_GRADIENT = f"""{HEAD} -> {LOSS} {{
  %w = blu.param "w" init(#blu.ones) : tensor<4x4xf32>
  %a = blu.mul %x, %w : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %b = blu.gelu_grad %a, %x approximate(erf) : tensor<4x4xf32>
  %c = blu.gelu_grad %x, %x approximate(erf) : tensor<4x4xf32>
  %d = blu.add %b, %c : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %e = blu.gelu_grad %d, %x approximate(tanh) : tensor<4x4xf32>
  %loss = blu.reduce_sum %e [0, 1] : (tensor<4x4xf32>) -> tensor<f32>
  blu.return %loss : tensor<f32>
}}
"""


def invalid():
    text = NO_GRADIENT
    unknown = text.replace("blu.mul", "blu.frobnicate")
    shapes = text.replace("%x, %w : (tensor<4x4xf32>, ", "%x, %w : (tensor<4x5xf32>, ")
    wide = text.replace('init(#blu.ones) : tensor<4x4xf32>', 'init(#blu.ones) : tensor<4x5xf32>')
    wide = wide.replace(
        "%x, %w : (tensor<4x4xf32>, tensor<4x4xf32>)",
        "%x, %w : (tensor<4x4xf32>, tensor<4x5xf32>)",
    )
    for name, content, pattern in (
        ("unknown", unknown, r"unknown.mlir:3:\d+: error: custom op 'blu.frobnicate'"),
        ("dialect", '"foo.bar"() : () -> ()', r"dialect.mlir:1:\d+: error: .*dialect"),
        ("types", shapes, r"types.mlir:3:\d+: error: .*'%x' expects different type"),
        ("shapes", wide, r"shapes.mlir:3:\d+: error: 'blu.mul' op .*4x5"),
        ("cut", text[:120], r"cut.mlir:\d+:\d+: error:"),
        ("empty", "", r"empty.mlir:.*error: .*0 models, expected one"),
        (
            "two",
            text + text.replace("@m", "@n"),
            r"two.mlir:.*error: .*2 models, expected one",
        ),
        ("loss", text.replace('"loss"', '"lose"'), r"loss.mlir:1:1: error: .*'loss'"),
    ):
        test.write(name + ".mlir", content)
        test.refuse(pattern, COMPILE, name + ".mlir", "-o", "out")
    test.write("none.mlir", text)
    errors = test.refuse("has no gradient", COMPILE, "none.mlir", "-o", "out")
    lines = re.findall(r"none.mlir:(\d+):\d+: error: .*has no gradient", errors)
    test.check(lines == ["4", "7"], f"both ops without a gradient: {lines}\n{errors}")
    # The location and the message; not the whole program.
    test.check(len(errors) < 2000, f"{len(errors)} characters of errors")

    for pattern, *flags in (
        (r"mlir:2:3: error: argument 'tokens' .* unknown dim 0, expected --batch",),
        (r"mlir:2:3: .*'tokens' .* unknown dim 1, expected --seq", "--batch=2"),
        (
            r"mlir:\d+:\d+: error: 'blu.embedding' op takes 17 positions from a table "
            r"of 16 rows, expected --seq of at most 16",
            *("--batch=2", "--seq=17"),
        ),
        (r"--batch: expected at least 1, got -1", "--batch", "-1", "--seq=8"),
        (r"--batch: expected at least 1, got 0", "--batch", "0", "--seq=8"),
        (r"--batch: .*to 2147483647", "--batch", "2147483648", "--seq=8"),
        (r"--batch.*'x' value invalid", "--batch", "x", "--seq=8"),
        (r"--seq: expected at least 1, got 0", "--batch=2", "--seq=0"),
        (r"--accum: expected a number from 1", *SIZES, "--accum=0"),
        (r"--precision: expected fp64, fp32, bf16, got 'fp16'", *SIZES, "--precision", "fp16"),
        (r"--precision: tf32 needs tensor cores, which --target cpu", *SIZES, "--precision", "tf32"),
        (r"--precision: fp32tc needs tensor cores", *SIZES, "--precision", "fp32tc"),
        (
            r"--precision: fp32tc has kernels for sm_90a alone; expected --arch sm_90a, got 'sm_80,sm_90a'",
            *(*SIZES, "--target=cuda", "--arch=sm_80,sm_90a", "--precision=fp32tc"),
        ),
        (r"--precision: expected fp32, fp32tc, tf32 or bf16 with --target cuda, got 'fp64'", *SIZES, "--target=cuda", "--precision=fp64"),
        (r"--target: expected cpu, cuda, got 'tpu'", *SIZES, "--target", "tpu"),
        (r"--optimizer: expected adamw, sgd, got 'lion'", *SIZES, "--optimizer=lion"),
        (r"--remat: expected none, cheap, full, got 'x'", *SIZES, "--remat=x"),
        (r"--dropout: expected .*got 1", *SIZES, "--dropout=1"),
        (r"--dropout: expected .*got -0.5", *SIZES, "--dropout=-0.5"),
        (r"--dropout: expected .*got nan", *SIZES, "--dropout=nan"),
        (r"--loss-head-bytes: expected .*got -5", *SIZES, "--loss-head-bytes=-5"),
        (r"--pad-vocab: expected .*got -2", *SIZES, "--pad-vocab=-2"),
        (r"--memory-limit: .*got '1XB'", *SIZES, "--memory-limit=1XB"),
        (r"--memory-limit: .*got '-1'", *SIZES, "--memory-limit=-1"),
        (r"--compile-to: expected blu, .*got 'x'", *SIZES, "--compile-to=x"),
        (
            r"--compile-to: expected 'plan' or a later stage, got 'grad'",
            *(*SIZES, "--compile-from=plan", "--compile-to=grad"),
        ),
        (r"Unknown command line argument '--frob'", *SIZES, "--frob"),
        (r"--report: expected stage 'plan'", *SIZES, "--compile-to=blu", "--report=r"),
    ):
        test.refuse(pattern, COMPILE, model, *flags, "-o", "out")
    test.refuse(r"-o: expected the name", COMPILE, model, *SIZES)
    test.refuse(r"absent.mlir.*No such file", COMPILE, "absent.mlir", "-o", "out")
    limited = ("--memory-limit=1KiB", "-o", "out")
    errors = test.refuse(r"needs \d+ bytes, .*limit", COMPILE, model, *SIZES, *limited)
    test.check(
        "note: 8192 bytes: param 'block.{i}.mlp.c_fc.weight'" in errors,
        f"the largest owners are named:\n{errors}",
    )

    # Outputs
    os.mkdir(test.path("folder"))
    for output in ("absent/out", "folder"):
        for more in ((), ("--compile-to=blu",)):
            pattern = f"cannot write '{output}': "
            test.refuse(pattern, COMPILE, model, *SIZES, *more, "-o", output)
    report = ("--report=absent/r", "-o", "out")
    test.refuse(r"cannot write 'absent/r'", COMPILE, model, *SIZES, *report)
    dump = ("--dump-stages=none.mlir/x", "-o", "out")
    test.refuse(r"--dump-stages: cannot create", COMPILE, model, *SIZES, *dump)
    if os.path.exists("/dev/full"):
        os.symlink("/dev/full", test.path("full"))
        for output in ("full", "-"):
            with open("/dev/full", "wb") as full:
                done = subprocess.run(
                    [COMPILE, model, *SIZES, "--compile-to=blu", "-o", output],
                    stdout=full,
                    stderr=subprocess.PIPE,
                    cwd=test.folder,
                    check=False,
                )
            test.check(
                done.returncode == 1 and b"No space left" in done.stderr,
                f"-o {output} to a full disk: {done.returncode}, {done.stderr}",
            )
        test.check(os.path.islink(test.path("full")), "the device is not replaced")

    # The reproducer line can be pasted, whatever the names and flags.
    os.rename(test.path("none.mlir"), test.path("it's none.mlir"))
    words = ("it's none.mlir", "--compile-to", "fuse", "-o", "out put")
    errors = test.refuse("reproduce with: ", COMPILE, *words)
    line = re.search(r"reproduce with: (.*)", errors).group(1)
    test.check("--compile-to=grad" in shlex.split(line), f"the failing stage: {line}")
    again = test.refuse("has no gradient", "sh", "-c", line)
    test.check(again == errors, f"the same errors from: {line}\n{again}")


def stages():
    test.run(COMPILE, model, *SIZES, "--dump-stages=stages", "-o", "direct")
    names = [f"{i + 1}-{stage}.mlir" for i, stage in enumerate(STAGES)]
    found = sorted(os.listdir(test.path("stages")))
    test.check(found == names, f"the stages: {found}")
    last = None
    for name, stage in zip(names, STAGES):
        path = os.path.join("stages", name)
        plain = test.run(test.tool("bt-opt"), path).stdout
        again = test.run(test.tool("bt-opt"), "-", input=plain).stdout
        test.check(plain == again and plain, f"{name} parses as it prints")
        # Each stage from the file of the one before is what the direct run had.
        if last:
            flags = (f"--compile-from={last[1]}", f"--compile-to={stage}")
            test.run(COMPILE, last[0], *SIZES, *flags, "-o", "step.mlir")
            step = test.run(test.tool("bt-opt"), "step.mlir").stdout
            test.check(step == plain, f"stage {stage} from stage {last[1]}")
        last = path, stage


def programs():
    test.shard("data.bin", tokens(200, 64))
    direct = ("--dump-stages=stages", "--report=plan.json")
    program = test.compile(model, "direct", *SIZES, *direct)
    expected = test.train(program, out="direct-run")
    # Programs made from what a stage left do the same.
    for name, stage in (("3-shard.mlir", "shard"), ("7-llvm.mlir", "llvm")):
        path = os.path.join("stages", name)
        made = test.compile(path, "made", f"--compile-from={stage}")
        test.check(test.train(made) == expected, f"a program made from {name}")
    code = test.run(test.tool("bt-opt"), model, "--emit-bytecode").stdout
    with open(test.path("model.mlirbc"), "wb") as file:
        file.write(code)
    test.check(code.startswith(b"ML\xefR"), "bytecode")
    made = test.compile("model.mlirbc", "made", *SIZES)
    test.check(test.train(made) == expected, "a program made from bytecode")

    with open(test.path("plan.json"), encoding="utf-8") as file:
        report = json.load(file)
    keys = {"peak_bytes", "lower_bound", "owners", "reserves", "kernels", "collectives"}
    test.check(keys <= report.keys(), f"keys of the report: {sorted(report)}")
    test.check(report["owners"] and report["kernels"], "owners and kernels")
    entries = [e["name"] for e in report["entries"]]
    test.check(entries == ["train", "eval", "prefill", "decode"], f"{entries}")
    peak = max(e["peak_bytes"] for e in report["entries"])
    test.check(report["peak_bytes"] == peak, "the peak is that of the largest entry")
    end = max(o["offset"] + o["bytes"] for o in report["owners"])
    test.check(end <= peak, f"owners end at {end} of {peak} bytes")


{"invalid": invalid, "stages": stages, "programs": programs}[test.options.part]()
test.finish()
