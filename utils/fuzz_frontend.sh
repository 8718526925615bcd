#!/usr/bin/env bash
# Runs the front end under libFuzzer with sanitizers; new inputs are added to the corpus.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-600}
cmake -S . -B build/fuzz -G Ninja -DCMAKE_C_COMPILER=clang-22 -DCMAKE_CXX_COMPILER=clang++-22 \
  -DCMAKE_BUILD_TYPE=RelWithDebInfo -DTILERY_FUZZ=ON -DTILERY_BUILD_TESTS=OFF
ninja -C build/fuzz fuzz_frontend
# detect_container_overflow: the shared LLVM is built without the annotations.
ASAN_OPTIONS=detect_container_overflow=0 build/fuzz/compiler/Frontend/fuzz_frontend \
  -max_total_time="$seconds" -max_len=4096 -timeout=20 -rss_limit_mb=4096 \
  -dict=compiler/Frontend/fuzz/kernel.dict compiler/Frontend/fuzz/corpus
