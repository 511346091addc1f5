#!/usr/bin/env python3
"""Copies the part of the golden set that the tests here use.

usage: select.py SOURCE

SOURCE holds goldens.json, ops.safetensors and gpt2_main.safetensors. Op cases
whose op is not in `blu` are left out.
"""
import json
import os
import shutil
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
import tensors  # noqa: E402

ABSENT = ("rmsnorm", "batchnorm", "rope", "conv2d", "maxpool2d", "avgpool2d")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    source = sys.argv[1]
    with open(os.path.join(source, "goldens.json"), encoding="utf-8") as file:
        goldens = json.load(file)
    cases = {
        name: case
        for name, case in goldens["ops"].items()
        if not name.startswith(ABSENT)
    }
    arrays = tensors.read(os.path.join(source, "ops.safetensors"))
    tensors.write(
        os.path.join(HERE, "ops.safetensors"),
        {k: v for k, v in arrays.items() if k.split("/")[0] in cases},
    )
    keep = (
        *("config", "n_params", "losses_f64", "norms_f64", "losses_f32", "norms_f32"),
        *("cuda_fp32", "cuda_tf32", "cuda_bf16_autocast"),
    )
    selected = {
        "torch": goldens["torch"],
        "main": {key: goldens["main"][key] for key in keep},
        "ops": cases,
    }
    with open(os.path.join(HERE, "goldens.json"), "w", encoding="utf-8") as file:
        json.dump(selected, file, indent=1)
        file.write("\n")
    shutil.copyfile(
        os.path.join(source, "gpt2_main.safetensors"),
        os.path.join(HERE, "gpt2_main.safetensors"),
    )


main()
