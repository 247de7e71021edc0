package npy

import (
	"bytes"
	"runtime"
	"testing"
)

// TestFortranArraysOfAllSizes takes every path of the transposition: arrays of
// several slabs, rows longer than a slab, columns near and far apart.
func TestFortranArraysOfAllSizes(t *testing.T) {
	for _, c := range []struct {
		shape  []int
		size   int
		reason string
	}{
		{[]int{7}, 4, "one axis: both orders are the same"},
		{[]int{1, 9, 1}, 2, "axes of 1 make no order"},
		{[]int{2, 3}, 8, "the least that differs"},
		{[]int{5, 1, 4, 3}, 1, "an axis of 1 in between"},
		{[]int{2, 3, 2, 3, 2}, 2, "five axes"},
		{[]int{70, 150, 67}, 4, "2.8 MB, more than a slab"},
		{[]int{2, 600_000}, 4, "a row longer than a slab"},
		{[]int{2, 500, 1200}, 4, "a row of two axes longer than a slab"},
		{[]int{600_000, 2}, 4, "columns longer than a slab"},
		{[]int{1100, 500}, 8, "columns further apart than what is read ahead"},
	} {
		n := c.size
		for _, d := range c.shape {
			n *= d
		}
		elements := make([]byte, n)
		for i := range n / c.size {
			for k := range c.size {
				elements[i*c.size+k] = byte(uint32(i)*2654435761>>(8*k)) ^ byte(i>>16)
			}
		}
		for _, big := range []bool{false, true} {
			descr := map[int]string{1: "u1", 2: "u2", 4: "u4", 8: "u8"}[c.size]
			file := fileOf(layout{descr: descr, size: c.size, big: big, fortran: true, major: 1}, c.shape, elements)
			a := mustNew(t, file)
			all := make([]byte, n)
			if err := a.ReadElements(all, 0, int64(n/c.size)); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(all, elements) {
				t.Errorf("%v, all at once (%s): wrong", c.shape, c.reason)
			}
			// Steps of a prime that divides nothing, so ranges cross rows and slabs.
			step := int64(49_999)
			clear(all)
			for first := int64(0); first < int64(n/c.size); first += step {
				k := min(step, int64(n/c.size)-first)
				if err := a.ReadElements(all[first*int64(c.size):], first, k); err != nil {
					t.Fatal(err)
				}
			}
			if !bytes.Equal(all, elements) {
				t.Errorf("%v, in steps (%s): wrong", c.shape, c.reason)
			}
		}
	}
}

// TestFortranMemoryIsBounded reads 32 MB by rows.
func TestFortranMemoryIsBounded(t *testing.T) {
	const rows, dims = 2048, 4096
	file := withHeader("{'descr': '<f4', 'fortran_order': True, 'shape': (2048, 4096)}", make([]byte, 4*rows*dims))
	a := mustNew(t, file)
	row := make([]byte, 4*dims)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for r := range int64(rows) {
		if err := a.ReadElements(row, r*dims, dims); err != nil {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	if spent := after.TotalAlloc - before.TotalAlloc; spent > 4<<20 {
		t.Errorf("%d bytes allocated, more than a slab and a window", spent)
	}
}
