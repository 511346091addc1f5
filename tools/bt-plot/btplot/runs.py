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

    def __init__(self, path, wait=False):
        self.path = path
        self.series = {}
        self._inode, self._at, self._lines = None, 0, 0
        if not self.more(wait) and not wait:
            raise problem(path, "expected metrics, got none")

    def more(self, wait=True):
        """Reads the lines that were added. Whether there is any number now; no
        file is an error unless `wait`."""
        try:
            with open(self.path, "rb") as file:
                status = os.fstat(file.fileno())
                # A run that goes on puts another file in the place of its own and
                # repeats some steps.
                if status.st_ino != self._inode or status.st_size < self._at:
                    self._inode, self._at, self._lines = status.st_ino, 0, 0
                file.seek(self._at)
                for line in file:
                    # A run that was killed may have cut its last line short.
                    if not line.endswith(b"\n"):
                        break
                    self._at += len(line)
                    self._lines += 1
                    self._add(self._lines, line.decode("utf-8"))
        except FileNotFoundError as error:
            if not wait:
                raise os_problem(self.path, error) from None
        except OSError as error:
            raise os_problem(self.path, error) from None
        except UnicodeDecodeError as error:
            raise problem(self.path, f"expected UTF-8: {error}") from None
        return bool(self.series)

    def _add(self, number, line):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
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
            if isinstance(value, (int, float)) and self._is_finite(value):
                steps, values = self.series.setdefault(key, ([], []))
                steps.append(step)
                values.append(value)

    @staticmethod
    def _is_finite(value):
        try:
            return math.isfinite(value)
        except OverflowError:  # a whole number beyond all floats
            return False


def load(paths, wait=False):
    """Runs with names that tell them apart: the ends of their paths. With `wait`
    there need not be anything in them yet."""
    runs = [Run(path, wait) for path in paths]
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
