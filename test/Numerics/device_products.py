#!/usr/bin/env python3
"""Products of --precision fp32tc beside cuBLAS in FP32 and a float64 reference.

usage: device_products.py --prepare DIR --bin DIR --source DIR
       device_products.py DIR [--rates] [--filter REGEX] [--json FILE] [--markdown FILE]

The first leaves one shared object a shape in DIR, from programs compiled here;
the second loads them on a machine with a device, with PyTorch. An element has to
be of the class (finite, infinite, NaN) that cuBLAS's is of, or float64's, and
errors at most 1.1 times cuBLAS's, over all elements and in the worst row.
"""
import argparse
import ctypes
import json
import math
import os
import re
import subprocess
import sys
import time

# Name: m, n, k, layout (f: A·Bᵀ, t: A·B, w: Aᵀ·B), options.
SHAPES = {}
for size, width in (("124m", 768), ("355m", 1024)):
    tokens = 32768 if size == "124m" else 8192
    for name, inner, outer in (
        ("qkv", width, 3 * width), ("proj", width, width),
        ("fc", width, 4 * width), ("fc2", 4 * width, width),
    ):
        SHAPES[f"{size}-{name}"] = (tokens, outer, inner, "f", "bias")
        SHAPES[f"{size}-{name}-dx"] = (tokens, inner, outer, "t", "")
        SHAPES[f"{size}-{name}-dw"] = (outer, inner, tokens, "w", "")
SHAPES["124m-head"] = (4096, 50304, 768, "f", "")
SHAPES["124m-head-dx"] = (4096, 768, 50304, "t", "")
SHAPES["124m-head-dw"] = (50304, 768, 4096, "w", "plus")
SHAPES["llama-up"] = (4096, 11008, 4096, "f", "")
SHAPES["llama-up-dx"] = (4096, 4096, 11008, "t", "")
SHAPES["llama-up-dw"] = (11008, 4096, 4096, "w", "")
ODD = {
    "k64": (512, 384, 64, "f", ""),
    "k64-w": (512, 384, 64, "w", ""),
    "odd-f": (1003, 517, 131, "f", "bias"),
    "odd-t": (333, 1001, 258, "t", "plus"),
    "odd-w": (771, 385, 4099, "w", "plus"),
    "row": (1, 769, 768, "f", "bias"),
    "batch": (130, 70, 200, "f", "batch3"),
    "batch-t": (66, 130, 96, "t", "batch3"),
}
RATED = [name for name in SHAPES if name.startswith("124m")]
FULL = ("124m-fc", "124m-fc-dx", "124m-fc-dw", "124m-head-dx", "odd-f", "odd-w", "k64", "k64-w")
LIGHT = ("normal", "positive", "rows", "opposite")
PROGRAM = """module attributes {{blurt.program = {{}}}} {{
  func.func @run({arguments})
      -> (tensor<{y}xf32> {{blu.tensor = {{name = "y", role = "output"}}}}) attributes {{blurt.entry = {{}}}} {{
    %y = blurt.gemm %a{ta}, %b{tb}{plus}{bias} split : ({types}) -> tensor<{y}xf32>
    return %y : tensor<{y}xf32>
  }}
}}
"""


def extents(shape):
    m, n, k, layout, options = shape
    batch = [3] if "batch" in options else []
    a = batch + ([k, m] if layout == "w" else [m, k])
    b = batch + ([n, k] if layout == "f" else [k, n])
    return a, b, batch + [m, n]


def text(shape):
    a, b, y = extents(shape)
    layout, options = shape[3:]
    join = lambda dims: "x".join(map(str, dims))
    operands = [("a", join(a)), ("b", join(b))]
    if "plus" in options:
        operands.append(("c", join(y)))
    if "bias" in options:
        operands.append(("d", str(shape[1])))
    arguments = ", ".join(
        f'%{n}: tensor<{t}xf32> {{blu.tensor = {{name = "{n}", role = "input"}}}}' for n, t in operands
    )
    return PROGRAM.format(
        arguments=arguments,
        y=join(y),
        ta=" transposed" if layout == "w" else "",
        tb=" transposed" if layout == "f" else "",
        plus=" plus %c" if "plus" in options else "",
        bias=" bias %d" if "bias" in options else "",
        types=", ".join(f"tensor<{t}xf32>" for _, t in operands),
    )


