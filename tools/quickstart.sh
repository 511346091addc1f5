#!/usr/bin/env bash
# From a fresh Debian 12 to a small GPT-2 trained on English text, on the CPU.
set -euo pipefail

# Sizes and schedule; each can be set from the environment.
steps=${QUICKSTART_STEPS:-2000}
layers=${QUICKSTART_LAYERS:-4}
heads=${QUICKSTART_HEADS:-4}
dim=${QUICKSTART_DIM:-128}
seq=${QUICKSTART_SEQ:-128}
batch=${QUICKSTART_BATCH:-16}
lr=${QUICKSTART_LR:-2e-3}
min_lr=${QUICKSTART_MIN_LR:-2e-4}
warmup=${QUICKSTART_WARMUP:-$((steps / 20))}
seed=${QUICKSTART_SEED:-1}
text=${QUICKSTART_TEXT:-}
dir=${QUICKSTART_DIR:-build/quickstart}
do_build=${QUICKSTART_BUILD:-1}

usage() {
  cat <<'TXT'
usage: tools/quickstart.sh

Installs what is missing, builds, compiles a small GPT-2 for the CPU, trains it
on the bytes of the King James Bible, compares its validation loss with those of
a unigram and a bigram model, and prints a sample. Files go to build/quickstart.

Environment, with its defaults:
  QUICKSTART_STEPS=2000, QUICKSTART_LAYERS=4, QUICKSTART_HEADS=4,
  QUICKSTART_DIM=128, QUICKSTART_SEQ=128, QUICKSTART_BATCH=16,
  QUICKSTART_LR=2e-3, QUICKSTART_MIN_LR=2e-4, QUICKSTART_WARMUP=STEPS/20,
  QUICKSTART_SEED=1
  QUICKSTART_TEXT=FILE    train on this text instead
  QUICKSTART_DIR=DIR      put the files there
  QUICKSTART_BUILD=0      take the programs in build/bin as they are

Exit codes: 0 trained and better than the bigram model, 1 otherwise.
TXT
}

fail() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

section() {
  printf '\n== %s (%dm%02ds)\n' "$1" $((SECONDS / 60)) $((SECONDS % 60))
}

# Prints a command as it could be typed, then runs it.
run() {
  printf '$'
  printf ' %q' "$@"
  printf '\n'
  "$@"
}

# Writes the whole text to stdout: a title line for each chapter between blank
# lines, then one verse a line without its number.
print_bible() {
  # With a line width beyond the longest verse `bible` breaks no line; it must
  # not read commands from stdin.
  LC_ALL=C bible -l100000 Gen1:1-Rev22:21 </dev/null |
    LC_ALL=C sed -E -e 's/^ +[0-9]+ +//' -e 's/[[:space:]]+$//' -e '1{/^$/d}'
}

case $# in
  0) ;;
  *)
    usage
    [[ $1 == -h || $1 == --help ]] && exit 0
    exit 1
    ;;
esac

cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [[ $do_build == 1 ]]; then
  section 'install and build'
  tools/build.sh
fi
export PATH=$PWD/build/bin:$PATH
mkdir -p "$dir"

section 'text'
if [[ -z $text ]]; then
  text=$dir/kjv.txt
  print_bible >"$text.partial"
  size=$(stat -c %s "$text.partial")
  ((size > 3500000 && size < 5000000)) ||
    fail "$text: expected about 4 MB of text from bible-kjv, got $size bytes"
  mv "$text.partial" "$text"
fi
size=$(stat -c %s "$text")
# About a tenth is held out: whole batches and the one token that is only context,
# so that `eval` scores each of the others, just as the n-gram models do.
batches=$((size / 10 / (batch * seq)))
((batches > 0)) ||
  fail "$text: expected at least $((10 * batch * seq)) bytes for batches of" \
    "$batch sequences of $seq, got $size"
val_tokens=$((batches * batch * seq + 1))
run bt-data tokenize --bytes "$text" --val-tokens "$val_tokens" -o "$dir/text"
train_data=$dir/text_train_000000.bin
val_data=$dir/text_val_000000.bin

section 'compile'
run bt-model gpt2 --layers "$layers" --heads "$heads" --dim "$dim" --vocab 256 \
  --context "$seq" -o "$dir/gpt2.mlir"
run bt-compile "$dir/gpt2.mlir" --target cpu --batch "$batch" --seq "$seq" \
  --precision fp32 -o "$dir/gpt2"
program=$dir/gpt2
[[ $program == /* ]] || program=./$program

section 'train'
weights=$dir/gpt2.safetensors
run "$program" train --data "$train_data" --val "$val_data" --steps "$steps" \
  --lr "$lr" --schedule cosine --warmup "$warmup" --min-lr "$min_lr" \
  --seed "$seed" --shuffle --val-every $((steps > 4 ? steps / 4 : 1)) \
  --val-batches 20 --metrics "$dir/run.jsonl" --save "$weights"

section 'compare on the held-out bytes'
run "$program" eval --data "$val_data" --weights "$weights" | tee "$dir/eval.txt"
# The last `loss NUMBER`, however the two are joined, is the mean.
ours=$(sed -nE 's/.*loss[":= ]+([0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?).*/\1/p' \
  "$dir/eval.txt" | tail -n 1)
[[ -n $ours ]] || fail "$program eval: expected a line with the loss, got none"
run bt-data ngram --train "$train_data" --val "$val_data" | tee "$dir/ngram.txt"
unigram=$(awk '$1 == "unigram" { print $2 }' "$dir/ngram.txt")
bigram=$(awk '$1 == "bigram" { print $2 }' "$dir/ngram.txt")

section "a sample after $steps steps"
prompt='In the beginning'
# The key-value cache holds as many tokens as the model's context.
run "$program" generate --weights "$weights" --prompt "$prompt" \
  --max-tokens $((seq - ${#prompt})) --temperature 0.8 --seed "$seed"

section 'result: cross-entropy on the held-out bytes, nats a byte'
printf '  %-8s %s\n' unigram "$unigram" bigram "$bigram" 'ours' "$ours"
awk -v ours="$ours" -v bigram="$bigram" 'BEGIN { exit !(ours < bigram) }' ||
  fail "expected a loss below the bigram model's $bigram, got $ours"
printf 'better than the bigram model; metrics: %s, weights: %s\n' \
  "$dir/run.jsonl" "$weights"
