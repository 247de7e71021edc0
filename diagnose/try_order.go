package diagnose

import "fmt"

// orderTransforms move values and change none.
var orderTransforms = []TransformSpec{
	{
		Name: "permute",
		Params: []TransformParam{
			{Name: "order", Kind: argOrder, Words: orderWords, Required: true, Doc: "place i takes block order[i]; or a named order of each head's dims"},
			{Name: "block", Kind: argInt, Doc: "size of a block, 1 by default; for a named order the head's width, by default that of the model"},
			{Name: "axis", Kind: argWord, Words: axisWords, Doc: "cols by default"},
		},
		Doc:     "reorder dims or tokens, single or in blocks. A list shorter than the axis is applied to each stretch of its length",
		Formula: "x[i] := x[order[i]]",
		apply:   applyPermute,
	},
	{
		Name: "roll",
		Params: []TransformParam{
			{Name: "n", Kind: argInt, Required: true},
			{Name: "axis", Kind: argWord, Words: axisWords, Doc: "rows by default"},
		},
		Doc:     "shift tokens (or dims) round by n: what was at i comes to i+n",
		Formula: "x[(i+n) mod N] := x[i]",
		apply: func(_ *tryEnv, v *tryValue, a tryArgs) (*tryValue, error) {
			rows := a.word("axis", "rows") == "rows"
			n := v.Cols
			if rows {
				n = v.Rows
			}
			if n == 0 {
				return v, nil
			}
			idx := make([]int, n)
			for i := range idx {
				idx[i] = ((i-a.int("n", 0))%n + n) % n
			}
			return gather(v, idx, rows)
		},
	},
	{
		Name: "swap",
		Params: []TransformParam{
			{Name: "a", Kind: argInt, Required: true},
			{Name: "b", Kind: argInt, Required: true},
			{Name: "block", Kind: argInt, Doc: "size of a block, 1 by default"},
			{Name: "axis", Kind: argWord, Words: axisWords, Doc: "cols by default"},
		},
		Doc:     "exchange two blocks: swap(0, 1, block=512) exchanges the halves of 1024 dims",
		Formula: "x[a], x[b] := x[b], x[a]",
		apply: func(_ *tryEnv, v *tryValue, a tryArgs) (*tryValue, error) {
			rows, block := a.word("axis", "cols") == "rows", a.int("block", 1)
			n := v.Cols
			if rows {
				n = v.Rows
			}
			i, j := a.int("a", 0), a.int("b", 0)
			if block < 1 || i < 0 || j < 0 || (max(i, j)+1)*block > n {
				return nil, fmt.Errorf("blocks %d and %d of %d do not lie in %d", i, j, block, n)
			}
			idx := make([]int, n)
			for k := range idx {
				switch k / block {
				case i:
					idx[k] = j*block + k%block
				case j:
					idx[k] = i*block + k%block
				default:
					idx[k] = k
				}
			}
			return gather(v, idx, rows)
		},
	},
	{
		Name: "reverse",
		Params: []TransformParam{
			{Name: "axis", Kind: argWord, Words: axisWords, Doc: "rows by default"},
		},
		Doc:     "turn the order of tokens or dims round",
		Formula: "x[i] := x[N-1-i]",
		apply: func(_ *tryEnv, v *tryValue, a tryArgs) (*tryValue, error) {
			rows := a.word("axis", "rows") == "rows"
			n := v.Cols
			if rows {
				n = v.Rows
			}
			idx := make([]int, n)
			for i := range idx {
				idx[i] = n - 1 - i
			}
			return gather(v, idx, rows)
		},
	},
	{
		Name:    "transpose",
		Doc:     "exchange rows and columns",
		Formula: "x := xᵀ",
		apply: func(_ *tryEnv, v *tryValue, _ tryArgs) (*tryValue, error) {
			data := make([]float64, len(v.Data))
			for r := 0; r < v.Rows; r++ {
				for c := 0; c < v.Cols; c++ {
					data[c*v.Rows+r] = v.Data[r*v.Cols+c]
				}
			}
			return v.sized(v.Cols, v.Rows, data), nil
		},
	},
	{
		Name: "slice",
		Params: []TransformParam{
			{Name: "from", Kind: argInt, Required: true},
			{Name: "to", Kind: argInt, Required: true, Doc: "exclusive"},
			{Name: "axis", Kind: argWord, Words: axisWords, Doc: "rows by default"},
		},
		Doc:     "keep a range of tokens or dims",
		Formula: "x := x[from:to]",
		apply: func(_ *tryEnv, v *tryValue, a tryArgs) (*tryValue, error) {
			rows := a.word("axis", "rows") == "rows"
			n := v.Cols
			if rows {
				n = v.Rows
			}
			lo, hi := a.int("from", 0), a.int("to", n)
			if lo < 0 || hi < lo || hi > n {
				return nil, fmt.Errorf("%d to %d is outside 0 to %d", lo, hi, n)
			}
			idx := make([]int, hi-lo)
			for i := range idx {
				idx[i] = lo + i
			}
			return gather(v, idx, rows)
		},
	},
}

