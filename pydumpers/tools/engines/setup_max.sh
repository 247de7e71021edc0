#!/usr/bin/env bash
# Builds the environment that the MAX tests run in (1.4 GB, about a minute) and prints the path of
# its python. MAX keeps its compiled graphs in ~/.cache/modular/.max_cache: leave that in place,
# a whole pipeline takes minutes to compile and seconds to load from there.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/venv.sh"

build_venv max "$here/requirements-max.txt"
