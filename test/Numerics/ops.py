#!/usr/bin/env python3
"""Checks each op, forward and backward, against the golden cases.

usage: ops.py --bin DIR [--mode interpreter|rounded|compiled] [--dtype f64|f32|bf16]
              [--filter REGEX] [--shard I/N] [--target cpu|cuda]
              [--prepare DIR] [--arch LIST]

Each case becomes a model of one op, differentiated by blu-vjp.
  interpreter  bt-run in f64; results within 1e-9 of the goldens
  rounded      bt-run --round in the dtype, every op rounded once: checks that
               the derived tolerances admit what they must
  compiled     the program that bt-compile makes, in the dtype; in f64 within
               1e-9 of the goldens; in any dtype within the derived tolerance
               of bt-run on the same inputs
With --prepare nothing is run: each case leaves its program, inputs, expected
results and their tolerances in a folder of DIR, for device_check.py. Cases of
attention and losses are added that the goldens are too small for.
Closes with the number of cases and the worst error.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

import numpy as np

import tensors
import tolerance

HERE = os.path.dirname(os.path.abspath(__file__))
GOLDENS = os.path.join(HERE, "goldens")
RELATIVE = 1e-9


class Model:
    """The text of a model, written op by op."""

    def __init__(self, inputs, dtype):
        self.dtype = dtype
        self.inputs = inputs
        self.lines = []
        self.types = {
            name: self.type(array.shape, self.element(array))
            for name, array in inputs.items()
        }

    def element(self, array):
        return self.dtype if array.dtype.kind == "f" else f"i{8 * array.itemsize}"

    def type(self, shape, element=None):
        return f"tensor<{''.join(f'{e}x' for e in shape)}{element or self.dtype}>"

    def op(self, result, op, operands, attrs, shape):
        """A line with a functional type; attrs go after the operands."""
        values = ", ".join(f"%{o}" for o in operands)
        types = ", ".join(self.types[o] for o in operands)
        self.types[result] = self.type(shape)
        self.lines.append(
            f"%{result} = blu.{op} {values} {attrs}: ({types}) -> {self.types[result]}"
        )

    def unary(self, result, op, operand, attrs=""):
        self.types[result] = self.types[operand]
        self.lines.append(
            f"%{result} = blu.{op} %{operand} {attrs}: {self.types[operand]}"
        )

    def text(self, result="y"):
        args = ", ".join(
            f'%{n}: {self.types[n]} {{blu.name = "{n}"}}' for n in self.inputs
        )
        kind = self.types[result]
        body = "\n  ".join(self.lines)
        return (
            f'blu.model @m({args}) -> ({kind} {{blu.name = "{result}"}}) {{\n'
            f"  {body}\n  blu.return %{result} : {kind}\n}}\n"
        )


def axes_of(name, attrs, rank):
    if name == "mean_all":
        return tuple(range(rank))
    return (attrs["dim"] % rank,)


def build(name, attrs, inputs, shape, dtype):
    """The model of a case, whose result has the given shape."""
    model = Model(inputs, dtype)
    names = list(inputs)
    op = attrs.get("op") or name
    if name.endswith("_bcast") and "op" in attrs:
        model.op("y", op, ["a", "b"], "", shape)
    elif name.startswith("gelu"):
        kind = "erf" if "erf" in name else "tanh"
        model.unary("y", "gelu", "x", f"approximate({kind}) ")
    elif name in ("relu", "sigmoid", "tanh", "silu", "exp", "sqrt", "log"):
        model.unary("y", name, "x")
    elif name in ("sum_dim", "mean_all", "max_dim"):
        axes = axes_of(name, attrs, inputs["x"].ndim)
        model.op("y", f"reduce_{name.split('_')[0]}", ["x"], f"{list(axes)} ", shape)
    elif name.startswith("layernorm"):
        eps = repr(float(attrs["eps"]))
        model.op("y", "layer_norm", ["x", "w", "b"], f"eps = {fixed(eps)} ", shape)
    elif "softmax" in name:
        kind = "log_softmax" if name.startswith("log") else "softmax"
        dim = attrs["dim"] % inputs["x"].ndim
        model.unary("y", kind, "x", f"dim = {dim} ")
    elif name.startswith("cross_entropy"):
        text = (
            f"ignore_index = {attrs.get('ignore_index', -100)} "
            f"reduction({attrs['reduction']}) "
        )
        if "classes" in attrs:
            text += f"classes = {attrs['classes']} "
        model.op("y", "cross_entropy", ["x", "target"], text, shape)
    elif name.startswith("embedding"):
        model.op("y", "embedding", ["w", "ids"], "", shape)
    elif name == "linear":
        model.op("y", "linear", names, "", shape)
    elif name.startswith(("matmul", "bmm", "matvec", "vecmat")):
        flags = "".join(f"{f} " for f in ("trans_a", "trans_b") if attrs.get(f))
        model.op("y", "matmul", ["a", "b"], flags, shape)
    elif name.startswith("attention"):
        attention(model, attrs, inputs, shape)
    elif name == "silu_mul":
        model.unary("s", "silu", "a")
        model.op("y", "mul", ["s", "b"], "", shape)
    elif name == "swiglu_mlp":
        hidden = (inputs["x"].shape[0], inputs["w1"].shape[0])
        model.op("a", "linear", ["x", "w1"], "", hidden)
        model.op("c", "linear", ["x", "w3"], "", hidden)
        model.unary("s", "silu", "a")
        model.op("m", "mul", ["s", "c"], "", hidden)
        model.op("y", "linear", ["m", "w2"], "", shape)
    else:
        raise KeyError(f"no model for the golden case {name}")
    return model.text()


def fixed(text):
    """MLIR wants a dot in a number with an exponent."""
    return re.sub(r"^(\d+)e", r"\1.0e", text)


def attention(model, attrs, inputs, shape):
    """The goldens are B, H, T, D, the op takes B, T, H, D."""
    turned = lambda s: (s[0], s[2], s[1], s[3])
    for n in "qkv":
        model.op(f"{n}t", "transpose", [n], "[0, 2, 1, 3] ", turned(inputs[n].shape))
    b, h, t, d = shape
    scale = fixed(repr(float(1 / np.sqrt(d))))
    causal = "causal " if attrs["causal"] else ""
    kinds = ", ".join(model.types[f"{n}t"] for n in "qkv")
    out, lse = model.type(turned(shape)), model.type((b, h, t))
    model.lines.append(
        f"%o, %lse = blu.attention %qt, %kt, %vt scale = {scale} {causal}"
        f": ({kinds}) -> ({out}, {lse})"
    )
    model.types["o"] = out
    model.op("y", "transpose", ["o"], "[0, 2, 1, 3] ", shape)


def terms_of(name, attrs, inputs, y, g):
    """{result: (n, T)}, see tolerance.py."""
    get = inputs.get
    if "op" in attrs:
        return tolerance.binary(attrs["op"], get("a"), get("b"), g)
    if name.startswith("gelu"):
        kind = "gelu_erf" if "erf" in name else "gelu_tanh"
        return tolerance.unary(kind, get("x"), y, g)
    if name in ("relu", "sigmoid", "tanh", "silu", "exp", "sqrt", "log"):
        return tolerance.unary(name, get("x"), y, g)
    if name in ("sum_dim", "mean_all", "max_dim"):
        axes = axes_of(name, attrs, get("x").ndim)
        return tolerance.reduction(name.split("_")[0], get("x"), axes, y, g)
    if name.startswith("layernorm"):
        return tolerance.layer_norm(get("x"), get("w"), get("b"), g, attrs["eps"])
    if "softmax" in name:
        dim = attrs["dim"] % get("x").ndim
        return tolerance.softmax(get("x"), dim, g, name.startswith("log"))
    if name.startswith("cross_entropy"):
        ignored = attrs.get("ignore_index", -100)
        width = get("x").shape[-1]
        classes = attrs.get("classes", width)
        terms = tolerance.cross_entropy(
            get("x")[..., :classes], get("target"), g, attrs["reduction"], ignored
        )
        n, t = terms["gin.x"]
        terms["gin.x"] = n, np.pad(t, ((0, 0), (0, width - classes)))
        return terms
    if name.startswith("embedding"):
        return tolerance.embedding(get("w"), get("ids"), g)
    if name == "linear":
        return tolerance.linear(get("x"), get("w"), get("b"), g)
    if name.startswith("attention"):
        scale = 1 / np.sqrt(get("q").shape[-1])
        return tolerance.attention(
            get("q"), get("k"), get("v"), g, scale, attrs["causal"]
        )
    if name == "silu_mul":
        return tolerance.silu_mul(get("a"), get("b"), g)
    if name == "swiglu_mlp":
        return tolerance.swiglu_mlp(get("x"), get("w1"), get("w3"), get("w2"), g)
    flags = {f: bool(attrs.get(f)) for f in ("trans_a", "trans_b")}
    return tolerance.matmul(get("a"), get("b"), g, **flags)


PRECISION = {"f64": "fp64", "f32": "fp32", "bf16": "bf16"}


class Runner:
    def __init__(self, args, folder):
        self.args, self.folder = args, folder

    def tool(self, name):
        return os.path.join(self.args.bin, name)

    def path(self, name):
        return os.path.join(self.folder, name)

    def command(self, *words):
        done = subprocess.run(
            [str(w) for w in words], capture_output=True, text=True, check=False
        )
        if done.returncode:
            line = " ".join(str(w) for w in words)
            raise RuntimeError(f"{line}\nexit code {done.returncode}\n{done.stderr}")

    def run(self, text, inputs, mode, dtype):
        """Results of the model's vjp step."""
        source, step = self.path("model.mlir"), self.path("vjp.mlir")
        in_file, out_file = self.path("in.safetensors"), self.path("out.safetensors")
        with open(source, "w", encoding="utf-8") as file:
            file.write(text)
        tensors.write(in_file, inputs)
        files = ("--inputs", in_file, "--outputs", out_file)
        if mode == "compiled":
            program = self.path("program")
            self.compile(source, program, dtype)
            self.command(program, "call", *files, "--entry", "vjp")
        else:
            self.command(self.tool("bt-opt"), "--blu-vjp", source, "-o", step)
            rounding = ("--round",) if mode == "rounded" else ()
            self.command(self.tool("bt-run"), step, *files, *rounding)
        return tensors.read(out_file)


    def compile(self, source, program, dtype):
        words = [self.tool("bt-compile"), source, "--vjp"]
        words += ["--target", self.args.target]
        words += ["--precision", PRECISION[dtype]]
        if self.args.arch:
            words += ["--arch", self.args.arch]
        self.command(*words, "-o", program)

    def prepare(self, name, text, inputs, dtype, expected, limits):
        """Leaves all that it takes to run the case on another machine."""
        folder = os.path.join(self.args.prepare, f"{name}-{dtype}")
        os.makedirs(folder, exist_ok=True)
        source = self.path("model.mlir")
        with open(source, "w", encoding="utf-8") as file:
            file.write(text)
        self.compile(source, os.path.join(folder, "program"), dtype)
        for kind, arrays in (("in", inputs), ("expected", expected), ("limit", limits)):
            tensors.write(os.path.join(folder, f"{kind}.safetensors"), arrays)


