#!/usr/bin/env python3
"""How far training runs leave each other.

usage: loss_distance.py RUNS.json A B [A B …]

RUNS.json maps names to losses by step. For each pair prints, as a row of a table,
the largest relative distance up to some steps and over all, its step, and the mean
distance with and without sign.
"""
import json
import sys

MARKS = (10, 40, 80, 160)


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        runs = json.load(file)
    names = sys.argv[2:]
    print("| runs | steps |" + "".join(f" to {m} |" for m in MARKS), end="")
    print(" largest | at | mean | signed |")
    print("|---" * (len(MARKS) + 6) + "|")
    for a, b in zip(names[::2], names[1::2]):
        ratio = [x / y - 1 for x, y in zip(runs[a], runs[b])]
        size = [abs(r) for r in ratio]
        worst = max(range(len(size)), key=size.__getitem__)
        row = [f"{a}, {b}", str(len(size))]
        row += [f"{max(size[:m]):.1e}" for m in MARKS]
        row += [f"{size[worst]:.2e}", str(worst)]
        row += [f"{sum(x) / len(x):.1e}" for x in (size, ratio)]
        print("| " + " | ".join(row) + " |")


main()
