#!/usr/bin/env python3
"""Trains a GPT-2 with PyTorch on the weights, the tokens and the hyperparameters
that a compiled program would get, to compare losses and speed with it.

usage: pytorch_train.py --make-init W.safetensors [--layers N --heads N --dim N
                        --vocab N --context N --seed N]
       pytorch_train.py --init W.safetensors --data SHARD --batch B --seq T
                        --steps N --heads N --precision fp32|tf32|bf16
                        [--compile] [--lr X --warmup N] [--schedule constant|cosine]
                        [--min-lr X] [--val SHARD --val-every N] [--perturb E]
                        [--metrics FILE] [--serve]

Precision bf16 is autocast over FP32 weights. --val takes the loss on a shard before
every N-th step and at the end, as a compiled program does. --perturb multiplies each initial
weight by 1 ± E, which shows how far two runs drift apart by themselves. Prints one
JSON object: losses of the ends, median milliseconds a step, peak bytes that the
allocator had handed out. With --serve it runs the steps again for each line that it
reads, on tokens it has on the device already, and answers as cuda_compare.py wants.
With the variables that torchrun sets and --serve it is one rank of DDP, --batch a rank;
rank 0 reads and answers, with the time of the slowest rank in each step.
Needs torch, numpy and safetensors.
"""
import argparse
import contextlib
import json
import math
import os
import sys
import time

STARTED = time.time()

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

RANK, RANKS, DEVICE = (
    int(os.environ.get(name, value))
    for name, value in (("RANK", 0), ("WORLD_SIZE", 1), ("LOCAL_RANK", 0))
)
LINEAR = {"attn.c_attn": (1, 3), "attn.c_proj": (1, 1), "mlp.c_fc": (1, 4), "mlp.c_proj": (4, 1)}


def make_init(options):
    """GPT-2's initialisation; c_* matrices are (in, out), as files have them."""
    generator = torch.Generator().manual_seed(options.seed)
    d = options.dim
    normal = lambda shape, std: torch.randn(shape, generator=generator) * std
    weights = {
        "wte.weight": normal((options.vocab, d), 0.02),
        "wpe.weight": normal((options.context, d), 0.02),
        "ln_f.weight": torch.ones(d),
        "ln_f.bias": torch.zeros(d),
    }
    for i in range(options.layers):
        for norm in ("ln_1", "ln_2"):
            weights[f"h.{i}.{norm}.weight"] = torch.ones(d)
            weights[f"h.{i}.{norm}.bias"] = torch.zeros(d)
        for name, (rows, columns) in LINEAR.items():
            std = 0.02 / math.sqrt(2 * options.layers) if "c_proj" in name else 0.02
            weights[f"h.{i}.{name}.weight"] = normal((rows * d, columns * d), std)
            weights[f"h.{i}.{name}.bias"] = torch.zeros(columns * d)
    save_file(weights, options.make_init)


