#!/usr/bin/env bash
# Builds what a GPU machine without a compiler needs to run the tests, build/gpu.tar.xz: the
# self-contained library, the launch path, the command line and the drivers' conformance suite.
# Usage: utils/gpu_bundle.sh [build folder] [output]
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build/dev}
output=${2:-build/gpu.tar.xz}
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT

ninja -C "$build" tilery-release tilery-cli-release tilery_launch hal_cts
cp "$build"/release/lib/libtilery.so "$build"/release/bin/tilery "$build"/lib/_launch.abi3.so \
  "$build"/runtime/hal_cts "$stage"
strip "$stage"/hal_cts "$stage"/_launch.abi3.so
tar -C "$stage" -cf - . | xz --x86 --lzma2=preset=6,dict=64MiB -T0 > "$output"
ls -l "$output"
