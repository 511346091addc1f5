#!/usr/bin/env bash
# Installs whatever of BluTrain's needs is missing on Debian 12.
set -euo pipefail

usage() {
  cat <<'TXT'
usage: tools/setup.sh [--check] [--data] [--torch]

Installs the packages that building, testing and the quickstart need and that
are not there yet. Needs root and Debian 12; otherwise it says what is missing
and changes nothing. Does nothing when all is there.

  --check   only report: exit 0 if nothing is missing, 1 otherwise
  --data    also the Python packages of tools/requirements.txt, in an environment
            of their own, build/data-venv, where bt-data, bt-weights and bt-plot
            find them
  --torch   also PyTorch and transformers, which some tests compare with, in
            build/torch-venv: 5 GB

Exit codes: 0 all there, 1 something is missing or could not be installed.
TXT
}

# One line for each reason a package is here.
packages=(
  # compiler, linker, formatter; MLIR's CMake package needs all four of the rest
  clang-22 lld-22 clang-format-22
  libmlir-22-dev mlir-22-tools llvm-22-dev llvm-22-tools
  # build
  cmake ninja-build ccache g++ git
  # GEMM libraries of the CPU target
  libopenblas-pthread-dev
  # compressed images
  zlib1g-dev
  # flags and JSON of the runtime and tools
  nlohmann-json3-dev libcli11-dev
  # fuzzers
  libclang-rt-22-dev
  # tests; lit needs psutil for its time-outs, the numeric tests numpy
  libgtest-dev libgmock-dev python3 python3-psutil python3-numpy shellcheck
  # ranks on CPUs; without it programs for several devices compile but do not
  # start there
  openmpi-bin libopenmpi-dev
  # the images of a test and of docs/results/cpu-fashion-mnist.md
  dataset-fashion-mnist
  # the quickstart's text
  bible-kjv bible-kjv-text
)

fail() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

check_only=0 environments=()
while (($#)); do
  case $1 in
    --check) check_only=1 ;;
    --data | --torch) environments+=("${1#--}") ;;
    -h | --help)
      usage
      exit 0
      ;;
    *)
      usage >&2
      fail "unknown argument '$1'"
      ;;
  esac
  shift
done

cd "$(dirname "${BASH_SOURCE[0]}")/.."
if ((${#environments[@]})); then
  packages+=(python3-venv)
fi

# What pip is to install into build/NAME-venv.
requirements_of() {
  case $1 in
    data) printf 'tools/requirements.txt' ;;
    torch) printf 'test/EndToEnd/bt-weights/requirements.txt' ;;
  esac
}

# Prints the environments asked for that are not there as they should be. The
# copy of the requirements is the last thing to be put into one.
unready() {
  local name
  for name in "${environments[@]}"; do
    cmp -s "$(requirements_of "$name")" "build/$name-venv/requirements.txt" ||
      printf '%s\n' "$name"
  done
}

set_up() {
  local requirements environment options=()
  requirements=$(requirements_of "$1")
  environment=build/$1-venv
  # PyTorch needs what its packages name; the others do without.
  [[ $1 == torch ]] || options=(--no-deps)
  printf 'installing: %s\n' "$(grep -v '^#\|^$' "$requirements" | paste -sd ' ')"
  rm -rf "$environment"
  python3 -m venv "$environment" ||
    fail "python3 -m venv $environment failed"
  "$environment/bin/python" -m pip install --quiet "${options[@]}" \
    --disable-pip-version-check -r "$requirements" ||
    fail "pip install ${options[*]} -r $requirements failed"
  cp "$requirements" "$environment/requirements.txt"
}

# Prints those of "$@" that are not installed, one a line.
missing_of() {
  if ! command -v dpkg-query >/dev/null; then
    printf '%s\n' "$@"
    return
  fi
  local installed package
  # dpkg-query exits 1 when a name is unknown to it; that is an answer here.
  installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" \
    2>/dev/null || true)
  for package in "$@"; do
    grep -qx "installed $package" <<<"$installed" || printf '%s\n' "$package"
  done
}

mapfile -t missing < <(missing_of "${packages[@]}")
if ((${#missing[@]} == 0)); then
  mapfile -t names < <(unready)
  for name in "${names[@]}"; do
    if ((check_only)); then
      printf 'missing: build/%s-venv\nmake it with: tools/setup.sh --%s\n' \
        "$name" "$name" >&2
      exit 1
    fi
    set_up "$name"
  done
  exit 0
fi

install=(apt-get install -y --no-install-recommends "${missing[@]}")
if ((check_only)); then
  printf 'missing packages: %s\ninstall them with: %s\n' \
    "${missing[*]}" "${install[*]}" >&2
  exit 1
fi

system=unknown
if [[ -r /etc/os-release ]]; then
  # shellcheck source=/dev/null
  system=$(. /etc/os-release && printf '%s %s' "${ID:-?}" "${VERSION_ID:-?}")
fi
if [[ $system != 'debian 12' ]]; then
  printf 'missing packages, by their Debian 12 names: %s\n' \
    "${missing[*]}" >&2
  fail "expected Debian 12 to install them on, got '$system';" \
    "install the same by hand and set BLUTRAIN_SKIP_SETUP=1"
fi
if ((EUID != 0)); then
  printf 'missing packages: %s\n' "${missing[*]}" >&2
  fail "installing them needs root; run: sudo ${install[*]}"
fi

export DEBIAN_FRONTEND=noninteractive
options=(-q -o DPkg::Lock::Timeout=600 -o Acquire::Retries=3)
printf 'installing: %s\n' "${missing[*]}"
# A source of someone else's that does not answer is no reason to stop: what
# matters is whether the install below finds its packages.
apt-get "${options[@]}" update ||
  printf 'warning: apt-get update failed; going on with the lists there are\n' >&2
"${install[@]}" "${options[@]}" || {
  printf 'could not install: %s\n' "${missing[*]}" >&2
  fail "apt-get install failed; LLVM 22 is in the bookworm-security suite," \
    "which must be among the sources of apt"
}

mapfile -t missing < <(missing_of "${packages[@]}")
((${#missing[@]} == 0)) || fail "still missing: ${missing[*]}"
mapfile -t names < <(unready)
for name in "${names[@]}"; do
  set_up "$name"
done