def rounded(array, dtype):
    if array.dtype.kind != "f" or dtype == "f64":
        return array
    return array.astype(np.float32)


def compare(label, actual, expected, limit, failures):
    worst, where = tolerance.ratio(actual, expected, limit)
    if not worst <= 1:
        at = tuple(where)
        values = (
            f"{np.asarray(actual)[at]!r}, expected {np.asarray(expected)[at]!r}"
            if not isinstance(where, str)
            else where
        )
        failures.append(f"{label}{list(where)}: {values}, {worst:.3g} of its tolerance")
    return worst


def relative_limit(expected):
    """1e-9 of an element, or of the tensor's root mean square below that."""
    size = np.sqrt(np.mean(np.square(expected))) if expected.size else 0.0
    return RELATIVE * np.maximum(np.abs(expected), size)


def hold_padding(attrs, key, expected, limit):
    """`limit`, but 0 for the gradients of padding."""
    if key == "gin.x" and "classes" in attrs:
        limit = np.array(np.broadcast_to(limit, expected.shape))
        limit[..., attrs["classes"] :] = 0
    return limit


def check(runner, name, case, arrays, failures):
    """The worst error of a case in units of its tolerance."""
    mode, dtype = runner.args.mode, runner.args.dtype
    attrs = case["attrs"]
    pick = lambda kind: {
        k.split(".", 1)[1]: v for k, v in arrays.items() if k.startswith(kind + ".")
    }
    inputs, expected = pick("in"), pick("out")
    expected.update({"gin." + k: v for k, v in pick("gin").items()})
    # The policy bf16 is for models of f32.
    written = "f32" if dtype == "bf16" else dtype
    text = build(name, attrs, inputs, expected["y"].shape, written)
    feed = {k: rounded(v, dtype) for k, v in inputs.items()}
    feed["gout.y"] = rounded(arrays["gout.y"], dtype)
    if mode == "interpreter":
        results = runner.run(text, feed, mode, dtype)
        worst = 0.0
        for key, value in expected.items():
            limit = hold_padding(attrs, key, value, relative_limit(value))
            worst = max(
                worst, compare(f"{name}/{key}", results[key], value, limit, failures)
            )
        return worst
    exact = runner.run(text, feed, "interpreter", dtype)
    if not runner.args.prepare:
        results = runner.run(text, feed, mode, dtype)
    as_f64 = {k: v.astype(float) if v.dtype.kind == "f" else v for k, v in feed.items()}
    terms = terms_of(name, attrs, as_f64, exact["y"], as_f64["gout.y"])
    scale = max(1.0, float(np.max(np.abs(as_f64["gout.y"]), initial=0)))
    if dtype == "bf16":
        bound = lambda key: tolerance.bf16_bound(name, *terms[key], scale)
    else:
        bound = lambda key: tolerance.bound(dtype, *terms[key], scale)
    limits = {key: hold_padding(attrs, key, expected[key], bound(key)) for key in expected}
    if runner.args.prepare:
        limits = {
            key: np.broadcast_to(limit, exact[key].shape).astype(float)
            for key, limit in limits.items()
        }
        wanted = {key: exact[key] for key in expected}
        runner.prepare(name, text, feed, dtype, wanted, limits)
        return 0.0
    worst = 0.0
    for key, value in expected.items():
        limit = limits[key]
        label = f"{name}/{key} ({mode} {dtype})"
        worst = max(worst, compare(label, results[key], exact[key], limit, failures))
        if dtype == "f64":
            compare(label, results[key], value, relative_limit(value), failures)
    return worst