def prepare(args):
    os.makedirs(args.folder, exist_ok=True)
    here = os.path.dirname(os.path.abspath(__file__))
    llvm = "/usr/lib/llvm-22/bin/"
    shim = os.path.join(args.folder, "shim.o")
    include = "-I" + os.path.join(args.source, "runtime", "include")
    compiler = [llvm + "clang++", "-O1", "-fPIC", "-std=c++20"]
    subprocess.run([*compiler, include, "-c", os.path.join(here, "device_products.cpp"), "-o", shim], check=True)
    for name, shape in (SHAPES | ODD).items():
        if not re.search(args.filter, name):
            continue
        path = lambda end: os.path.join(args.folder, name + end)
        with open(path(".mlir"), "w", encoding="utf-8") as file:
            file.write(text(shape))
        passes = ["-blutrain-plan", "-blutrain-kernel", "-blutrain-llvm"]
        passes = [f"{p}=target=cuda arch=sm_90a" for p in passes]
        subprocess.run([os.path.join(args.bin, "bt-opt"), path(".mlir"), *passes, "-o", path(".llvm")], check=True)
        subprocess.run([llvm + "mlir-translate", "--mlir-to-llvmir", path(".llvm"), "-o", path(".ll")], check=True)
        link = ["-shared", "-s", "-ldl"]
        subprocess.run([*compiler, "-Wno-override-module", path(".ll"), shim, *link, "-o", path(".so")], check=True)
        for end in (".mlir", ".llvm", ".ll"):
            os.remove(path(end))
        print(name, flush=True)
    os.remove(shim)


class Product:
    def __init__(self, torch, folder, name):
        self.torch = torch
        self.shape = (SHAPES | ODD)[name]
        self.library = ctypes.CDLL(os.path.join(os.path.abspath(folder), name + ".so"), mode=os.RTLD_LOCAL)
        lib = self.library
        for function in ("products_error", "products_kernel"):
            getattr(lib, function).restype = ctypes.c_char_p
        for function in ("products_bytes", "products_counters"):
            getattr(lib, function).restype = ctypes.c_uint64
        lib.products_offset.restype = ctypes.c_int64
        lib.products_offset.argtypes = [ctypes.c_char_p]
        lib.products_run.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        lib.products_select.argtypes = [ctypes.c_uint64]
        if lib.products_open():
            sys.exit(f"{name}: {lib.products_error().decode()}")
        self.arena = torch.empty(lib.products_bytes(), dtype=torch.uint8, device="cuda")
        self.arena.fill_(0xFF)
        offset = lib.products_counters()
        self.counters = self.arena[offset : offset + 16].view(torch.int64)
        self.counters.zero_()
        self.kernels = [lib.products_kernel(i).decode() for i in range(lib.products_kernels())]

    def tensor(self, name, dims):
        offset = self.library.products_offset(name.encode())
        if offset < 0:
            return None
        count = math.prod(dims) * 4
        return self.arena[offset : offset + count].view(self.torch.float32).view(dims)

    def run(self, only=None):
        mask = (1 << 64) - 1
        if only is not None:
            mask = sum(1 << i for i, kernel in enumerate(self.kernels) if re.search(only, kernel))
        self.library.products_select(mask)
        stream = self.torch.cuda.current_stream().cuda_stream
        if self.library.products_run(self.arena.data_ptr(), stream):
            sys.exit(self.library.products_error().decode())


def fill(torch, kind, a, b, layout):
    """Operands as matrices of m×k and n×k, whatever lies in memory."""
    left = a.transpose(-1, -2) if layout == "w" else a
    right = b if layout == "f" else b.transpose(-1, -2)
    g = lambda t: torch.randn(t.shape, device="cuda")
    a.copy_(g(a))
    b.copy_(g(b))
    power = lambda rows, most: torch.exp2(torch.randint(-most, most + 1, rows, device="cuda").float())
    shape_a, shape_b = list(left.shape), list(right.shape)
    if kind == "uniform":
        a.uniform_(-1, 1), b.uniform_(-1, 1)
    elif kind == "positive":
        a.uniform_(0, 1), b.uniform_(0, 1)
    elif kind == "heavy":
        a.div_(g(a).abs().clamp_min(1e-6)), b.div_(g(b).abs().clamp_min(1e-6))
    elif kind == "rows":
        left.mul_(power(shape_a[:-1] + [1], 30)), right.mul_(power(shape_b[:-1] + [1], 30))
    elif kind == "opposite":
        scale = power([shape_a[-1]], 20)
        left.mul_(scale), right.div_(scale)
    elif kind == "tiny":
        a.mul_(1e-36)
    elif kind == "large":
        a.mul_(1e36)
    elif kind == "denormal":
        a.mul_(1e-40), b.mul_(1024)
    elif kind == "special":
        flat = a.view(-1)
        places = torch.randint(flat.numel(), (6,), device="cuda")
        flat[places] = torch.tensor([math.inf, -math.inf, math.nan] * 2, device="cuda")
        b.view(-1)[torch.randint(b.numel(), (1,), device="cuda")] = math.inf
    return left, right