class Gpt2(torch.nn.Module):
    def __init__(self, weights, heads):
        super().__init__()
        self.heads = heads
        self.layers = 1 + max(int(n.split(".")[1]) for n in weights if n.startswith("h."))
        for name, value in weights.items():
            # Stored as F.linear wants them.
            turned = ".c_" in name and value.dim() == 2
            value = value.T.contiguous() if turned else value
            self.register_parameter(name.replace(".", "_"), torch.nn.Parameter(value))

    def p(self, name):
        return getattr(self, name.replace(".", "_"))

    def linear(self, x, name):
        return F.linear(x, self.p(name + ".weight"), self.p(name + ".bias"))

    def norm(self, x, name):
        return F.layer_norm(x, x.shape[-1:], self.p(name + ".weight"), self.p(name + ".bias"), 1e-5)

    def forward(self, tokens, targets):
        b, t = tokens.shape
        x = F.embedding(tokens, self.p("wte.weight")) + self.p("wpe.weight")[:t]
        for i in range(self.layers):
            h = f"h.{i}."
            qkv = self.linear(self.norm(x, h + "ln_1"), h + "attn.c_attn")
            q, k, v = (
                z.view(b, t, self.heads, -1).transpose(1, 2) for z in qkv.chunk(3, dim=-1)
            )
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.linear(y.transpose(1, 2).reshape(b, t, -1), h + "attn.c_proj")
            y = F.gelu(self.linear(self.norm(x, h + "ln_2"), h + "mlp.c_fc"), approximate="tanh")
            x = x + self.linear(y, h + "mlp.c_proj")
        logits = F.linear(self.norm(x, "ln_f"), self.p("wte.weight"))
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def batches(options, path=None):
    tokens = np.fromfile(path or options.data, dtype="<u2", offset=1024)
    size = options.batch * options.seq
    for step in range((len(tokens) - 1) // size if path else options.steps):
        at = np.arange(step * size, (step + 1) * size + 1) % len(tokens)
        piece = torch.from_numpy(tokens[at].astype(np.int64)).cuda()
        shape = (options.batch, options.seq)
        yield piece[:-1].view(shape), piece[1:].view(shape)


def rate(options, step):
    if step < options.warmup:
        return options.lr * (step + 1) / options.warmup
    if options.schedule == "constant":
        return options.lr
    progress = (step - options.warmup) / max(1, options.steps - options.warmup)
    share = 0.5 * (1 + math.cos(math.pi * progress))
    return options.min_lr + share * (options.lr - options.min_lr)


def serve(options, step_on):
    """Ranks wait for the next turn on the host: on the device they would take its time
    from others."""
    pairs = [pair for _, pair in zip(range(4 * RANKS), batches(options))][RANK::RANKS]
    hosts = dist.new_group(backend="gloo") if RANKS > 1 else None

    def measure(steps):
        events = [torch.cuda.Event(enable_timing=True) for _ in range(steps + 1)]
        events[0].record()
        for i in range(steps):
            step_on(*pairs[i % len(pairs)])
            events[i + 1].record()
        torch.cuda.synchronize()
        times = torch.tensor([a.elapsed_time(b) for a, b in zip(events, events[1:])])
        if hosts:
            dist.all_reduce(times, op=dist.ReduceOp.MAX, group=hosts)
        return float(times.median())

    def answer(result):
        if RANK == 0:
            print("RESULT " + json.dumps(result), flush=True)

    def is_wanted():
        word = [sys.stdin.readline().strip() if RANK == 0 else None]
        if hosts:
            dist.broadcast_object_list(word, src=0, group=hosts)
        return word[0] not in ("", "quit")

    step_on(*pairs[0])
    torch.cuda.synchronize()
    first = time.time() - STARTED
    measure(5)
    torch.cuda.reset_peak_memory_stats()
    result = {"ms": measure(options.steps), "first_step_s": first}
    free, total = torch.cuda.mem_get_info()
    result["alloc_gib"] = torch.cuda.max_memory_allocated() / 2**30
    result["dev_used_gib"] = (total - free) / 2**30
    answer(result)
    while is_wanted():
        answer({"ms": measure(options.steps)})
    sys.stdout.flush()
    if hosts:
        os._exit(0)  # NCCL's own end may hang


def train(options):
    torch.cuda.set_device(DEVICE)
    if RANKS > 1:
        if not options.serve:
            sys.exit("error: ranks need --serve")
        dist.init_process_group("nccl", device_id=torch.device("cuda", DEVICE))
    torch.set_float32_matmul_precision("high" if options.precision == "tf32" else "highest")
    weights = load_file(options.init)
    if options.perturb:
        generator = torch.Generator().manual_seed(1)
        for value in weights.values():
            sign = torch.randint(0, 2, value.shape, generator=generator) * 2 - 1
            value.mul_(1 + options.perturb * sign)
    model = Gpt2({n: w.cuda() for n, w in weights.items()}, options.heads)
    decayed = [p for p in model.parameters() if p.dim() >= 2]
    plain = [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}],
        lr=options.lr,
        betas=(0.9, 0.95),
        eps=1e-8,
        fused=True,
    )
    run = model
    if RANKS > 1:
        parallel = torch.nn.parallel.DistributedDataParallel
        run = parallel(model, device_ids=[DEVICE], gradient_as_bucket_view=True)
    run = torch.compile(run) if options.compile else run
    cast = (
        torch.autocast("cuda", dtype=torch.bfloat16)
        if options.precision == "bf16"
        else contextlib.nullcontext()
    )

    def step_on(tokens, targets):
        optimizer.zero_grad(set_to_none=True)
        with cast:
            loss = run(tokens, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        optimizer.step()
        return loss.detach()

    if options.serve:
        return serve(options, step_on)
    def validate():
        with torch.no_grad(), cast:
            return float(np.mean([float(model(*pair)) for pair in batches(options, options.val)]))

    losses, ends, validation = [], [], []
    for step, (tokens, targets) in enumerate(batches(options)):
        if options.val_every and step % options.val_every == 0:
            validation.append((step, validate()))
        for group in optimizer.param_groups:
            group["lr"] = rate(options, step)
        losses.append(step_on(tokens, targets))
        torch.cuda.synchronize()
        ends.append(time.perf_counter())
    losses = [float(x) for x in losses]
    if options.val:
        validation.append((options.steps, validate()))
    if options.metrics:
        with open(options.metrics, "w", encoding="utf-8") as file:
            for step, loss in enumerate(losses):
                file.write(json.dumps({"step": step, "loss": loss}) + "\n")
            for step, loss in validation:
                file.write(json.dumps({"step": step, "val_loss": loss}) + "\n")
    steps = np.diff(ends)[5:] if len(ends) > 8 else np.diff(ends)
    print(
        json.dumps(
            {
                "precision": options.precision,
                "compile": options.compile,
                "first": losses[0],
                "last": losses[-1],
                "val_loss": validation[-1][1] if validation else None,
                "ms": float(np.median(steps) * 1e3) if len(steps) else None,
                "max_memory_allocated": torch.cuda.max_memory_allocated(),
            }
        )
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--make-init")
    parser.add_argument("--init")
    parser.add_argument("--data")
    parser.add_argument("--val")
    parser.add_argument("--metrics")
    parser.add_argument("--schedule", choices=("constant", "cosine"), default="constant")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--serve", action="store_true")
    parser.add_argument("--precision", choices=("fp32", "tf32", "bf16"), default="fp32")
    for name, value in (
        ("layers", 12),
        ("heads", 12),
        ("dim", 768),
        ("vocab", 50304),
        ("context", 1024),
        ("batch", 32),
        ("seq", 1024),
        ("steps", 20),
        ("warmup", 0),
        ("val-every", 0),
        ("seed", 1),
    ):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--lr", type=float, default=6e-4)
    parser.add_argument("--min-lr", type=float, default=0.0)
    parser.add_argument("--perturb", type=float, default=0.0)
    options = parser.parse_args()
    if options.make_init:
        make_init(options)
    else:
        train(options)


main()
