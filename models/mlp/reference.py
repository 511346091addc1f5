#!/usr/bin/env python3
"""The MLP in plain PyTorch: the function that model.mlir computes.

Import `forward`; needs torch.
"""

import torch.nn.functional as F


def forward(weights, image, label, activation="gelu"):
    """Returns loss and logits (B×classes).

    weights: by name as in weight files: fc1.weight (out, in), fc1.bias, fc2…
    """
    layers = sum(name.endswith(".weight") for name in weights)
    x = image
    for i in range(1, layers + 1):
        x = F.linear(x, weights[f"fc{i}.weight"], weights[f"fc{i}.bias"])
        if i < layers:
            x = F.relu(x) if activation == "relu" else F.gelu(x, approximate="tanh")
    return F.cross_entropy(x, label), x
