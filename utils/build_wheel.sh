#!/usr/bin/env bash
# Builds the self-contained wheel: the library with LLVM inside, the command line, the headers and
# the Python package. It needs only libc, libm, libz, libzstd and NumPy.
set -euo pipefail
cd "$(dirname "$0")/.."
build=build/dev
stage=build/wheel
python=$PWD/.venv/bin/python
[ -x "$python" ] || python=python3

[ -f $build/build.ninja ] || cmake -S . -B $build -G Ninja -DCMAKE_C_COMPILER=clang-22 \
  -DCMAKE_CXX_COMPILER=clang++-22 -DCMAKE_BUILD_TYPE=Release
ninja -C $build tilery-release tilery-cli-release tilery_launch

needed=$(readelf -d $build/release/lib/libtilery.so $build/release/bin/tilery |
  sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' | sort -u |
  grep -vE '^(libc|libm|libz|libzstd|libtilery|ld-linux-x86-64|libpthread|libdl)\.so' || true)
[ -z "$needed" ] || { echo "the wheel would need $needed" >&2; exit 1; }

rm -rf $stage dist
mkdir -p $stage/tilery dist
cp pyproject.toml utils/wheel/setup.py README.md LICENSE $stage
(cd python && find tilery -name '*.py' -print0 | xargs -0 cp --parents -t "$OLDPWD/$stage")
install -D $build/release/lib/libtilery.so $stage/tilery/lib/libtilery.so
install -D $build/release/bin/tilery $stage/tilery/bin/tilery
install -D $build/lib/_launch.abi3.so $stage/tilery/_launch.abi3.so
strip $stage/tilery/_launch.abi3.so
install -D -m 644 -t $stage/tilery/bench bench/gpu_overlap.py bench/svg_to_png.py
mkdir -p $stage/tilery/include
cp -r include/tilery $stage/tilery/include/
(cd $stage && "$python" setup.py -q bdist_wheel --dist-dir "$OLDPWD/dist")
ls -l dist/*.whl
