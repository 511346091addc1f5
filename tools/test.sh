#!/usr/bin/env bash
# Installs what is missing, builds, lints and runs every test.
set -euo pipefail

usage() {
  cat <<'TXT'
usage: tools/test.sh [--long] [--filter REGEX] [--no-build] [--no-lint]

  --long           also the slow and exhaustive tests (the default tier holds
                   seeded subsets of them)
  --filter REGEX   only tests whose name matches (lit path, GoogleTest name);
                   no lints
  --no-build       test what is in build/ as it is
  --no-lint        leave out tools/lint.sh

  BLUTRAIN_JOBS=N  tests that run at once (default: the number of cores)

Closes with `N passed, N failed`, counting lit tests, GoogleTest cases and lint
checks. Exit code 1 if anything failed, did not build, or no test ran.
TXT
}

long=0 build=1 lint=1 filter=
while (($#)); do
  case $1 in
    --long) long=1 ;;
    --filter)
      (($# > 1)) || {
        printf 'error: --filter: expected a regular expression\n' >&2
        exit 1
      }
      filter=$2
      lint=0
      shift
      ;;
    --filter=*)
      filter=${1#*=}
      lint=0
      ;;
    --no-build) build=0 ;;
    --no-lint) lint=0 ;;
    -h | --help)
      usage
      exit 0
      ;;
    *)
      usage >&2
      printf "error: unknown argument '%s'\n" "$1" >&2
      exit 1
      ;;
  esac
  shift
done

cd "$(dirname "${BASH_SOURCE[0]}")/.."
jobs=${BLUTRAIN_JOBS:-$(nproc)}
passed=0 failed=0 skipped=0

section() {
  printf '\n== %s (%dm%02ds)\n' "$1" $((SECONDS / 60)) $((SECONDS % 60))
}

# Adds the three counts that a runner left behind.
add() {
  passed=$((passed + $1))
  failed=$((failed + $2))
  skipped=$((skipped + $3))
}

if ((build)); then
  section 'build'
  tools/build.sh all blurt-fuzzers
  # Some tests need packages of Python's; without them they are unsupported.
  if [[ ${BLUTRAIN_SKIP_SETUP:-0} != 1 ]]; then
    tools/setup.sh --data ||
      printf 'warning: no packages for the tests of bt-data, bt-weights, bt-plot\n' >&2
    if ((long)); then
      tools/setup.sh --torch ||
        printf 'warning: no packages for the tests against transformers\n' >&2
    fi
  fi
fi
results=$PWD/build/test-results
rm -rf "$results"
mkdir -p "$results"

if ((lint)); then
  section 'lint'
  tools/lint.sh | tee "$results/lint.txt" || true
  # A lint that died before its closing line counts as one failure.
  read -r lint_passed lint_failed < <(
    sed -nE 's/^lint: ([0-9]+) passed, ([0-9]+) failed$/\1 \2/p' \
      "$results/lint.txt" | grep . || echo '0 1'
  )
  add "$lint_passed" "$lint_failed" 0
fi

# Each runner's exit code is checked against its own counts: a runner that fails
# without a failing test (a crash, a configuration error) is one failure.
section 'unit tests'
ctest_options=(--test-dir build --output-on-failure -j "$jobs"
  --output-junit "$results/ctest.xml")
((long)) || ctest_options+=(-LE '^long$')
[[ -z $filter ]] || ctest_options+=(-R "$filter")
status=0
ctest "${ctest_options[@]}" || status=$?
read -r p f s < <(python3 test/results.py junit "$results/ctest.xml" "$status")
add "$p" "$f" "$s"

section 'lit tests'
lit_options=(-sv -j "$jobs" --param "long=$long" --allow-empty-runs
  -o "$results/lit.json")
[[ -z $filter ]] || lit_options+=(--filter "$filter")
status=0
/usr/lib/llvm-22/bin/lit "${lit_options[@]}" build/test || status=$?
# Where the filter leaves it no test, lit writes no record.
if [[ -z $filter || -e $results/lit.json || $status != 0 ]]; then
  read -r p f s < <(python3 test/results.py lit "$results/lit.json" "$status")
  add "$p" "$f" "$s"
fi

section 'total'
if ((passed + failed == 0)); then
  printf 'error: no test ran%s\n' "${filter:+: none matches $filter}" >&2
  exit 1
fi
closing="$passed passed, $failed failed"
((skipped == 0)) || closing+=", $skipped skipped"
printf '%s\n' "$closing"
((failed == 0))
