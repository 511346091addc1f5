#!/usr/bin/env bash
# Checks the text of the tracked and the new, unignored files. Changes nothing.
set -euo pipefail

usage() {
  cat <<'TXT'
usage: tools/lint.sh [--fix] [CHECK...]

Runs the checks named, or all of them:
  format      C and C++ are as clang-format-22 lays them out
  directives  no FileCheck directive lacks its colon (it would never run)
  docs        generated documents are current (tools/gen-docs.sh --check)
  length      no source file exceeds 1,000 lines
  whitespace  no tabs, trailing blanks or missing newline at the end
  bash        shell scripts parse, and shellcheck accepts them if it is there
  python      Python files compile

  --fix       let clang-format rewrite files before checking

Closes with `lint: N passed, N failed`; exit code 1 if a check failed.
TXT
}

cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Lists files that git tracks or would add, by pathspec, if they still exist.
files() {
  git ls-files -z --cached --others --exclude-standard -- "$@" |
    while IFS= read -r -d '' file; do
      if [[ -f $file && ! -L $file ]]; then
        printf '%s\0' "$file"
      fi
    done
}

# Lists scripts of one language: by suffix, or by the first line of a file that
# has none.
scripts() {
  local suffix=$1 interpreter=$2 file first
  files "*.$suffix"
  while IFS= read -r -d '' file; do
    [[ $(basename "$file") != *.* ]] || continue
    first=
    IFS= read -r first <"$file" 2>/dev/null || true
    if [[ $first == '#!'*"$interpreter"* ]]; then
      printf '%s\0' "$file"
    fi
  done < <(files '.ci/*' 'tools/*' 'test/*')
}

check_format() {
  files '*.h' '*.cpp' '*.c' |
    xargs -0 -r clang-format-22 --dry-run -Werror
}

check_directives() {
  # A comment whose first word is a check prefix (CHECK, CHECK-NEXT, GRAD-SAME,
  # …) and which goes on without a colon. Prefixes other than CHECK are those
  # that a RUN line of the same file names.
  local status=0 file extra prefixes
  local suffix='(-(NEXT|SAME|NOT|DAG|LABEL|EMPTY|COUNT(-[0-9]+)?))?'
  while IFS= read -r -d '' file; do
    extra=$(sed -nE 's/.*--?check-prefix(es)?[= ]([A-Za-z0-9_,-]+).*/\2/p' \
      "$file" | tr ',' '\n' | sort -u | paste -sd '|')
    prefixes="CHECK${extra:+|$extra}"
    # With a suffix nothing but a colon may follow. A bare prefix may begin a
    # sentence ("CHECK lines …"), so there what follows must look like IR.
    if grep -HnE \
      -e "^[[:space:]]*(//|#|;)[[:space:]]*($prefixes)${suffix%\?}[[:space:]]*([^:A-Za-z0-9_-]|\$)" \
      -e "^[[:space:]]*(//|#|;)[[:space:]]*($prefixes)[[:space:]]+([%@\"{}^!#\\[]|[a-z_]+\.[a-z_]+|return|func|module|error|warning|:)" \
      -- "$file"; then
      status=1
    fi
  done < <(files 'test/*.mlir' 'test/*.test' 'models/*.mlir')
  return "$status"
}

check_docs() {
  if [[ -x tools/gen-docs.sh ]]; then
    tools/gen-docs.sh --check
  fi
}

check_length() {
  files '*.h' '*.cpp' '*.c' '*.td' '*.py' '*.sh' |
    xargs -0 -r awk '
      FNR == 1001 { print FILENAME ": more than 1,000 lines"; bad = 1; nextfile }
      END { exit bad }'
}

check_whitespace() {
  local status=0 file
  while IFS= read -r -d '' file; do
    # Text only: grep -I sees binary files as not matching.
    grep -qI '' "$file" || continue
    if grep -HnP '\t|[ \t\r]+$' -- "$file"; then
      status=1
    fi
    if [[ -n $(tail -c 1 "$file") ]]; then
      printf '%s: no newline at the end\n' "$file"
      status=1
    fi
  done < <(files ':!LICENSE' ':!*.bin' ':!*.safetensors')
  return "$status"
}

check_bash() {
  local status=0 file list=()
  mapfile -d '' -t list < <(scripts sh bash)
  for file in "${list[@]}"; do
    bash -n "$file" || status=1
  done
  if ((${#list[@]})) && command -v shellcheck >/dev/null; then
    shellcheck -- "${list[@]}" || status=1
  fi
  return "$status"
}

check_python() {
  # compile() rather than py_compile: nothing is written beside the sources.
  scripts py python | xargs -0 -r python3 -c '
import sys
failed = False
for name in sys.argv[1:]:
    try:
        compile(open(name, "rb").read(), name, "exec")
    except SyntaxError as error:
        print(f"{name}:{error.lineno}: {error.msg}")
        failed = True
sys.exit(failed)'
}

all=(format directives docs length whitespace bash python)
fix=0
checks=()
while (($#)); do
  case $1 in
    -h | --help)
      usage
      exit 0
      ;;
    --fix) fix=1 ;;
    *)
      if [[ " ${all[*]} " != *" $1 "* ]]; then
        usage >&2
        printf "error: unknown check '%s'\n" "$1" >&2
        exit 1
      fi
      checks+=("$1")
      ;;
  esac
  shift
done
((${#checks[@]})) || checks=("${all[@]}")

if ((fix)); then
  files '*.h' '*.cpp' '*.c' | xargs -0 -r clang-format-22 -i
fi

passed=0 failed=0
for check in "${checks[@]}"; do
  if output=$("check_$check" 2>&1); then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    printf 'lint: %s failed (again with: tools/lint.sh %s)\n%s\n' \
      "$check" "$check" "$output"
  fi
done
printf 'lint: %d passed, %d failed\n' "$passed" "$failed"
((failed == 0))
