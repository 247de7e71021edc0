package compare

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/layerparity/parity/dump"
)

func TestReconcile(t *testing.T) {
	for _, c := range []struct {
		reason    string
		ref, port []int
		want      []int // nil: they differ
	}{
		{"equal", []int{16, 64}, []int{16, 64}, []int{16, 64}},
		{"a batch of one", []int{1, 16, 64}, []int{16, 64}, []int{16, 64}},
		{"a batch of one in the port", []int{16, 64}, []int{1, 16, 64}, []int{16, 64}},
		{"two leading ones", []int{1, 1, 16, 64}, []int{16, 64}, []int{16, 64}},
		{"one token: the token axis is kept", []int{1, 64}, []int{64}, []int{1, 64}},
		{"logits of one position", []int{1, 1, 64}, []int{64}, []int{64}},
		{"heads against one axis", []int{16, 4, 16}, []int{16, 64}, []int{16, 64}},
		{"one axis against heads", []int{16, 64}, []int{16, 4, 16}, []int{16, 64}},
		{"heads behind a batch of one", []int{1, 16, 4, 16}, []int{16, 64}, []int{16, 64}},
		{"heads against a batch of one", []int{16, 4, 16}, []int{1, 16, 64}, []int{16, 64}},
		{"heads of one token", []int{1, 4, 16}, []int{1, 64}, []int{1, 64}},
		{"heads of one token in a batch of one", []int{1, 1, 4, 16}, []int{1, 64}, []int{1, 64}},
		{"heads in a batch", []int{2, 8, 4, 16}, []int{2, 8, 64}, []int{2, 8, 64}},
		{"one head", []int{16, 1, 64}, []int{16, 64}, []int{16, 64}},
		{"a row less", []int{16, 64}, []int{15, 64}, nil},
		{"a column less", []int{16, 64}, []int{16, 63}, nil},
		{"transposed", []int{16, 64}, []int{64, 16}, nil},
		{"as many elements, other axes", []int{16, 64}, []int{32, 32}, nil},
		{"flattened", []int{16, 64}, []int{1024}, nil},
		{"a batch of two is no batch of one", []int{2, 8, 64}, []int{16, 64}, nil},
		{"heads first", []int{4, 16, 16}, []int{16, 64}, nil},
		{"trailing ones are no leading ones", []int{16, 1}, []int{16}, nil},
		{"scalars", nil, nil, nil},
		{"a scalar and one element", []int{}, []int{1}, nil},
		{"empty", []int{0, 64}, []int{0, 64}, []int{0, 64}},
		{"empty against something", []int{0, 64}, []int{16, 64}, nil},
	} {
		got, note, ok := reconcile(c.ref, c.port)
		if ok != (c.want != nil) && len(c.ref)+len(c.port) > 0 {
			t.Errorf("%s: %v and %v: ok %t, want shape %v", c.reason, c.ref, c.port, ok, c.want)
			continue
		}
		if c.want != nil && !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v and %v: %v, want %v", c.reason, c.ref, c.port, got, c.want)
		}
		if same := fmt.Sprint(c.ref) == fmt.Sprint(c.port); ok && same != (note == "") {
			t.Errorf("%s: note %q", c.reason, note)
		}
	}
}

func TestGeometry(t *testing.T) {
	for _, c := range []struct {
		reason  string
		name    string
		shape   []int
		tokens  int
		rows    int
		cols    int
		tok     int
		grouped bool
		batch   int
	}{
		{"a layer", "layer_00", []int{16, 64}, 16, 16, 64, 16, false, 1},
		{"a batch is kept as rows", "layer_00", []int{2, 8, 64}, 8, 16, 64, 16, false, 2},
		{"a scalar", "other", []int{}, 0, 1, 1, 1, false, 1},
		{"a vector is one row", "last_logits", []int{50}, 16, 1, 50, 1, false, 1},
		{"ids are a row each", "prompt_tokens", []int{16}, 16, 16, 1, 16, false, 1},
		{"heads of a token are one row", "layer_00.q", []int{16, 4, 8}, 16, 16, 32, 16, false, 1},
		{"heads in a batch", "layer_00.q", []int{2, 8, 4, 8}, 8, 16, 32, 16, false, 2},
		{"heads first, known by the prompt's length", "layer_00.q_rope", []int{4, 16, 8}, 16, 64, 8, 16, true, 1},
		{"the same with a batch axis of one", "layer_00.q_rope", []int{1, 4, 16, 8}, 16, 64, 8, 16, true, 1},
		{"heads first cannot be known without a prompt", "layer_00.q_rope", []int{4, 16, 8}, 0, 4, 128, 4, false, 1},
		{"probabilities: heads of a token belong together", "layer_00.attn_probs", []int{4, 16, 16}, 16, 64, 16, 16, true, 1},
		{"probabilities over a longer cache", "layer_00.attn_probs", []int{4, 1, 20}, 20, 4, 20, 1, true, 1},
		{"an MLP has no heads", "layer_00.mlp_act", []int{2, 8, 64}, 8, 16, 64, 16, false, 2},
		{"no tokens", "layer_00", []int{0, 64}, 0, 0, 64, 0, false, 1},
		{"no dims", "layer_00", []int{16, 0}, 16, 16, 0, 16, false, 1},
	} {
		g := geometryOf(dump.Canonical(c.name), c.shape, c.tokens)
		if g.Rows != c.rows || g.Cols != c.cols || g.Tokens != c.tok || g.Grouped != c.grouped || g.Batch != c.batch {
			t.Errorf("%s: %s %v: %+v, want rows %d, cols %d, tokens %d, grouped %t, batch %d", c.reason, c.name, c.shape, g, c.rows, c.cols, c.tok, c.grouped, c.batch)
		}
	}
}

func TestTokensOfRows(t *testing.T) {
	batch := geometryOf(dump.Canonical("layer_00"), []int{2, 8, 4}, 8)
	if tok, b := batch.token(11); tok != 3 || b == nil || *b != 1 {
		t.Errorf("row 11 of [2, 8, 4] is token %d of batch %v, want 3 of 1", tok, b)
	}
	heads := geometryOf(dump.Canonical("layer_00.attn_probs"), []int{4, 16, 16}, 16)
	if tok, b := heads.token(35); tok != 3 || b != nil {
		t.Errorf("row 35 of [4, 16, 16] is token %d of batch %v, want 3 and no batch", tok, b)
	}
	if got := heads.index(4*16*16 - 1); !reflect.DeepEqual(got, []int{3, 15, 15}) {
		t.Errorf("the last element is at %v", got)
	}
	if got := heads.index(-1); got != nil {
		t.Errorf("nowhere is at %v", got)
	}
}
