package triage

import "fmt"

var shapeMatchers = []Matcher{
	{
		ID: "expanded-size", Says: "two sizes that should be equal differ",
		Patterns: []string{"train.shape"},
		Weight:   weightCause,
		hints:    holding("expanded size", "existing size"),
		expr:     expr(`expanded size (?:of the tensor )?\((\d+)\) must match (?:the )?existing size \((\d+)\)(?: at non-singleton dimension (\d+))?`),
		read:     readExpanded,
	},
	{
		ID: "block-mask", Says: "the FlexAttention mask is of another length",
		Patterns: []string{"video.block_mask", "video.sequence_padding"},
		Weight:   weightCause,
		hints:    holding("block_mask was created for"),
		expr:     expr(`block_mask was created for block_mask\.shape=(?:torch\.Size\()?[(\[]([\d,\s]+)[)\]]\)?(?:.*?q_len=(\d+))?(?:.*?kv_len=(\d+))?`),
		read:     readBlockMask,
	},
	{
		ID: "matmul-shapes", Says: "two matrices do not fit",
		Patterns: []string{"train.shape", "load.size_mismatch"},
		Weight:   weightSymptom,
		hints:    holding("shapes cannot be multiplied"),
		expr:     expr(`mat1 and mat2 shapes cannot be multiplied \((\d+)x(\d+) and (\d+)x(\d+)\)`),
		read: func(r *reading) bool {
			inner, ok1 := r.number(2)
			other, ok2 := r.number(3)
			if ok1 && ok2 {
				r.note = ratioNote(inner, other)
			}
			return true
		},
	},
	{
		ID: "size-of-tensor", Says: "two tensors cannot be broadcast",
		Patterns: []string{"train.shape"},
		Weight:   weightSymptom,
		hints:    holding("size of tensor a"),
		expr:     expr(`size of tensor a \((\d+)\) must match the size of tensor b \((\d+)\) at non-singleton dimension (\d+)`),
		read: func(r *reading) bool {
			x, ok1 := r.number(1)
			y, ok2 := r.number(2)
			if !ok1 || !ok2 {
				return true
			}
			r.note = ratioNote(x, y)
			if _, whole := sharedBy(x, y); whole {
				r.patterns = []string{"train.shape", "video.kv_buffer"}
			}
			return true
		},
	},
	{
		ID: "invalid-view", Says: "a tensor does not hold as many values as its new shape",
		Patterns: []string{"train.shape", "video.kv_buffer"},
		Weight:   weightSymptom,
		hints:    holding("is invalid for input of size"),
		expr:     expr(`shape '\[([\d,\s-]+)\]' is invalid for input of size (\d+)`),
	},
}

// readExpanded checks the ratio: after an all-to-all each rank holds H/sp heads,
// so the two numbers differ by sp. A ratio that is not whole is another fault.
func readExpanded(r *reading) bool {
	want, ok1 := r.number(1)
	have, ok2 := r.number(2)
	if !ok1 || !ok2 {
		return true
	}
	r.note = ratioNote(want, have)
	if _, whole := sharedBy(want, have); whole {
		r.patterns = []string{"video.kv_buffer", "train.shape"}
	}
	return true
}

// ratioNote says how two sizes that should be equal are related.
func ratioNote(x, y int64) string {
	lo, hi := min(x, y), max(x, y)
	if ratio, ok := sharedBy(x, y); ok {
		return fmt.Sprintf("%d / %d = %d exactly: the whole against one rank's share, if sp or tp is %d", hi, lo, ratio, ratio)
	}
	return fmt.Sprintf("%d and %d are no whole multiple of each other; they differ by %d", x, y, hi-lo)
}

func readBlockMask(r *reading) bool {
	kv, ok := r.number(3)
	if !ok {
		if kv, ok = r.number(2); !ok {
			return true // a version that does not print the lengths
		}
	}
	dims := numbers(r.group(1))
	if len(dims) == 0 {
		return true
	}
	mask := dims[len(dims)-1]
	ratio, whole := sharedBy(mask, kv)
	switch {
	case whole:
		r.note = fmt.Sprintf("mask for %d keys, attention over %d: a factor %d, as between the local and the gathered sequence", mask, kv, ratio)
		r.patterns = []string{"video.block_mask", "video.kv_buffer"}
	case kv > mask:
		r.note = fmt.Sprintf("mask for %d keys, attention over %d: %d more, as padding adds", mask, kv, kv-mask)
	case kv < mask:
		r.note = fmt.Sprintf("mask for %d keys, attention over %d: %d fewer", mask, kv, mask-kv)
	}
	return true
}
