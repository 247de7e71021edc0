package diagnose

import (
	"slices"
	"testing"
)

func TestZigzagJoinsFirstAndLastChunks(t *testing.T) {
	// Two ranks, 8 tokens: rank 0 has chunks 0 and 3, rank 1 chunks 1 and 2.
	if got, want := zigzag(8, 2), []int{0, 1, 6, 7, 2, 3, 4, 5}; !slices.Equal(got, want) {
		t.Errorf("zigzag(8, 2) = %v, want %v", got, want)
	}
	if zigzag(10, 2) != nil {
		t.Error("10 tokens have no four equal chunks")
	}
}

func TestFusedOrderJoinsShardsInRankOrder(t *testing.T) {
	// q of 4, k and v of 2 dims over two ranks: [q0 q1 k0 v0 | q2 q3 k1 v1].
	if got, want := fusedOrder([]int{4, 2, 2}, 2), []int{0, 1, 4, 6, 2, 3, 5, 7}; !slices.Equal(got, want) {
		t.Errorf("fusedOrder = %v, want %v", got, want)
	}
	if fusedOrder([]int{4, 3}, 2) != nil {
		t.Error("3 dims were cut in two")
	}
}

func TestCompressedFindsBlocksAndRepetition(t *testing.T) {
	for _, c := range []struct {
		reason string
		perm   []int
		order  []int
		block  int
	}{
		{"halves exchanged", []int{4, 5, 6, 7, 0, 1, 2, 3}, []int{1, 0}, 4},
		{"pairs exchanged, over and over", []int{1, 0, 3, 2, 5, 4, 7, 6}, []int{1, 0}, 1},
		{"blocks of two, repeated once", []int{2, 3, 0, 1, 6, 7, 4, 5}, []int{1, 0}, 2},
		{"no structure", []int{2, 0, 3, 1}, []int{2, 0, 3, 1}, 1},
	} {
		order, block := compressed(c.perm)
		if !slices.Equal(order, c.order) || block != c.block {
			t.Errorf("%s: %v in blocks of %d, want %v of %d", c.reason, order, block, c.order, c.block)
		}
	}
}

func TestMatchItemsFindsAnyPermutation(t *testing.T) {
	x := gaussians(9, 6, 40, func(int) float64 { return 1 })
	perm := permOf(40, func(i int) int { return (i*7 + 3) % 40 })
	got, ok := matchItems(x, x.takeCols(perm), false)
	if !ok || !slices.Equal(got, perm) {
		t.Errorf("columns: %v, want %v", got, perm)
	}
	rows := []int{3, 1, 5, 0, 2, 4}
	got, ok = matchItems(x, x.takeRows(rows), true)
	if !ok || !slices.Equal(got, rows) {
		t.Errorf("rows: %v, want %v", got, rows)
	}
}

func TestMatchItemsTellsEqualRowsApartByAssignment(t *testing.T) {
	x := gaussians(9, 6, 40, func(int) float64 { return 1 })
	copy(x.Row(4), x.Row(1)) // the same token twice
	rows := []int{1, 0, 4, 2, 3, 5}
	got, ok := matchItems(x, x.takeRows(rows), true)
	if !ok {
		t.Fatal("no bijection")
	}
	sorted := slices.Sorted(slices.Values(got))
	if !slices.Equal(sorted, []int{0, 1, 2, 3, 4, 5}) {
		t.Errorf("%v is no permutation", got)
	}
	for i, r := range got {
		if !slices.Equal(x.Row(r), x.Row(rows[i])) {
			t.Errorf("row %d was matched with %d", i, r)
		}
	}
}

func TestPermuteCallUsesTheNamesOfOrders(t *testing.T) {
	p := permOf(32, func(i int) int { return i/16*16 + namedOrder("interleaved_to_half", 16)[i%16] })
	if got, want := permuteCall(p, []int{16}), "permute(interleaved_to_half, block=16)"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := permuteCall([]int{1, 0, 3, 2}, nil), "permute([1, 0], block=1)"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
