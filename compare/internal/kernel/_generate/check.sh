#!/usr/bin/env bash
# Writes the assembly afresh and compares it with the committed files.
# Exit status: 0 the same, 1 different, 2 the generator failed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT
GOFLAGS=-mod=mod GOWORK=off go run . -out "$fresh/loops_amd64.s" -stubs "$fresh/loops_amd64.go" -pkg kernel || exit 2
for f in loops_amd64.s loops_amd64.go; do
	# The first line holds the command with its paths.
	if ! diff -u <(tail -n +2 "../$f") <(tail -n +2 "$fresh/$f"); then
		echo "check.sh: $f differs from what the generator writes; run: go generate ./compare/internal/kernel" >&2
		exit 1
	fi
done
