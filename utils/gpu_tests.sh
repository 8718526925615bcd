#!/usr/bin/env bash
# The tests on a machine with a GPU, from a checkout and what utils/gpu_bundle.sh made.
# Usage: utils/gpu_tests.sh BUNDLE OUTPUT [part ...] [-- pytest options]
#   BUNDLE: build/gpu.tar.xz, the folder it unpacks to, or an unpacked wheel
#   parts: cts torch language ops (default: all of these); two: on two GPUs; or test files
# JOBS test files run at once (default 4); those with several ranks and those that measure run one at
# a time after them, because a kernel that spins slows the other processes of a GPU. A file has
# FILE_TIMEOUT seconds (120, between two GPUs 600), a test TEST_TIMEOUT (60) where pytest-timeout is installed.
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

options=("$@")
"$python" -c "import pytest_timeout" 2> /dev/null &&
  options+=(-p timeout --timeout "${TEST_TIMEOUT:-60}")

# Each file in a process of its own: a kernel that loses the device ends one file only.
run_file() { # file, its name in the output, pytest options
  local file=$1 name=$2
  shift 2
  timeout -k 5 "${FILE_TIMEOUT:-120}" "$python" -m pytest -q -p no:cacheprovider "$file" \
    --junitxml="$output/$name.xml" -o junit_family=xunit1 "$@" "${options[@]}" \
    > "$output/$name.log" 2>&1
  local status=$?
  [ -s "$output/$name.xml" ] || echo "{\"status\": $status}" > "$output/$name.broken"
  echo "$name: $(tail -n 1 "$output/$name.log")"
}

alone=()
# Several ranks on the device, or a measurement.
needs_the_device() { [[ $1 == *test_torch*.py ]] || grep -qE "spawn\(|import run\b|worlds import" "$1"; }
run() { # file, prefix of its name in the output
  local name=$2$(basename "$1" .py)
  if needs_the_device "$1"; then
    alone+=("$1 $name ")
    return
  fi
  while [ "$(jobs -rp | wc -l)" -ge "${JOBS:-4}" ]; do wait -n; done
  run_file "$1" "$name" $(selection "$1") &
}
# Files whose tests are all for a GPU have no parameter that says so.
selection() { [[ $1 =~ test_(torch|devices|two_gpus|rank_deaths)\.py$ ]] || echo "-k cuda"; }

for part in "${parts[@]}"; do
  case $part in
  cts) [ -x "$lib/hal_cts" ] && "$lib/hal_cts" --gtest_filter='*cuda*' \
    --gtest_output="xml:$output/hal_cts.xml" > "$output/hal_cts.log" 2>&1
    echo "hal_cts: $(tail -n 1 "$output/hal_cts.log")" ;;
  torch) run python/tests/test_torch.py ""
    run python/tests/test_torch_parallel.py ""
    run python/tests/test_devices.py "" ;;
  language) for file in $(grep -l "backend" python/tests/test_*.py |
      grep -vE "test_(devices|docs|tutorials|cli|package|processes|launchers|torch|torch_parallel|two_gpus|process_devices|rank_deaths)\.py"); do
      run "$file" ""
    done ;;
  ops) for file in ops/*/test_*.py; do run "$file" ops_; done ;;
  two) FILE_TIMEOUT=${FILE_TIMEOUT:-600}
    alone+=("python/tests/test_two_gpus.py test_two_gpus " "python/tests/test_rank_deaths.py test_rank_deaths ")
    for file in $(grep -lE "spawn\(" python/tests/test_*.py ops/*/test_*.py |
        grep -vE "test_(devices|docs|tutorials|cli|package|processes|launchers|torch|torch_parallel|two_gpus|process_devices|rank_deaths)\.py"); do
      alone+=("$file two_$(basename "$file" .py) cuda:0,cuda:1")
    done ;;
  *) run "$part" "" ;;
  esac
done
wait
for entry in "${alone[@]}"; do
  read -r file name devices <<< "$entry"
  TEST_DEVICES=${devices:-cuda} run_file "$file" "$name" $(selection "$file")
done
"$python" utils/gpu_summary.py "$output"
