#!/usr/bin/env bash
# Runs NVIDIA's compute-sanitizer on every operator at small sizes, one process each.
# Usage: utils/gpu_sanitize.sh [-o folder] [-t tools] [-j jobs] [operator ...] [-- options of gpu_operators.py]
# Prints "operator tool: errors N" for each, keeps the logs in the folder (default build/sanitize), has
# so many processes at a time (default 4), and fails when there are errors, when an answer is wrong, or when nothing ran. Says so and ends
# with 77 where there is no compute-sanitizer.
# One rank by default: the tools may run kernels one after the other, and ranks would wait for ever.
set -uo pipefail
cd "$(dirname "$0")/.."
folder=build/sanitize tools="memcheck racecheck" jobs=4 operators=() python=${PYTHON:-python3}
while [ $# -gt 0 ]; do
  case $1 in
  -o) folder=$2; shift 2 ;;
  -t) tools=$2; shift 2 ;;
  -j) jobs=$2; shift 2 ;;
  --) shift; break ;;
  *) operators+=("$1"); shift ;;
  esac
done

find_sanitizer() {
  command -v compute-sanitizer && return
  ls /usr/local/cuda/bin/compute-sanitizer /usr/local/cuda*/bin/compute-sanitizer \
    /usr/local/cuda*/compute-sanitizer/compute-sanitizer /opt/nvidia/*/compute-sanitizer/compute-sanitizer \
    "$("$python" -c 'import site; print(site.getsitepackages()[0])')"/nvidia/*/bin/compute-sanitizer \
    2> /dev/null | head -n 1
}
sanitizer=$(find_sanitizer)
if [ -z "$sanitizer" ]; then
  echo "compute-sanitizer is neither on PATH nor in /usr/local/cuda, /opt/nvidia or Python's packages"
  exit 77
fi
mkdir -p "$folder"
"$sanitizer" --version | head -n 3
[ ${#operators[@]} -gt 0 ] || mapfile -t operators < <("$python" utils/gpu_operators.py --list)
# Waits are slow under the tools; a kernel that is watched must not come from a run without them.
export TILERY_TIMEOUT_S=${TILERY_TIMEOUT_S:-300}

# The number in "ERROR SUMMARY: 3 errors" or "RACECHECK SUMMARY: 2 hazards displayed (1 error, 1 warning)".
errors_in() { grep "SUMMARY: " "$1" | tail -n 1 | grep -oE "[0-9]+ errors?" | grep -oE "[0-9]+"; }

watch() { # operator, tool, options of gpu_operators.py
  local operator=$1 tool=$2 log=$folder/$1.$2.log errors
  shift 2
  timeout "${LIMIT:-600}" "$sanitizer" --tool "$tool" "$python" utils/gpu_operators.py "$operator" "$@" \
    > "$log" 2>&1
  local status=$?
  errors=$(errors_in "$log")
  if ! grep -q "the answers are right" "$log"; then
    echo "$operator $tool: failed (status $status): $(grep -vE '^=+' "$log" | tail -n 1)"
    return 1
  fi
  echo "$operator $tool: errors ${errors:-unknown}"
  [ "${errors:-1}" = 0 ]
}

bad=0 running=0
for operator in "${operators[@]}"; do
  for tool in $tools; do
    if [ $running -ge "$jobs" ]; then
      wait -n || bad=1
      running=$((running - 1))
    fi
    watch "$operator" "$tool" "$@" &
    running=$((running + 1))
  done
done
if [ $running = 0 ]; then
  echo "nothing ran"
  exit 1
fi
while [ $running -gt 0 ]; do
  wait -n || bad=1
  running=$((running - 1))
done
exit $bad
