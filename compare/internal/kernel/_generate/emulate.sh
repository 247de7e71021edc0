#!/usr/bin/env bash
# Shows on a machine of another architecture that the NEON loops are right:
# every word in loops_arm64.s is what the GNU assembler makes of the text beside it,
# and the tests of the package pass on an emulated Cortex-A53, which has the oldest
# instruction set that there is on arm64, with the NEON loops chosen and with the
# portable ones.
# Needs qemu-user-static and binutils-aarch64-linux-gnu (Debian's names).
# Exit status: 0 right, 1 wrong, 2 a tool is missing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
for tool in qemu-aarch64-static aarch64-linux-gnu-as aarch64-linux-gnu-objcopy; do
	command -v "$tool" >/dev/null || { echo "emulate.sh: $tool is missing; install qemu-user-static and binutils-aarch64-linux-gnu" >&2; exit 2; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

grep WORD loops_arm64.s | sed 's/^\tWORD  *\$0x\([0-9a-f]*\) \/\/ /\1 /' | sort -u >"$work/words"
[[ -s "$work/words" ]] || { echo "emulate.sh: no words in loops_arm64.s" >&2; exit 1; }
cut -d' ' -f2- "$work/words" | aarch64-linux-gnu-as -o "$work/words.o" -
aarch64-linux-gnu-objcopy -O binary -j .text "$work/words.o" "$work/words.bin"
diff -u <(cut -d' ' -f1 "$work/words") <(od -An -v -tx4 -w4 --endian=little "$work/words.bin" | tr -d ' ') || {
	echo "emulate.sh: the GNU assembler makes other words of the text in loops_arm64.s" >&2; exit 1; }
echo "$(wc -l <"$work/words") words are those of the GNU assembler"

export CGO_ENABLED=0 GOARCH=arm64
go vet .
go test -c -o "$work/kernel.test" .
unset PARITY_KERNEL
export QEMU_CPU=cortex-a53
echo "NEON loops:"
qemu-aarch64-static "$work/kernel.test" "$@"
echo "portable loops:"
PARITY_KERNEL=portable qemu-aarch64-static "$work/kernel.test" "$@"
