#!/usr/bin/env python3
"""GPT-2 in plain PyTorch: the function that model.mlir computes.

usage: reference.py WEIGHTS.safetensors TOKENS... [--heads N]

Prints the loss of predicting each token from those before it. Needs torch and
safetensors; nothing else here does.
"""

import argparse
import math

import torch
import torch.nn.functional as F


def block(x, p, heads):
    """x: B×T×d; p: the parameters of one block, by name in model.mlir."""
    batch, length, dim = x.shape

    def split_heads(y):  # B×T×d -> B×H×T×D
        return y.view(batch, length, heads, dim // heads).transpose(1, 2)

    h = F.layer_norm(x, (dim,), p["ln_1.weight"], p["ln_1.bias"], eps=1e-5)
    qkv = F.linear(h, p["attn.c_attn.weight"], p["attn.c_attn.bias"])
    q, k, v = (split_heads(y) for y in qkv.split(dim, dim=-1))
    scores = q @ k.transpose(-2, -1) / math.sqrt(dim // heads)
    future = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
    weights = scores.masked_fill(future, -math.inf).softmax(dim=-1)
    attended = (weights @ v).transpose(1, 2).reshape(batch, length, dim)
    x = x + F.linear(attended, p["attn.c_proj.weight"], p["attn.c_proj.bias"])

    h = F.layer_norm(x, (dim,), p["ln_2.weight"], p["ln_2.bias"], eps=1e-5)
    h = F.linear(h, p["mlp.c_fc.weight"], p["mlp.c_fc.bias"])
    h = F.gelu(h, approximate="tanh")
    return x + F.linear(h, p["mlp.c_proj.weight"], p["mlp.c_proj.bias"])


def forward(weights, tokens, targets, heads):
    """Returns loss, token_loss (B×T) and logits (B×T×V).

    weights: by name as in weight files, whose c_* matrices are (in, out).
    """
    layers = 1 + max(
        int(name.split(".")[1]) for name in weights if name.startswith("h.")
    )
    wte, wpe = weights["wte.weight"], weights["wpe.weight"]
    x = wte[tokens] + wpe[: tokens.shape[1]]
    for i in range(layers):
        prefix = f"h.{i}."
        p = {
            name[len(prefix) :]: w.T if ".c_" in name and w.dim() == 2 else w
            for name, w in weights.items()
            if name.startswith(prefix)
        }
        x = block(x, p, heads)
    x = F.layer_norm(
        x, x.shape[-1:], weights["ln_f.weight"], weights["ln_f.bias"], eps=1e-5
    )
    logits = F.linear(x, wte)
    token_loss = F.cross_entropy(
        logits.flatten(0, 1), targets.flatten(), reduction="none"
    ).view(targets.shape)
    counted = (targets != -100).sum()
    return token_loss.sum() / counted, token_loss, logits


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("weights")
    parser.add_argument("tokens", type=int, nargs="+")
    parser.add_argument("--heads", type=int, default=12)
    args = parser.parse_args()
    if len(args.tokens) < 2:
        parser.error("expected at least two tokens")

    from safetensors.torch import load_file

    weights = {
        name.removeprefix("transformer."): w.double()
        for name, w in load_file(args.weights).items()
    }
    ids = torch.tensor([args.tokens])
    with torch.no_grad():
        loss, token_loss, _ = forward(weights, ids[:, :-1], ids[:, 1:], args.heads)
    for token, value in zip(args.tokens[1:], token_loss[0].tolist()):
        print(f"{token}\t{value:.9f}")
    print(f"loss\t{loss.item():.9f}")


if __name__ == "__main__":
    main()
