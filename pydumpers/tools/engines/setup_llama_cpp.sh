#!/usr/bin/env bash
# Builds the environment that the llama.cpp tests run in and prints the path of its python.
# The first run compiles llama.cpp (about 7 minutes on two cores); the wheel is kept, so a changed
# requirement does not compile again.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/venv.sh"

prepare() {
    local venv=$1 root=$2 wheels pin
    pin=$(grep '^llama-cpp-python==' "$here/requirements-llama-cpp.txt")
    wheels=$root/wheels
    mkdir -p "$wheels"
    if ! "$venv/bin/python" -m pip install -q --no-index --find-links "$wheels" --no-deps "$pin" 2>/dev/null; then
        # GGML_NATIVE off: a cache that moves to another processor must not die of an illegal instruction.
        CMAKE_ARGS="-DGGML_NATIVE=OFF -DLLAVA_BUILD=OFF" CMAKE_BUILD_PARALLEL_LEVEL=$(nproc) \
            nice -n 10 "$venv/bin/python" -m pip wheel -q --no-deps --no-binary llama-cpp-python -w "$wheels" "$pin"
        "$venv/bin/python" -m pip install -q --no-index --find-links "$wheels" --no-deps "$pin"
    fi
}

build_venv llama-cpp "$here/requirements-llama-cpp.txt" prepare