// orderWords are the named orders of each head's dims, as "from the value's order
// to": interleaved is (0, 1), (2, 3), ...; half is (0, d/2), (1, d/2+1), ...
var orderWords = []string{"interleaved_to_half", "half_to_interleaved", "halves"}

// namedOrder returns the source dim of every place of a head of n dims.
func namedOrder(name string, n int) []int {
	idx := make([]int, n)
	for i := 0; i < n/2; i++ {
		switch name {
		case "interleaved_to_half":
			idx[i], idx[i+n/2] = 2*i, 2*i+1
		case "half_to_interleaved":
			idx[2*i], idx[2*i+1] = i, i+n/2
		case "halves":
			idx[i], idx[i+n/2] = i+n/2, i
		}
	}
	return idx
}

func applyPermute(e *tryEnv, v *tryValue, a tryArgs) (*tryValue, error) {
	rows := a.word("axis", "cols") == "rows"
	n := v.Cols
	if rows {
		n = v.Rows
	}
	var order []int
	block := a.int("block", 1)
	if name := a.word("order", ""); name != "" {
		if block = a.int("block", 0); block == 0 {
			block = e.c.headDim(v.Name, v.Cols)
		}
		if block < 2 || block%2 != 0 {
			return nil, fmt.Errorf("the head's width is not known: give block=")
		}
		order, block = namedOrder(name, block), 1
	} else {
		order = a.ints("order")
	}
	span := len(order) * block
	if block < 1 || span == 0 || n%span != 0 {
		return nil, fmt.Errorf("an order of %d blocks of %d does not divide %d", len(order), block, n)
	}
	idx := make([]int, n)
	for i := range idx {
		stretch, in := i/span, i%span
		from := order[in/block]
		if from < 0 || from >= len(order) {
			return nil, fmt.Errorf("order holds %d, blocks are 0 to %d", from, len(order)-1)
		}
		idx[i] = stretch*span + from*block + in%block
	}
	return gather(v, idx, rows)
}

// gather takes rows or columns by index.
func gather(v *tryValue, idx []int, rows bool) (*tryValue, error) {
	if rows {
		data := make([]float64, 0, len(idx)*v.Cols)
		for _, i := range idx {
			data = append(data, v.Row(i)...)
		}
		if len(idx) == v.Rows {
			return v.like(data), nil
		}
		return v.sized(len(idx), v.Cols, data), nil
	}
	data := make([]float64, v.Rows*len(idx))
	for r := 0; r < v.Rows; r++ {
		row := v.Row(r)
		for j, i := range idx {
			data[r*len(idx)+j] = row[i]
		}
	}
	if len(idx) == v.Cols {
		return v.like(data), nil
	}
	w := v.sized(v.Rows, len(idx), data)
	if n := len(v.Shape); n > 2 && v.Shape[n-1] == v.Cols {
		// The last axis alone is cut: probabilities stay [heads, tokens, keys].
		w.Shape = append(append([]int(nil), v.Shape[:n-1]...), len(idx))
	}
	return w, nil
}
