#!/usr/bin/env python3
"""Prepares everything that checks the CUDA target on a machine that has a device
but no compiler.

usage: device_bundle.py --bin DIR --text FILE --out DIR [--arch LIST]

Leaves in DIR, beside the scripts that run there:
  ops-f32, ops-bf16   the golden op cases (device_check.py)
  attention           attention with many heads (device_attention.py)
  vocabulary          a GPT-2 with padded logits (device_vocabulary.py)
  golden-P            the golden GPT-2 in each precision (gpt2_train.py)
  products            products in pieces of every shape (device_products.py)
  text                a small GPT-2 on FILE's bytes, with the metrics of the CPU
                      program in f32 and in f64, its evaluation and its
                      continuation of a prompt (device_text.py)
  programs            the end-to-end tests of PROGRAM_TESTS with their programs
  sanitize            a model of one layer of depth 64 with dropout, for
                      compute-sanitizer
Copy DIR to the machine and run device_run.sh there.
"""
import argparse
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TRAIN_FLAGS = "--steps 200 --lr 1e-3 --warmup 20 --schedule cosine --seed 3 --quiet"
SANITIZED = "--layers 1 --heads 2 --dim 128 --vocab 256 --context 128".split()
# What the text model is asked for besides training, by command.
COMMANDS = {
    "eval": ["--data", "{folder}/t_val_000000.bin", "--weights", "{folder}/weights.safetensors"],
    "generate": ["--weights", "{folder}/weights.safetensors", "--prompt", "In the beginning"]
    + "--max-tokens 60 --temperature 0".split(),
}
# End-to-end tests that need no other tools, with their flags.
PROGRAMS = os.path.join(HERE, "..", "EndToEnd", "programs")
SHARED = ("tensors.py", "tolerance.py")
PROGRAM_TESTS = {
    "guard.py": (),
    "nonfinite.py": (),
    "classifier.py": (),
    "hellaswag.py": (),
    "checkpoints.py": ("--part", "resume"),
}
SIZES = "--layers 3 --heads 4 --dim 128 --vocab 256 --context 128".split()


def run(*words):
    print("+", " ".join(words), flush=True)
    if subprocess.run(words, check=False).returncode:
        sys.exit(f"failed: {' '.join(words)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--text", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--arch", default="sm_80,sm_90a")
    args = parser.parse_args()
    out = lambda *names: os.path.join(args.out, *names)
    tool = lambda name: os.path.join(args.bin, name)
    script = lambda name: (sys.executable, os.path.join(HERE, name), "--bin", args.bin)
    cuda = ("--target", "cuda")
    os.makedirs(args.out, exist_ok=True)
    for dtype in ("f32", "bf16"):
        flags = ("--mode", "compiled", "--dtype", dtype, "--arch", args.arch)
        run(*script("ops.py"), *flags, *cuda, "--prepare", out(f"ops-{dtype}"))
    where = ("--prepare", "--arch", args.arch, out("attention"))
    run(*script("device_attention.py"), *where)
    where = ("--prepare", "--arch", args.arch, out("vocabulary"))
    run(*script("device_vocabulary.py"), *where)
    where = (out("products"), "--prepare", "--bin", args.bin)
    run(sys.executable, os.path.join(HERE, "device_products.py"), *where)
    for precision in ("fp32", "fp32tc", "tf32", "bf16"):
        # The one without kernels for other architectures.
        arch = "sm_90a" if precision == "fp32tc" else args.arch
        flags = ("--precision", precision, f"--compile-flag=--arch={arch}")
        where = ("--phase", "prepare", "--folder", out(f"golden-{precision}"))
        run(*script("gpt2_train.py"), *flags, *cuda, *where)
    os.makedirs(out("text"), exist_ok=True)
    with open(out("text", "flags"), "w", encoding="utf-8") as file:
        file.write(TRAIN_FLAGS)
    run(tool("bt-data"), "tokenize", "--bytes", "-o", out("text", "t"), args.text)
    model = out("text", "gpt2.mlir")
    run(tool("bt-model"), "gpt2", *SIZES, "-o", model)
    batch = ("--batch", "8", "--seq", "128")
    compiler = (tool("bt-compile"), model, *batch)
    for precision in ("fp32", "fp64"):
        program = out("text", f"cpu-{precision}")
        run(*compiler, "--precision", precision, "-o", program)
        metrics = ("--metrics", out("text", f"cpu-{precision}.jsonl"))
        data = ("--data", out("text", "t_train_000000.bin"))
        run(program, "train", *data, *TRAIN_FLAGS.split(), *metrics)
        if precision == "fp32":
            weights = out("text", "weights.safetensors")
            run(program, "train", *data, *TRAIN_FLAGS.split(), "--save", weights)
            for command, words in COMMANDS.items():
                words = [w.format(folder=out("text")) for w in words]
                with open(out("text", f"cpu-{command}"), "w", encoding="utf-8") as file:
                    subprocess.run([program, command, *words], stdout=file, check=True)
        os.remove(program)
    for precision in ("fp32", "tf32", "bf16"):
        flags = (*cuda, "--arch", args.arch, "--precision", precision)
        run(*compiler, *flags, "-o", out("text", precision))
        # Kernels of other architectures, which run from their PTX.
        for arch in ("sm_80", "sm_89"):
            flags = (*cuda, "--arch", arch, "--precision", precision)
            run(*compiler, *flags, "-o", out("text", f"{precision}-{arch}"))
    # Beside each other as in the sources, for the tests look for what they share.
    tests = out("programs", "EndToEnd", "programs")
    shutil.copytree(PROGRAMS, tests, dirs_exist_ok=True)
    os.makedirs(out("programs", "recorded"), exist_ok=True)
    os.environ["BLUTRAIN_RECORD"] = out("programs", "recorded")
    os.environ["BLUTRAIN_RECORD_FLAGS"] = f"--target cuda --arch {args.arch}"
    for test, words in PROGRAM_TESTS.items():
        run(sys.executable, os.path.join(PROGRAMS, test), "--bin", os.path.abspath(args.bin), *words)
    with open(out("programs", "tests"), "w", encoding="utf-8") as file:
        for test, words in PROGRAM_TESTS.items():
            file.write(" ".join((test, *words)) + "\n")
    os.makedirs(out("sanitize"), exist_ok=True)
    model = out("sanitize", "gpt2.mlir")
    run(tool("bt-model"), "gpt2", *SANITIZED, "-o", model)
    for precision in ("fp32", "tf32", "bf16"):
        flags = (*cuda, "--arch", args.arch, "--precision", precision)
        batch = ("--batch", "2", "--seq", "128", "--dropout", "0.1")
        run(tool("bt-compile"), model, *batch, *flags, "-o", out("sanitize", precision))
    for name in os.listdir(HERE):
        if name.endswith((".py", ".sh")):
            shutil.copy(os.path.join(HERE, name), args.out)
            if name in SHARED:
                os.makedirs(out("programs", "Numerics"), exist_ok=True)
                shutil.copy(os.path.join(HERE, name), out("programs", "Numerics"))
    shutil.copytree(os.path.join(HERE, "goldens"), out("goldens"), dirs_exist_ok=True)


if __name__ == "__main__":
    main()
