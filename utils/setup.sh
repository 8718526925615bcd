#!/usr/bin/env bash
# Installs what Tilery needs on Debian 12: packages by apt (root), Python packages into .venv.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(
  cmake ninja-build ccache python3-venv python3-dev
  clang-22 lld-22 llvm-22-dev llvm-22-tools libmlir-22-dev mlir-22-tools libclang-rt-22-dev
  libboost-context-dev libcli11-dev libfmt-dev libspdlog-dev nlohmann-json3-dev
  openmpi-bin libgtest-dev zlib1g-dev libzstd-dev libxml2-dev libcurl4-openssl-dev libedit-dev)
missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' ||
    missing+=("$package")
done
if ((${#missing[@]})); then
  echo "installing ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -q
  apt-get install -y -q --no-install-recommends "${missing[@]}"
fi

[ -x .venv/bin/python ] || python3 -m venv .venv
.venv/bin/python -m pip install -q --disable-pip-version-check -r requirements.txt
