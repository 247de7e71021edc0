#!/usr/bin/env bash
# Writes the assembly afresh and compares it with the committed files.
# Exit status: 0 the same, 1 different, 2 a generator failed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT
export GOFLAGS=-mod=mod GOWORK=off
go run . -out "$fresh/loops_amd64.s" -stubs "$fresh/loops_amd64.go" -pkg kernel || exit 2
go run ./neon -out "$fresh/loops_arm64.s" -stubs "$fresh/loops_arm64.go" || exit 2
for f in loops_{amd64,arm64}.{s,go}; do
	# The first line may hold the command with its paths.
	if ! diff -u <(tail -n +2 "../$f") <(tail -n +2 "$fresh/$f"); then
		echo "check.sh: $f differs from what the generator writes; run: go generate ./compare/internal/kernel" >&2
		exit 1
	fi
done
