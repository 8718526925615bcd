#!/usr/bin/env bash
# Builds with the address and undefined-behaviour sanitizers and runs the tests of compiled code,
# C++ and Python. Arguments go to pytest; then the C++ tests do not run.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$PWD/build/asan
cmake -S . -B "$build" -G Ninja -DCMAKE_C_COMPILER=clang-22 -DCMAKE_CXX_COMPILER=clang++-22 \
  -DCMAKE_BUILD_TYPE=Release -DTILERY_SANITIZE=address,undefined
ninja -C "$build" -j "${JOBS:-$(nproc)}"

# detect_container_overflow, allow_user_poisoning: the shared LLVM is built without the annotations,
# and shares its arenas with our code.
export ASAN_OPTIONS=detect_container_overflow=0:strict_string_checks=1:check_initialization_order=1
ASAN_OPTIONS+=:allow_user_poisoning=0
export LSAN_OPTIONS=suppressions=$PWD/utils/sanitize_leaks.txt:print_suppressions=0
export UBSAN_OPTIONS=print_stacktrace=1
export PATH=$PWD/.venv/bin:$build/bin:$PATH
(($#)) || ctest --test-dir "$build" --output-on-failure --no-tests=error

# Python is not instrumented: the sanitizers are loaded first, with the C++ library whose
# exceptions they intercept, and Python's own leaks are not reported.
(($#)) || set -- -k "not interpret"
runtime=$(clang++-22 -print-file-name=libclang_rt.asan-x86_64.so)
ASAN_OPTIONS+=:detect_leaks=0 LD_PRELOAD=$runtime:$(clang++-22 -print-file-name=libstdc++.so.6) \
  TILERY_LIBRARY=$build/lib/libtilery.so TILERY_REQUIRE_CPU=1 PYTHONPATH=$PWD/python \
  python -m pytest -q --strict-markers "$@"
