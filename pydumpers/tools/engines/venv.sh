# Sourced by the setup_*.sh scripts: one virtual environment per engine, kept outside the clone.
#
# build_venv NAME REQUIREMENTS [prepare-function]
#   makes ${XDG_CACHE_HOME:-$HOME/.cache}/parity/engines/NAME-KEY and prints the path of its python.
#   KEY hashes the requirements, the calling script and the interpreter, so that an edited
#   requirement or another Python makes a new environment and an old one is never half-updated.
#   An environment is complete when it holds the file .complete; one without it is built again.
#   All progress goes to stderr: stdout is the path and nothing else.

engines_root() {
    printf '%s/parity/engines\n' "${XDG_CACHE_HOME:-$HOME/.cache}"
}

build_venv() {
    local name=$1 requirements=$2 prepare=${3:-}
    local python=${PARITY_PYTHON:-python3} root key venv
    root=$(engines_root)
    key=$({ cat "$requirements" "$0"; "$python" -c 'import platform, sys; print(sys.version, platform.machine())'; } |
        sha256sum | cut -c1-12)
    venv=$root/$name-$key
    mkdir -p "$root"
    # Two builds of one environment at once would corrupt it: the second waits for the first.
    exec 9>"$root/$name.lock"
    flock 9
    if [ ! -e "$venv/.complete" ]; then
        echo "building $venv" >&2
        rm -rf "$venv"
        "$python" -m venv "$venv" >&2
        # The pip that a Python release bundles can be too old to find a solution at all.
        "$venv/bin/python" -m pip install -q --upgrade pip wheel >&2
        if [ -n "$prepare" ]; then
            "$prepare" "$venv" "$root" >&2
        fi
        "$venv/bin/python" -m pip install -q -r "$requirements" >&2
        touch "$venv/.complete"
    fi
    flock -u 9
    printf '%s\n' "$venv/bin/python"
}