def add_padding(name, cases, stored, count):
    """Adds a loss whose rows go on with `count` elements that are not numbers."""
    classes = stored[f"{name}/in.x"].shape[-1]
    for key in [k for k in stored if k.startswith(name + "/")]:
        array = stored[key]
        if key.endswith("in.x"):
            value = 0.0 if key.endswith("gin.x") else np.nan
            array = np.pad(array, ((0, 0), (0, count)), constant_values=value)
        stored[key.replace("/", "_padded/")] = array
    attrs = {**cases[name]["attrs"], "classes": classes}
    cases[f"{name}_padded"] = {"attrs": attrs}


def device_cases(cases, stored):
    """Adds attention of shapes for which an architecture has its own kernels, and a
    loss of rows too long for one warp."""
    classes = 50257
    name = "cross_entropy_vocabulary"
    random = np.random.default_rng(8)
    stored[f"{name}/in.x"] = 4 * random.standard_normal((6, classes))
    target = random.integers(0, classes, 6)
    target[4:] = classes - 1, -100
    stored[f"{name}/in.target"] = target
    for key in ("gout.y", "out.y"):
        stored[f"{name}/{key}"] = random.standard_normal(6)
    stored[f"{name}/gin.x"] = stored[f"{name}/in.x"]
    cases[name] = {"attrs": {"reduction": "none"}}
    add_padding(name, cases, stored, 47)
    random = np.random.default_rng(7)
    for causal, queries, keys, depth in (
        (True, 132, 132, 64),
        (True, 68, 200, 64),
        (False, 200, 72, 64),
        (False, 128, 100, 64),
        (True, 130, 130, 128),
        (False, 192, 128, 128),
    ):
        kind = "causal" if causal else "full"
        name = f"attention_{kind}_t{queries}_s{keys}_d{depth}"
        shapes = {n: (1, 2, keys, depth) for n in "kv"}
        shapes["q"] = shapes["y"] = (1, 2, queries, depth)
        draw = lambda n: random.standard_normal(shapes[n])
        for key in ("in.q", "in.k", "in.v", "gout.y", "out.y"):
            stored[f"{name}/{key}"] = draw(key[-1])
        for n in "qkv":
            stored[f"{name}/gin.{n}"] = draw(n)
        cases[name] = {"attrs": {"causal": causal}}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bin", required=True)
    parser.add_argument(
        "--mode", default="interpreter", choices=("interpreter", "rounded", "compiled")
    )
    parser.add_argument("--dtype", default="f64", choices=PRECISION)
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--arch", default="")
    parser.add_argument("--prepare", default="")
    parser.add_argument("--filter", default="")
    parser.add_argument("--shard", default="1/1", help="every Nth case from the Ith")
    args = parser.parse_args()
    with open(os.path.join(GOLDENS, "goldens.json"), encoding="utf-8") as file:
        cases = json.load(file)["ops"]
    stored = tensors.read(os.path.join(GOLDENS, "ops.safetensors"))
    for name in [n for n in cases if n.startswith("cross_entropy")]:
        add_padding(name, cases, stored, 3)
    if args.prepare:
        device_cases(cases, stored)
    shard, shards = (int(part) for part in args.shard.split("/"))
    names = [name for name in cases if re.search(args.filter, name)]
    failures, worst, count = [], (0.0, "none"), 0
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(args, folder)
        for name in names[shard - 1 :: shards]:
            prefix = name + "/"
            arrays = {
                k[len(prefix) :]: v for k, v in stored.items() if k.startswith(prefix)
            }
            count += 1
            try:
                error = check(runner, name, cases[name], arrays, failures)
            except (RuntimeError, KeyError) as problem:
                failures.append(f"{name}: {problem}")
                continue
            print(f"{name}: {error:.3g} of its tolerance")
            worst = max(worst, (error, name))
    for failure in failures:
        print(f"FAILED {failure}")
    print(
        f"{count} cases in {args.dtype}, {len(failures)} failures, "
        f"worst {worst[0]:.3g} of its tolerance in {worst[1]}"
    )
    sys.exit(1 if failures or not count else 0)


main()
