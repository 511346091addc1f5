"""The golden GPT-2: where it lies, the names of its parameters, its data."""
import os
import subprocess
import sys

import numpy as np

GOLDENS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "goldens")

LAYER = {
    "ln1.w": "ln_1.weight",
    "ln1.b": "ln_1.bias",
    "qkv.w": "attn.c_attn.weight",
    "qkv.b": "attn.c_attn.bias",
    "proj.w": "attn.c_proj.weight",
    "proj.b": "attn.c_proj.bias",
    "ln2.w": "ln_2.weight",
    "ln2.b": "ln_2.bias",
    "fc.w": "mlp.c_fc.weight",
    "fc.b": "mlp.c_fc.bias",
    "fc2.w": "mlp.c_proj.weight",
    "fc2.b": "mlp.c_proj.bias",
}
OUTER = {
    "wte": "wte.weight",
    "wpe": "wpe.weight",
    "lnf.w": "ln_f.weight",
    "lnf.b": "ln_f.bias",
}


def token_stream(count, seed):
    n = np.arange(count, dtype=np.int64)
    return 32 + (5 * (n % 13) + 3 * ((n // 4) % 11) + (n * n % 7) + 11 * seed) % 41


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(words)}\nexit code {done.returncode}\n{done.stderr}")
