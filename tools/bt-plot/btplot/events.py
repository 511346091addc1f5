"""Event files for TensorBoard."""
import glob
import os

from btdata.common import os_problem, problem


def write(runs, folder):
    """A folder for each run, with a scalar for each series."""
    from tensorboardX import SummaryWriter

    for run in runs:
        place = os.path.join(folder, run.name)
        # A second file would show every point twice.
        if glob.glob(glob.escape(place) + "/events.out.tfevents.*"):
            raise problem(place, "expected a folder without event files")
    for run in runs:
        place = os.path.join(folder, run.name)
        try:
            with SummaryWriter(place) as writer:
                for key, (steps, values) in run.series.items():
                    for step, value in zip(steps, values):
                        writer.add_scalar(key, value, step)
        except OSError as error:
            raise os_problem(place, error) from None
        print(place)
