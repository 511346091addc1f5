"""Errors, and the packages that are optional."""
import importlib.util
import os
import sys


class Error(Exception):
    """Bad use or bad input: `error: FILE: expected ..., got ...`."""


class Failure(Exception):
    """What went wrong while running, the input being good."""


def problem(path, text):
    return Error(f"{path}: {text}")


def os_problem(path, error):
    return Error(f"{path}: {error.strerror.lower() if error.strerror else error}")


class MissingPackage(Error):
    pass


def require(*names):
    """Finds Python packages, or goes over to the environment that has them."""
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if not missing:
        return
    program = os.path.realpath(sys.modules["__main__"].__file__)
    place = os.path.join(os.path.dirname(os.path.dirname(program)), "data-venv")
    python = os.path.join(place, "bin", "python")
    if os.path.realpath(sys.prefix) != os.path.realpath(place) and os.access(
        python, os.X_OK
    ):
        sys.stdout.flush()
        os.execv(python, [python, program, *sys.argv[1:]])
    raise MissingPackage(
        f"expected the Python package{'s' * (len(missing) > 1)} "
        f"{' and '.join(missing)}; run tools/setup.sh --data, or: "
        f"pip install {' '.join(missing)}"
    )
