package diagnose

import "fmt"

// namedPerm is an order that people meet, with what it usually means. Perm says
// port_i = ref_Perm[i].
type namedPerm struct {
	name, meaning string
	perm          []int
}

// tokenOrders lists the known orders of n tokens.
func tokenOrders(n int, worlds []int) []namedPerm {
	out := []namedPerm{{"reversed", "the sequence was turned round (right to left, or left padding undone twice)", permOf(n, func(i int) int { return n - 1 - i })}}
	ranks := append(append([]int(nil), worlds...), 2, 4, 8, 3, 6, 16)
	for _, cp := range ranks {
		if cp < 2 {
			continue
		}
		if z := zigzag(n, cp); z != nil {
			what := fmt.Sprintf("zigzag over %d ranks (%d chunks of %d tokens)", cp, 2*cp, n/(2*cp))
			out = append(out,
				namedPerm{what, "the shards of context parallelism were joined in rank order and not put back", z},
				namedPerm{what + ", undone where it was not applied", "contiguous shards were put back as if they were zigzag", inverse(z)})
		}
		if n%cp == 0 && n > cp {
			out = append(out,
				namedPerm{fmt.Sprintf("dealt round over %d ranks", cp), "token t went to rank t mod ranks and the ranks were joined one after the other", permOf(n, func(i int) int { return i%(n/cp)*cp + i/(n/cp) })},
				namedPerm{fmt.Sprintf("interleaved from %d blocks", cp), "contiguous shards were put back as if they had been dealt round", permOf(n, func(i int) int { return i%cp*(n/cp) + i/cp })})
		}
	}
	for k := 1; k < n; k++ {
		shift := k
		if k > n/2 {
			shift = k - n
		}
		out = append(out, namedPerm{fmt.Sprintf("rolled by %d", -shift), "the sequence is shifted, and the end came round", permOf(n, func(i int) int { return (i + k) % n })})
	}
	return out
}

func permOf(n int, f func(i int) int) []int {
	p := make([]int, n)
	for i := range p {
		p[i] = f(i)
	}
	return p
}

// zigzag is the token at each place when rank r's shard is chunks r and
// 2·cp-1-r and the shards are joined in rank order; nil where 2·cp does not
// divide n.
func zigzag(n, cp int) []int {
	if n%(2*cp) != 0 {
		return nil
	}
	w := n / (2 * cp)
	var p []int
	for r := range cp {
		for _, chunk := range []int{r, 2*cp - 1 - r} {
			for i := range w {
				p = append(p, chunk*w+i)
			}
		}
	}
	return p
}

// dimOrders lists the known orders of n dims in heads of the given widths.
func dimOrders(n int, heads []int) []namedPerm {
	var out []namedPerm
	for _, w := range append(heads, n) {
		if w < 2 || n%w != 0 {
			continue
		}
		of := fmt.Sprintf("in each head of %d dims", w)
		if w == n {
			of = fmt.Sprintf("of all %d dims", w)
		}
		each := func(in []int) []int {
			return permOf(n, func(i int) int { return i/w*w + in[i%w] })
		}
		if w%2 == 0 {
			out = append(out,
				namedPerm{"even dims first, then odd " + of, "interleaved pairs were split into halves: the order of RoPE pairs", each(namedOrder("interleaved_to_half", w))},
				namedPerm{"halves interleaved " + of, "halves were dealt into pairs: the order of RoPE pairs of GGUF and the original Llama weights", each(namedOrder("half_to_interleaved", w))},
				namedPerm{"halves exchanged " + of, "[sin, cos] for [cos, sin], [up, gate] for [gate, up], [shift, scale] for [scale, shift]", each(namedOrder("halves", w))},
				namedPerm{"neighbours exchanged " + of, "two values of a pair, or two nibbles of a byte, change places", each(permOf(w, func(i int) int { return i ^ 1 }))})
		}
		out = append(out, namedPerm{"reversed " + of, "the axis runs backwards", each(permOf(w, func(i int) int { return w - 1 - i }))})
		if w%8 == 0 {
			awq := []int{0, 2, 4, 6, 1, 3, 5, 7}
			out = append(out,
				namedPerm{"each eight in the order 0 2 4 6 1 3 5 7", "the packing order of AWQ was not undone", permOf(n, func(i int) int { return i/8*8 + awq[i%8] })},
				namedPerm{"each eight in the order 0 4 1 5 2 6 3 7", "the packing order of AWQ was undone where it was not applied", permOf(n, func(i int) int { return i/8*8 + inverse(awq)[i%8] })})
		}
	}
	return out
}

// fusedOrder is the order of a fused projection of the given part widths that
// was sharded over tp ranks and joined in rank order: [a0 b0 c0 a1 b1 c1 ...]
// for [a b c]; nil where the ranks do not divide a part.
func fusedOrder(parts []int, tp int) []int {
	var p []int
	for r := range tp {
		at := 0
		for _, w := range parts {
			if w%tp != 0 {
				return nil
			}
			for i := range w / tp {
				p = append(p, at+r*w/tp+i)
			}
			at += w
		}
	}
	return p
}
