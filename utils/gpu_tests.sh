#!/usr/bin/env bash
# The tests on a machine with a GPU, from a checkout and what utils/gpu_bundle.sh made.
# Usage: utils/gpu_tests.sh BUNDLE OUTPUT [part ...] [-- pytest options]
#   BUNDLE: build/gpu.tar.xz, the folder it unpacks to, or an unpacked wheel
#   parts: cts torch language ops (default: all); or test files
# JOBS test files run at once (default 4), each for FILE_TIMEOUT seconds at most (300).
# Writes OUTPUT/summary.json and a JUnit file for each test file; fails when a test fails or when
# nothing ran.
set -uo pipefail
cd "$(dirname "$0")/.."
bundle=$1
output=$2
shift 2
parts=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do parts+=("$1"); shift; done
[ $# -gt 0 ] && shift
[ ${#parts[@]} -gt 0 ] || parts=(cts torch language ops)
python=${PYTHON:-python3}
mkdir -p "$output"

if [ -f "$bundle" ]; then
  folder=$(mktemp -d)
  tar -C "$folder" -xJf "$bundle"
  bundle=$folder
fi
[ -d "$bundle/tilery/lib" ] && lib=$bundle/tilery/lib || lib=$bundle
[ -f "$bundle/tilery/_launch.abi3.so" ] && cp "$bundle/tilery/_launch.abi3.so" "$lib"
export TILERY_LIBRARY=$lib/libtilery.so PYTHONPATH=$PWD/python TILERY_CACHE_DIR=${TILERY_CACHE_DIR:-$output/cache}
mkdir -p -m 700 "$TILERY_CACHE_DIR"

# Each file in a process of its own: a kernel that loses the device ends one file only.
run() { # name, file, pytest options
  while [ "$(jobs -rp | wc -l)" -ge "${JOBS:-4}" ]; do wait -n; done
  run_one "$@" &
}
run_one() {
  local name=$1 file=$2
  shift 2
  timeout "${FILE_TIMEOUT:-300}" "$python" -m pytest -q -p no:cacheprovider "$file" \
    --junitxml="$output/$name.xml" "$@" > "$output/$name.log" 2>&1
  local status=$?
  [ -s "$output/$name.xml" ] || echo "{\"status\": $status}" > "$output/$name.broken"
  echo "$name: $(tail -n 1 "$output/$name.log")"
}

for part in "${parts[@]}"; do
  case $part in
  cts) [ -x "$lib/hal_cts" ] && "$lib/hal_cts" --gtest_filter='*cuda*' \
    --gtest_output="xml:$output/hal_cts.xml" > "$output/hal_cts.log" 2>&1
    echo "hal_cts: $(tail -n 1 "$output/hal_cts.log")" ;;
  torch) run test_torch python/tests/test_torch.py "$@"
    run test_devices python/tests/test_devices.py "$@" ;;
  language) for file in $(grep -l "backend" python/tests/test_*.py |
      grep -vE "test_(devices|docs|tutorials|cli|package|processes|launchers|torch)\.py"); do
      run "$(basename "$file" .py)" "$file" -k cuda "$@"
    done ;;
  ops) for file in ops/*/test_*.py; do run "ops_$(basename "$file" .py)" "$file" -k cuda "$@"; done ;;
  *) run "$(basename "$part" .py)" "$part" -k cuda "$@" ;;
  esac
done
wait
"$python" utils/gpu_summary.py "$output"
