//go:build unix

package kernel

import (
	"math/rand/v2"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// guarded returns n bytes between two pages that cannot be touched, at the end of
// their page or at its start. A read or write out of bounds kills the test.
func guarded(t *testing.T, n int, atEnd bool) []byte {
	t.Helper()
	page := unix.Getpagesize()
	body := (n + page - 1) / page * page
	m, err := unix.Mmap(-1, 0, body+2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(m) })
	for _, g := range [][]byte{m[:page], m[page+body:]} {
		if err := unix.Mprotect(g, unix.PROT_NONE); err != nil {
			t.Fatal(err)
		}
	}
	if atEnd {
		return m[page+body-n : page+body : page+body]
	}
	return m[page : page+n : page+n]
}

func as[T any](b []byte) []T {
	var zero T
	if len(b) == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&b[0])), len(b)/int(unsafe.Sizeof(zero)))
}

func TestNoLoopTouchesWhatLiesBesideItsVectors(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 1))
	for _, lp := range implementations() {
		for _, atEnd := range []bool{false, true} {
			for _, n := range []int{0, 1, 3, 4, 7, 8, 9, 15, 16, 17, 23, 31, 33, 63, 65, 1021} {
				for rows := 1; rows <= tileRows; rows++ {
					a32, b32 := as[float32](guarded(t, 4*n*rows, atEnd)), as[float32](guarded(t, 4*n*rows, atEnd))
					a64, b64 := as[float64](guarded(t, 8*n*rows, atEnd)), as[float64](guarded(t, 8*n*rows, atEnd))
					for i := range a64 {
						a64[i], b64[i] = rng.NormFloat64(), rng.NormFloat64()
						a32[i], b32[i] = float32(a64[i]), float32(b64[i])
					}
					l := as[lanes](guarded(t, rows*int(unsafe.Sizeof(lanes{})), atEnd))
					c := newColumns(as[float64](guarded(t, 4*8*n, atEnd)), n)
					eachChunk(n, func(from, to int) {
						lp.peak32(as[float32](guarded(t, 4*rows, atEnd)), a32, n, from, to)
						lp.peak64(as[float64](guarded(t, 8*rows, atEnd)), b64, n, from, to)
						lp.tile32(l, &c, a32, b32, from, to)
						lp.tile64(l, &c, a64, b64, from, to)
					})
					inc := &as[incLanes](guarded(t, int(unsafe.Sizeof(incLanes{})), atEnd))[0]
					lp.inc32(inc, a32, b32, b32, a32)
					lp.inc64(inc, a64, b64, b64, a64)
					lp.narrow(a32)
					lp.add(c.a2, c.b2)
					lp.max(c.d2, c.max)
					raw := guarded(t, 2*n*rows, atEnd)
					lp.f16(a32, raw)
					lp.bf16(a32, raw)
				}
			}
		}
	}
}