KINDS = "normal uniform positive heavy rows opposite tiny large denormal special".split()


def classes(torch, value):
    return torch.where(torch.isnan(value), 2, torch.where(torch.isinf(value), torch.sign(value) * 3 + 4, 0)).to(torch.int8)


def errors(torch, value, exact):
    """Of all, and of the worst row; of elements that are finite in both."""
    good = torch.isfinite(value) & torch.isfinite(exact)
    zero = torch.zeros((), dtype=torch.float64, device="cuda")
    exact = torch.where(good, exact, zero)
    off = torch.where(good, value.double(), zero).sub_(exact)
    scale = exact.abs().amax().clamp_min(1e-300)
    norms = (exact / scale).square_().sum(-1)
    wrong = (off / scale).square_().sum(-1)
    rowscale = exact.abs().amax(-1, keepdim=True).clamp_min(1e-300)
    rownorms = (exact / rowscale).square_().sum(-1)
    rowwrong = (off / rowscale).square_().sum(-1)
    rows = torch.where(rownorms > 0, rowwrong / rownorms, zero)
    return math.sqrt(float(wrong.sum() / norms.sum().clamp_min(1e-300))), math.sqrt(float(rows.max()))


def check(torch, product, name, kind, report):
    m, n, k, layout, options = product.shape
    dims = extents(product.shape)
    a, b, y = product.tensor("a", dims[0]), product.tensor("b", dims[1]), product.tensor("y", dims[2])
    c, d = product.tensor("c", dims[2]), product.tensor("d", [n])
    torch.manual_seed(hash((m, n, k, KINDS.index(kind))) % 2**31)
    left, right = fill(torch, kind, a, b, layout)
    product.counters.zero_()
    results = []
    for _ in range(2):
        if c is not None:
            c.copy_(torch.ones_like(c))
        if d is not None:
            d.fill_(0.5)
        product.run()
        results.append(y.clone())
    again = bool((results[0].view(torch.int32) == results[1].view(torch.int32)).all())
    lib = torch.matmul(left, right.transpose(-1, -2))
    exact = torch.matmul(left.double(), right.double().transpose(-1, -2))
    extra = (1.0 if c is not None else 0.0) + (0.5 if d is not None else 0.0)
    if extra:
        lib += extra
        exact += extra
    mine = results[0]
    kinds_mine, kinds_lib = classes(torch, mine), classes(torch, lib)
    differ = kinds_mine != kinds_lib
    count = int(differ.sum())
    excused = int((differ & (kinds_mine == classes(torch, exact.float()))).sum())
    ours, theirs = errors(torch, mine, exact), errors(torch, lib, exact)
    counters = [int(x) for x in product.counters.tolist()]
    ok = count == excused and again
    reported = name == "row"  # cuBLAS has another algorithm for a vector
    for o, t in zip(ours, theirs):
        ok &= reported or o <= 1.1 * t or kind == "denormal" and o <= 1.1 * t + 1e-7
    report.append(
        dict(shape=name, m=m, n=n, k=k, layout=layout, kind=kind, error=ours[0], row=ours[1], lib_error=theirs[0],
             lib_row=theirs[1], classes=count, excused=excused, same_bits=again, bf16=counters[0], rows=counters[1], ok=ok)
    )
    print(
        f"{'ok    ' if ok else 'FAILED'} {name:16} {kind:9} {ours[0]*1e7:9.3g} {theirs[0]*1e7:9.3g}  row {ours[1]*1e7:9.3g} {theirs[1]*1e7:9.3g}"
        f"  classes {count} ({excused} as float64)  bf16 {counters[0]} rows {counters[1]}{'' if again else '  BITS DIFFER'}",
        flush=True,
    )
    return ok


