#!/usr/bin/env bash
# Runs what device_bundle.py prepared, in its folder, on a machine with a device.
#   device_run.sh [--sanitize [PRECISION…]]
# Exit code 1 if any part failed.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 1

failed=0
part() {
  printf '== %s\n' "$1"
  shift
  "$@" || failed=1
}

if [[ ${1:-} == --sanitize ]]; then
  # Every kernel family of training, on two steps of the golden model, and of
  # dropout, attention on Hopper and generation.
  shift
  [[ $# -gt 0 ]] || set -- fp32 tf32 bf16
  for precision; do
    for tool in memcheck racecheck initcheck synccheck; do
      check=(compute-sanitizer --tool "$tool" --error-exitcode 9 --print-limit 5)
      part "$tool, $precision, depth 64" "${check[@]}" "sanitize/$precision" train \
        --quiet --steps 2 --lr 1e-3 --data text/t_train_000000.bin \
        --save "sanitize/$precision.safetensors"
      part "$tool, $precision, generation" "${check[@]}" "sanitize/$precision" \
        generate --weights "sanitize/$precision.safetensors" --prompt In \
        --max-tokens 4 --temperature 0
      part "$tool, $precision" compute-sanitizer --tool "$tool" --error-exitcode 9 \
        --print-limit 5 "golden-$precision/gpt2" train --quiet --steps 2 --lr 1e-3 \
        --init "golden-$precision/init.safetensors" --data "golden-$precision/data.bin"
    done
  done
  exit "$failed"
fi

for dtype in f32 bf16; do
  part "ops in $dtype" python3 device_check.py "ops-$dtype"
done
part 'attention with many heads' python3 device_attention.py attention
part 'padded vocabulary' python3 device_vocabulary.py vocabulary
# Needs PyTorch, for cuBLAS and float64.
part 'products in pieces' python3 device_products.py products
for precision in fp32 fp32tc tf32 bf16; do
  where=(--precision "$precision" --folder "golden-$precision")
  part "golden run in $precision" python3 gpt2_train.py "${where[@]}" --phase run
  part "golden check in $precision" python3 gpt2_train.py "${where[@]}" --phase check
done
# The kernels of the lowest architecture, out of its PTX.
for precision in fp32 tf32 bf16; do
  where=(--precision "$precision" --folder "golden-$precision")
  part "golden run in $precision, from PTX" \
    env BLURT_FORCE_PTX=1 python3 gpt2_train.py "${where[@]}" --phase run
  part "golden check in $precision, from PTX" \
    python3 gpt2_train.py "${where[@]}" --phase check
done
while read -r -a words; do
  part "${words[*]}" env BLUTRAIN_REPLAY="$PWD/programs/recorded" \
    python3 "programs/EndToEnd/programs/${words[0]}" --bin . "${words[@]:1}"
done <programs/tests
part 'text' python3 device_text.py text
exit "$failed"
