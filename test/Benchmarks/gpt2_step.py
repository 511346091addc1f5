#!/usr/bin/env python3
"""Times a training step of GPT-2 on the CPU, ours and PyTorch's, in one run: the two
take turns, medians are compared; and the peak memory of each.

usage: gpt2_step.py --bin build/bin [--layers N --dim N --heads N --seq N --batch N
       --vocab N --threads N --steps N --rounds N]

The step is the same on both sides: forward, backward, clipping at 1, AdamW, fp32.
PyTorch's is the obvious one (scaled_dot_product_attention, fused AdamW if it has
it). Memory is the peak resident size less that right after the start (ours) or
right after `import torch` (PyTorch). Needs torch, which is part of neither setup nor
CI: run it with a Python that has it.
"""
import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time

SIZES = ("layers", "dim", "heads", "seq", "batch", "vocab")


def resident_kib():
    with open("/proc/self/status", encoding="utf-8") as file:
        fields = dict(line.split(":", 1) for line in file)
    return int(fields["VmRSS"].split()[0])


# The PyTorch side runs in a process of its own: `--torch`, one line of JSON out.
def torch_side(options):
    import torch
    from torch import nn
    import torch.nn.functional as F

    baseline = resident_kib()
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)

    class Block(nn.Module):
        def __init__(self, dim, heads):
            super().__init__()
            self.heads = heads
            self.ln1, self.ln2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
            self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
            self.fc, self.fc2 = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

        def forward(self, x):
            b, t, d = x.shape
            q, k, v = self.qkv(self.ln1(x)).split(d, dim=2)
            q, k, v = (
                y.view(b, t, self.heads, -1).transpose(1, 2) for y in (q, k, v)
            )
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.proj(y.transpose(1, 2).reshape(b, t, d))
            return x + self.fc2(F.gelu(self.fc(self.ln2(x)), approximate="tanh"))

    class GPT2(nn.Module):
        def __init__(self):
            super().__init__()
            self.wte = nn.Embedding(options.vocab, options.dim)
            self.wpe = nn.Embedding(options.seq, options.dim)
            self.blocks = nn.ModuleList(
                Block(options.dim, options.heads) for _ in range(options.layers)
            )
            self.lnf = nn.LayerNorm(options.dim)
            for parameter in self.parameters():
                if parameter.dim() > 1:
                    nn.init.normal_(parameter, std=0.02)

        def forward(self, tokens, targets):
            x = self.wte(tokens) + self.wpe.weight[: tokens.shape[1]]
            for block in self.blocks:
                x = block(x)
            logits = self.lnf(x) @ self.wte.weight.T
            return F.cross_entropy(logits.flatten(0, 1), targets.flatten())

    model = GPT2()
    step = model
    if options.torch == "compile":
        step = torch.compile(model)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True
    )
    shape = (options.batch, options.seq)
    times = []
    for _ in range(options.steps):
        tokens = torch.randint(options.vocab, shape)
        targets = torch.randint(options.vocab, shape)
        begin = time.perf_counter()
        loss = step(tokens, targets)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        loss.item()
        times.append(1e3 * (time.perf_counter() - begin))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"ms": times, "kib": peak - baseline, "version": torch.__version__}))


def write_tokens(path, count, vocab):
    import random

    random.seed(1)
    data = bytearray(1024 + 2 * count)
    for i, value in enumerate((20240520, 1, count)):
        data[4 * i : 4 * i + 4] = value.to_bytes(4, "little")
    for i in range(count):
        data[1024 + 2 * i : 1026 + 2 * i] = random.randrange(vocab).to_bytes(2, "little")
    with open(path, "wb") as file:
        file.write(data)


def run_ours(program, data, options, metrics):
    process = subprocess.Popen(
        [
            program,
            "train",
            f"--data={data}",
            f"--steps={options.steps}",
            "--lr=6e-4",
            f"--threads={options.threads}",
            f"--metrics={metrics}",
            "--quiet",
        ]
    )
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{program} failed with status {status}")
    with open(metrics, encoding="utf-8") as file:
        times = [json.loads(line)["step_ms"] for line in file]
    return times, usage.ru_maxrss


def resident_at_start(program):
    """KiB of the executable right after its start: of `info`, which runs nothing."""
    process = subprocess.Popen([program, "info"], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{program} info failed with status {status}")
    return usage.ru_maxrss


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bin", default="build/bin")
    for name, value in zip(SIZES, (4, 256, 4, 256, 4, 8192)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=12, help="steps a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--torch", choices=("eager", "compile"), help=argparse.SUPPRESS)
    parser.add_argument("--compile", action="store_true", help="time torch.compile too")
    parser.add_argument("--compile-flag", action="append", default=[])
    options = parser.parse_args()
    if options.torch:
        return torch_side(options)

    sizes = [f"--{name}={getattr(options, name)}" for name in SIZES]
    with tempfile.TemporaryDirectory() as folder:
        path = lambda name: os.path.join(folder, name)
        tool = lambda name: os.path.join(options.bin, name)
        model = [f"--{n}={getattr(options, n)}" for n in ("layers", "dim", "heads", "vocab")]
        subprocess.run(
            [tool("bt-model"), "gpt2", *model, f"--context={options.seq}"]
            + ["-o", path("gpt2.mlir")],
            check=True,
        )
        subprocess.run(
            [tool("bt-compile"), path("gpt2.mlir"), f"--batch={options.batch}"]
            + [f"--seq={options.seq}", *options.compile_flag, "-o", path("gpt2")],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        write_tokens(
            path("data.bin"), options.steps * options.batch * options.seq + 1, options.vocab
        )
        modes = ["eager"] + (["compile"] if options.compile else [])
        times = {"ours": [], **{mode: [] for mode in modes}}
        memory = {name: [] for name in times}
        start = resident_at_start(path("gpt2"))
        version = "?"
        for _ in range(options.rounds):
            ours, kib = run_ours(path("gpt2"), path("data.bin"), options, path("m.jsonl"))
            times["ours"] += ours[2:]
            memory["ours"].append(kib - start)
            for mode in modes:
                done = subprocess.run(
                    [sys.executable, __file__, f"--torch={mode}", *sizes]
                    + [f"--threads={options.threads}", f"--steps={options.steps}"],
                    check=True,
                    capture_output=True,
                    text=True,
                )
                result = json.loads(done.stdout.splitlines()[-1])
                times[mode] += result["ms"][2:]
                memory[mode].append(result["kib"])
                version = result["version"]
    print(f"machine: {platform.processor() or platform.machine()}, torch {version}")
    print(" ".join(sizes), f"--threads={options.threads}")
    ours_ms = statistics.median(times["ours"])
    ours_mib = max(memory["ours"]) / 1024
    print(f"ours: {ours_ms:.1f} ms a step, peak {ours_mib:.0f} MiB")
    for mode in modes:
        ms = statistics.median(times[mode])
        mib = max(memory[mode]) / 1024
        print(
            f"torch {mode}: {ms:.1f} ms a step, peak {mib:.0f} MiB; "
            f"we take {ours_ms / ms:.2f} of its time, {ours_mib / mib:.2f} of its memory"
        )


if __name__ == "__main__":
    main()
