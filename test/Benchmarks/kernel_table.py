#!/usr/bin/env python3
"""Turns what `train --kernel-times` printed into a table of the kernels that matter:
time, floor, and how near the one is to the other.

usage: kernel_table.py LOG [--share PERCENT]

The floor of a kernel is the longer of its bytes over the bandwidth and its operations
over the rate of the ceilings that the program measured on the same device.
"""
import argparse
import re

ROW = re.compile(
    r"\s*([\d.]+)\s+([\d.]+)%\s+(\d+)\s+([\d.]+|-)\s+(?:([\d.]+)%|-)\s+([\d.]+|-)\s+"
    r"(?:([\d.]+)%|-)\s+(.+?)(?:\s+\((.*)\))?$"
)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("log")
    parser.add_argument("--share", type=float, default=1.0)
    options = parser.parse_args()
    print("| ms | share | launches | floor, ms | of floor | bound by | kernel |")
    print("|---|---|---|---|---|---|---|")
    with open(options.log, encoding="utf-8") as file:
        for line in file:
            match = ROW.match(line.rstrip())
            if not match or float(match[2]) < options.share:
                continue
            ms, bytes_share, rate_share = float(match[1]), match[5], match[7]
            bounds = {"bytes": float(bytes_share or 0), "operations": float(rate_share or 0)}
            bound = max(bounds, key=bounds.get)
            near = bounds[bound]
            name = match[8].strip().split("  ")[0]
            print(
                f"| {ms:.3f} | {match[2]}% | {match[3]} | {ms * near / 100:.3f} | {near:.0f}% "
                f"| {bound} | `{name}` |"
            )


main()
