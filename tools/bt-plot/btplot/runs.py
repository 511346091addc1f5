"""The metrics of runs, as `train --metrics` writes them."""
import json
import math
import os

from btdata.common import os_problem, problem

# What is drawn, in this order: the keys that share a panel, its label, and
# whether its axis is logarithmic if all values are positive.
PANELS = (
    (("loss", "val_loss"), "loss", False),
    (("val_accuracy",), "accuracy", False),
    (("lr",), "learning rate", False),
    (("grad_norm",), "gradient norm", True),
    (("tokens_per_s",), "tokens/s", False),
)


class Run:
    """Series of numbers by key: (steps, values)."""

    def __init__(self, path):
        self.path = path
        self.series = {}
        try:
            with open(path, encoding="utf-8") as file:
                for number, line in enumerate(file, start=1):
                    # A run that was killed may have cut its last line short.
                    if line.endswith("\n"):
                        self._add(number, line)
        except OSError as error:
            raise os_problem(path, error) from None
        except UnicodeDecodeError as error:
            raise problem(path, f"expected UTF-8: {error}") from None
        if not self.series:
            raise problem(path, "expected metrics, got none")

    def _add(self, number, line):
        try:
            record = json.loads(line)
        except ValueError as error:
            raise problem(self.path, f"line {number}: is not JSON: {error}") from None
        step = record.get("step") if isinstance(record, dict) else None
        if not isinstance(step, int) or isinstance(step, bool) or step < 0:
            raise problem(
                self.path, f"line {number}: expected an object with a step"
            )
        for key, value in record.items():
            if key == "step" or isinstance(value, bool):
                continue
            # `train` writes null for a number that is not finite.
            if isinstance(value, (int, float)) and math.isfinite(value):
                steps, values = self.series.setdefault(key, ([], []))
                steps.append(step)
                values.append(value)


def load(paths):
    """Runs with names that tell them apart: the ends of their paths."""
    runs = [Run(path) for path in paths]
    parts = [os.path.abspath(path).removesuffix(".jsonl").split(os.sep) for path in paths]
    for count in range(1, max(map(len, parts)) + 1):
        names = ["/".join(part[-count:]) for part in parts]
        if len(set(names)) == len(names):
            break
    for run, name in zip(runs, names):
        run.name = name
    return runs


def smoothed(values, window):
    """Means over the last `window` values, fewer at the start."""
    sums, means = 0.0, []
    for i, value in enumerate(values):
        sums += value
        if i >= window:
            sums -= values[i - window]
        means.append(sums / min(i + 1, window))
    return means
