"""GPT-2 out of a Hugging Face folder, by nothing but NumPy, in f64."""
import json
import math
import os

import numpy as np

import tensors


def norm(x, weight, bias, eps):
    centred = x - x.mean(-1, keepdims=True)
    variance = (centred**2).mean(-1, keepdims=True)
    return centred / np.sqrt(variance + eps) * weight + bias


def gelu(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def logits(folder, tokens):
    """tokens: B x T; B x T x V."""
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    weights = tensors.read(os.path.join(folder, "model.safetensors"))
    p = {k.removeprefix("transformer."): v.astype("f8") for k, v in weights.items()}
    heads, eps = config["n_head"], config["layer_norm_epsilon"]
    batch, length = tokens.shape
    hidden = np.triu(np.full((length, length), -np.inf), 1)
    x = p["wte.weight"][tokens] + p["wpe.weight"][:length]
    dim = x.shape[-1]

    def linear(x, name):
        return x @ p[name + ".weight"] + p[name + ".bias"]

    for i in range(config["n_layer"]):
        at = f"h.{i}."
        y = norm(x, p[at + "ln_1.weight"], p[at + "ln_1.bias"], eps)
        qkv = linear(y, at + "attn.c_attn").reshape(batch, length, 3, heads, -1)
        q, k, v = qkv.transpose(2, 0, 3, 1, 4)
        scores = q @ k.transpose(0, 1, 3, 2) / math.sqrt(dim // heads) + hidden
        y = (softmax(scores) @ v).transpose(0, 2, 1, 3).reshape(batch, length, dim)
        x = x + linear(y, at + "attn.c_proj")
        y = norm(x, p[at + "ln_2.weight"], p[at + "ln_2.bias"], eps)
        x = x + linear(gelu(linear(y, at + "mlp.c_fc")), at + "mlp.c_proj")
    return norm(x, p["ln_f.weight"], p["ln_f.bias"], eps) @ p["wte.weight"].T


def loss(values, targets):
    shifted = values - values.max(-1, keepdims=True)
    log_sum = np.log(np.exp(shifted).sum(-1))
    picked = np.take_along_axis(shifted, targets[..., None], -1)[..., 0]
    return float((log_sum - picked).mean())
