"""Event files for TensorBoard."""
import glob
import os
import signal
import time

from btdata.common import os_problem, problem


class Events:
    """The event file of a run, in a folder of its name."""

    def __init__(self, run, folder):
        from tensorboardX import SummaryWriter

        self.run = run
        self.place = os.path.join(folder, run.name)
        self.written = {}
        # A second file would show every point twice.
        if glob.glob(glob.escape(self.place) + "/events.out.tfevents.*"):
            raise problem(self.place, "expected a folder without event files")
        self.writer = self._checked(lambda: SummaryWriter(self.place))

    def _checked(self, action):
        try:
            return action()
        except OSError as error:
            raise os_problem(self.place, error) from None

    def _points(self):
        for key, (steps, values) in self.run.series.items():
            # Steps that a run did again after it was resumed are the same.
            last = self.written.get(key, -1)
            for step, value in zip(steps, values):
                if step > last:
                    self.writer.add_scalar(key, value, step)
                    self.written[key] = last = step
            steps.clear()
            values.clear()
        self.writer.flush()

    def write(self):
        self._checked(self._points)

    def close(self):
        self._checked(self.writer.close)


def write(runs, folder, follow=False):
    """A folder for each run, with a scalar for each series. With `follow` also what
    comes, until a signal."""
    files = [Events(run, folder) for run in runs]
    for file in files:
        print(file.place, flush=True)
    stopped = []
    if follow:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda number, frame: stopped.append(number))
    while True:
        for file in files:
            file.write()
        if not follow or stopped:
            break
        time.sleep(0.5)
        for run in runs:
            run.more()
    for file in files:
        file.close()
