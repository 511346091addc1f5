# Configuration of the lit tests; see lit.site.cfg.py.in for what CMake sets.
import ctypes
import os
import re
import shutil
import subprocess
import sys

import lit.formats
import lit.util

if not hasattr(config, "blutrain_obj_root"):
    # Run on the source tree (`lit test/Dialect`): take the build in build/.
    site = os.path.join(
        os.path.dirname(__file__), "..", "build", "test", "lit.site.cfg.py"
    )
    if not os.path.exists(site):
        lit_config.fatal(f"expected {site}; configure first: cmake --preset dev")
    lit_config.load_config(config, site)
    raise SystemExit

config.name = "BluTrain"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs", "Unit", "Benchmarks", "CMakeLists.txt"]
config.test_source_root = config.blutrain_test_root
config.test_exec_root = os.path.join(config.blutrain_obj_root, "test")

# `--param long=1` (tools/test.sh --long) adds the tests that say
# `REQUIRES: long`, and gives every test more time.
long_tier = lit_config.params.get("long", "0") == "1"
if long_tier:
    config.available_features.add("long")
if config.blutrain_has_cuda:
    config.available_features.add("cuda-toolkit")


def has_cuda_device():
    """True if a driver is there and finds a device."""
    try:
        driver = ctypes.CDLL(os.environ.get("BLURT_LIBCUDA", "libcuda.so.1"))
    except OSError:
        return False
    count = ctypes.c_int(0)
    return (
        driver.cuInit(0) == 0
        and driver.cuDeviceGetCount(ctypes.byref(count)) == 0
        and count.value > 0
    )


if has_cuda_device():
    config.available_features.add("cuda-device")
if os.path.exists(os.path.join(config.blutrain_tools_dir, "bt-compile")):
    config.available_features.add("bt-compile")

# Ranks on CPUs need mpirun and, built with it, the plug-in.
if shutil.which("mpirun") and os.path.exists(
    os.path.join(config.blutrain_obj_root, "lib", "libblurt-mpi.so")
):
    config.available_features.add("mpi")

if os.path.exists("/usr/share/datasets/fashion-mnist"):
    config.available_features.add("fashion-mnist")


def environment(name, feature, imports):
    """The Python of an environment that `tools/setup.sh --NAME` made; where it has
    its packages, the tests that need them run."""
    python = os.path.join(config.blutrain_obj_root, f"{name}-venv", "bin", "python")
    if os.path.exists(python):
        command = [python, "-c", "import " + imports]
        if subprocess.run(command, capture_output=True).returncode == 0:
            config.available_features.add(feature)
    return python


data_python = environment(
    "data",
    "data-packages",
    "matplotlib, ml_dtypes, pyarrow.parquet, safetensors, tensorboardX, tiktoken, "
    "tokenizers",
)
# Found rather than imported, which takes seconds.
torch_python = environment(
    "torch",
    "torch-packages",
    "importlib.util as u; assert u.find_spec('torch') and u.find_spec('transformers')",
)

supported, reason = lit.util.killProcessAndChildrenIsSupported()
if not supported:
    lit_config.fatal(f"time-outs do not work: {reason}; run tools/setup.sh")
lit_config.maxIndividualTestTime = 600 if long_tier else 60

config.environment["PATH"] = os.pathsep.join(
    [config.blutrain_tools_dir, config.llvm_tools_dir, os.environ["PATH"]]
)
# What steers our programs and the GEMM library they use reaches the tests.
for name, value in os.environ.items():
    if re.match(r"(BLURT|BLUTRAIN|OPENBLAS|DNNL|OMP|CUDA|NCCL)_", name):
        config.environment[name] = value

# Name programs by their full path, so that a line of a failing test can be
# pasted into a shell. A name inside a path or an option is left alone; `not` and
# `count`, which are words too, are found by PATH.
for directory, tools in (
    (
        config.blutrain_tools_dir,
        [
            *("bt-opt", "bt-compile", "bt-run", "bt-model"),
            *("bt-data", "bt-weights", "bt-plot"),
        ],
    ),
    (config.llvm_tools_dir, ["FileCheck", "split-file"]),
):
    for tool in tools:
        pattern = r"(?<![^\s|;&(])" + re.escape(tool) + r"(?![^\s|;&)])"
        config.substitutions.append((pattern, os.path.join(directory, tool)))
config.substitutions.append(("%data_python", data_python))
config.substitutions.append(("%torch_python", torch_python))
config.substitutions.append(("%python", sys.executable))
config.substitutions.append(("%models", config.blutrain_models_dir))
config.substitutions.append(("%tools", config.blutrain_tools_dir))
