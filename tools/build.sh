#!/usr/bin/env bash
# Installs what is missing, configures and builds. Programs land in build/bin.
set -euo pipefail

usage() {
  cat <<'TXT'
usage: tools/build.sh [TARGET...]

Runs tools/setup.sh, configures the `dev` preset (assertions on, warnings are
errors) and builds everything, or just the targets named.

  BLUTRAIN_SKIP_SETUP=1   do not look for missing packages
  BLUTRAIN_JOBS=N         parallel jobs (default: the number of cores)
TXT
}

case ${1:-} in
  -h | --help)
    usage
    exit 0
    ;;
esac

cd "$(dirname "${BASH_SOURCE[0]}")/.."
if [[ ${BLUTRAIN_SKIP_SETUP:-0} != 1 ]]; then
  tools/setup.sh
fi

targets=()
if (($#)); then
  targets=(--target "$@")
fi
# Ninja configures again by itself when a CMakeLists.txt changed.
if [[ ! -f build/build.ninja || CMakePresets.json -nt build/build.ninja ]]; then
  cmake --preset dev
fi
cmake --build build -j"${BLUTRAIN_JOBS:-$(nproc)}" "${targets[@]}"
