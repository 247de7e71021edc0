package main

import (
	"fmt"
	"strings"
)

// instruction is one that Go's assembler does not know. Its word is base with the
// registers put in: the result in the lowest five bits, the first operand from bit 5
// and the second from bit 16 on. Shapes are those of result and operands in the
// notation of the architecture's manual; "" is a scalar of 32 bits.
type instruction struct {
	name   string
	base   uint32
	shapes []string
}

// The instructions that Go's assembler does not know (the architecture's manual, C7.2).
var (
	fadd  = instruction{"fadd", 0x4e60d400, []string{"2d", "2d", "2d"}}
	fsub  = instruction{"fsub", 0x4ee0d400, []string{"2d", "2d", "2d"}}
	fmul  = instruction{"fmul", 0x6e60dc00, []string{"2d", "2d", "2d"}}
	fabd  = instruction{"fabd", 0x6ee0d400, []string{"2d", "2d", "2d"}} // |n-m|, rounded once
	fmax  = instruction{"fmax", 0x4e60f400, []string{"2d", "2d", "2d"}}
	fcmgt = instruction{"fcmgt", 0x6ee0e400, []string{"2d", "2d", "2d"}} // n > m: all ones
	fcmeq = instruction{"fcmeq", 0x4e20e400, []string{"4s", "4s", "4s"}}
	cmgt  = instruction{"cmgt", 0x4ee03400, []string{"2d", "2d", "2d"}} // as signed integers
	umaxv = instruction{"umaxv", 0x6eb0a800, []string{"", "4s"}}        // the largest of four

	// Widening takes the lower or, with a 2, the upper half of its operand.
	widen32  = instruction{"fcvtl", 0x0e617800, []string{"2d", "2s"}}
	widen32u = instruction{"fcvtl2", 0x4e617800, []string{"2d", "4s"}}
	widen16  = instruction{"fcvtl", 0x0e217800, []string{"4s", "4h"}}
	widen16u = instruction{"fcvtl2", 0x4e217800, []string{"4s", "8h"}}
	narrow32 = instruction{"fcvtn", 0x0e216800, []string{"4h", "4s"}}
)

// word is the instruction as a line of assembly, its text beside it; emulate.sh
// has another assembler make the same word of that text.
func (i instruction) word(regs []vec) string {
	if len(regs) != len(i.shapes) {
		panic(fmt.Sprintf("%s takes %d registers, not %d", i.name, len(i.shapes), len(regs)))
	}
	w, text := i.base, make([]string, len(regs))
	for k, r := range regs {
		w |= uint32(r) << [...]int{0, 5, 16}[k]
		text[k] = fmt.Sprintf("v%d.%s", r, i.shapes[k])
		if i.shapes[k] == "" {
			text[k] = fmt.Sprintf("s%d", r)
		}
	}
	return fmt.Sprintf("WORD    $%#08x // %s %s", w, i.name, strings.Join(text, ", "))
}
