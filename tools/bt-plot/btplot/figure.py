"""Curves of runs as a picture."""
import matplotlib

from btdata.common import Error, os_problem
from btdata.shards import Output

from .runs import PANELS, smoothed

matplotlib.use("Agg")
from matplotlib.figure import Figure  # noqa: E402

POINTS = {"linestyle": "none", "marker": "o", "markersize": 4, "markeredgecolor": "white", "zorder": 3}
# Runs whose names fit into each panel.
FEW = 4
STYLES = {"val_loss": POINTS, "val_accuracy": POINTS}


def draw(runs, window):
    panels = [p for p in PANELS if any(key in run.series for run in runs for key in p[0])]
    if not panels:
        raise Error(f"{runs[0].path}: expected a loss or another curve, got none")
    figure = Figure(figsize=(10, 3.2 * ((len(panels) + 1) // 2)), layout="constrained")
    axes = list(figure.subplots((len(panels) + 1) // 2, 2, squeeze=False).flat)
    for axis in axes[len(panels) :]:
        axis.remove()
    for axis, (keys, label, logarithmic) in zip(axes, panels):
        drawn = []
        for color, run in enumerate(runs):
            for key in keys:
                if key in run.series:
                    steps, values = run.series[key]
                    drawn += values
                    plot(axis, steps, values, key, run.name, f"C{color % 10}", window)
        axis.set(xlabel="step", ylabel=label)
        axis.grid(alpha=0.3)
        if logarithmic and min(drawn) > 0:
            axis.set_yscale("log")
        if len(runs) <= FEW:
            axis.legend(fontsize="small")
    if len(runs) > FEW:
        # In the panels it would hide what they show.
        named = {}
        for axis in axes[: len(panels)]:
            for handle, label in zip(*axis.get_legend_handles_labels()):
                named.setdefault(label, handle)
        figure.legend(
            named.values(), named.keys(), loc="outside lower center", ncols=FEW, fontsize="small"
        )
    return figure


def plot(axis, steps, values, key, name, color, window):
    if key in STYLES:
        label = f"{name}, validation"
        axis.plot(steps, values, color=color, label=label, **STYLES[key])
        return
    if window > 1:
        axis.plot(steps, values, color=color, alpha=0.25, linewidth=0.8)
        values = smoothed(values, window)
    # A run of one step is a point.
    marker = "." if len(steps) == 1 else None
    axis.plot(steps, values, color=color, label=name, linewidth=1.2, marker=marker)


def save(figure, path, form):
    """The same runs give the same bytes."""
    matplotlib.rcParams.update({"svg.hashsalt": "bt-plot", "svg.fonttype": "none"})
    notes = {"Date": None} if form == "svg" else {"Software": None}
    output = Output(path)
    try:
        figure.savefig(output.file, format=form, dpi=120, metadata=notes)
        output.complete()
        output.publish()
    except OSError as error:
        raise os_problem(path, error) from None
    finally:
        output.discard()
