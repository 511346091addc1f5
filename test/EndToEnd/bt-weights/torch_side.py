"""What transformers says of a folder: run by the Python that has it.

usage: torch_side.py make FOLDER VOCAB CONTEXT DIM LAYERS HEADS
       torch_side.py run FOLDER TOKENS.npy TARGETS.npy LOGITS.npy
"""
import sys

import numpy as np
import torch
from transformers import GPT2Config, GPT2LMHeadModel


def make(folder, *sizes):
    names = ("vocab_size", "n_positions", "n_embd", "n_layer", "n_head")
    config = GPT2Config(**dict(zip(names, map(int, sizes))), initializer_range=0.2)
    torch.manual_seed(5)
    model = GPT2LMHeadModel(config)
    # Biases and norms start as constants; here they have to matter.
    for name, parameter in model.named_parameters():
        if parameter.dim() == 1:
            torch.nn.init.normal_(parameter, mean=float("ln_" in name and "weight" in name), std=0.1)
    model.save_pretrained(folder)


def run(folder, tokens, targets, out):
    model, report = GPT2LMHeadModel.from_pretrained(folder, output_loading_info=True)
    for key, names in report.items():
        assert not names, f"{key}: {names}"
    with torch.no_grad():
        logits = model.eval()(torch.from_numpy(np.load(tokens))).logits
    wanted = torch.from_numpy(np.load(targets))
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), wanted.flatten())
    np.save(out, logits.numpy())
    print(f"{loss.item():.9g}")


{"make": make, "run": run}[sys.argv[1]](*sys.argv[2:])
