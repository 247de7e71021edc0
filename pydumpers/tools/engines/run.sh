#!/usr/bin/env bash
# Runs the engine tests, each group in the environment of its engine, all cached outside the clone.
#
#   usage: pydumpers/tools/engines/run.sh [torch|llama-cpp|max ...]
#
# PARITY_BIN names the parity binary that judges the dumps (default: bin/parity of this checkout).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
export PARITY_BIN=${PARITY_BIN:-$root/bin/parity}
export HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false
[ -x "$PARITY_BIN" ] || { echo "run.sh: $PARITY_BIN is missing: run make build" >&2; exit 2; }

# engine: setup script, then the test files that run in its environment
declare -A setup=([torch]=setup_torch.sh [llama-cpp]=setup_llama_cpp.sh [max]=setup_max.sh)
declare -A tests=(
  [torch]="tests/engines/test_torch*.py tests/engines/test_onnx*.py tests/engines/test_jax*.py tests/engines/test_vllm*.py tests/engines/test_broken*.py"
  [llama-cpp]="tests/engines/test_llama_cpp*.py"
  [max]="tests/engines/test_max*.py"
)
[ $# -gt 0 ] || set -- llama-cpp torch max
for engine in "$@"; do
  echo "== $engine"
  start=$SECONDS
  python=$(bash "$here/${setup[$engine]}")
  echo "   environment ready after $((SECONDS - start)) s"
  # Only patterns that match something: a group without any test is an error.
  files=()
  for f in ${tests[$engine]}; do
    for g in "$root"/pydumpers/$f; do [ -e "$g" ] && files+=("$g"); done
  done
  [ ${#files[@]} -gt 0 ] || { echo "run.sh: no tests for $engine" >&2; exit 2; }
  (cd "$root/pydumpers" && "$python" -m pytest "${files[@]}")
  echo "   $engine: $((SECONDS - start)) s"
done