def rate(torch, product, name, report):
    m, n, k, layout, _ = product.shape
    dims = extents(product.shape)
    a, b = product.tensor("a", dims[0]), product.tensor("b", dims[1])
    left, right = fill(torch, "normal", a, b, layout)
    flops = 2 * m * n * k
    for extra, shape in (("c", dims[2]), ("d", [n])):
        if product.tensor(extra, shape) is not None:
            product.tensor(extra, shape).zero_()
    product.run()

    def sustained(run):
        run()
        torch.cuda.synchronize()
        begin = time.perf_counter()
        while time.perf_counter() - begin < 0.08:
            for _ in range(4):
                run()
            torch.cuda.synchronize()
        events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        count = 0
        events[0].record()
        begin = time.perf_counter()
        repeats = max(3, min(100, int(0.04 / (flops / 150e12))))
        for _ in range(repeats):
            run()
            count += 1
        events[1].record()
        torch.cuda.synchronize()
        return events[0].elapsed_time(events[1]) / count * 1e-3

    alone = sustained(lambda: product.run("product_|sum"))
    parts = {}
    for part in ("maxima", "scales", "split_f16", "split_bf16", "product_f16", "product_bf16", "sum"):
        if any(part in kernel for kernel in product.kernels):
            parts[part] = sustained(lambda: product.run(part)) * 1e3
    whole = sustained(lambda: product.run())
    lib = sustained(lambda: torch.matmul(left, right.transpose(-1, -2)))
    row = dict(shape=name, m=m, n=n, k=k, layout=layout, tflops=flops / alone * 1e-12, all_tflops=flops / whole * 1e-12,
               cublas_tflops=flops / lib * 1e-12, ms=alone * 1e3, all_ms=whole * 1e3, parts=parts)
    report.append(row)
    print(
        f"{name:16} {m}x{n}x{k} {layout}  product {row['tflops']:6.1f}  with splitting {row['all_tflops']:6.1f}  cuBLAS {row['cublas_tflops']:6.1f} TFLOP/s  "
        + " ".join(f"{p} {v:.3f}" for p, v in parts.items()),
        flush=True,
    )


def markdown(path, cases, rates):
    with open(path, "w", encoding="utf-8") as file:
        if rates:
            file.write("| product | m × n × k | TFLOP/s | with splitting | cuBLAS FP32 |\n|---|---|---|---|---|\n")
            for r in rates:
                file.write(f"| {r['shape']} | {r['m']} × {r['n']} × {r['k']} | {r['tflops']:.0f} | {r['all_tflops']:.0f} | {r['cublas_tflops']:.0f} |\n")
            file.write("\n")
        file.write("| product | operands | error | cuBLAS | worst row | cuBLAS | other class | in bf16 | rows anew |\n|---|---|---|---|---|---|---|---|---|\n")
        for c in cases:
            file.write(
                f"| {c['shape']} | {c['kind']} | {c['error']:.2e} | {c['lib_error']:.2e} | {c['row']:.2e} | {c['lib_row']:.2e} "
                f"| {c['classes']} | {'yes' if c['bf16'] else 'no'} | {c['rows'] // 2} |\n"
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--prepare", action="store_true")
    parser.add_argument("--bin")
    parser.add_argument("--source", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
    parser.add_argument("--filter", default="")
    parser.add_argument("--rates", action="store_true", help="rates alone")
    parser.add_argument("--checks", action="store_true", help="checks alone")
    parser.add_argument("--quick", action="store_true", help="normal operands of small shapes alone")
    parser.add_argument("--budget", type=float, default=110, help="seconds, after which cases are left out")
    parser.add_argument("--json")
    parser.add_argument("--markdown")
    args = parser.parse_args()
    if args.prepare:
        return prepare(args)
    begin = time.perf_counter()
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    torch.zeros(1, device="cuda")
    cases, rates, good, left_out = [], [], True, 0
    names = [n for n in (ODD | SHAPES) if re.search(args.filter, n) and os.path.exists(os.path.join(args.folder, n + ".so"))]
    for name in names:
        late = time.perf_counter() - begin > args.budget
        if late:
            left_out += 1
            continue
        product = Product(torch, args.folder, name)
        if not args.rates:
            for kind in KINDS if name in ODD or name in FULL else LIGHT:
                good &= check(torch, product, name, kind, cases)
        if name in RATED and not args.checks:
            rate(torch, product, name, rates)
        del product
        torch.cuda.empty_cache()
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump({"device": torch.cuda.get_device_name(0), "cases": cases, "rates": rates}, file, indent=1)
    if args.markdown:
        markdown(args.markdown, cases, rates)
    failed = sum(not c["ok"] for c in cases)
    print(f"{len(cases)} cases, {failed} failures, {left_out} shapes left out, {time.perf_counter() - begin:.0f} s")
    sys.exit(0 if good and (cases or rates) else 1)


main()
