package kernel

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// file is a tensor on disk, read as npy.Array reads one.
type file struct {
	*os.File
	size int64
}

func (f file) ReadElements(dst []byte, first, n int64) error {
	_, err := f.ReadAt(dst[:n*f.size], first*f.size)
	return err
}

// pairOnDisk writes two normal tensors, the second a slightly changed copy.
func pairOnDisk(b *testing.B, ref, port Type, rows, cols int) Pair {
	b.Helper()
	open := func(name string, t Type, noise float64) Operand {
		rng := rand.New(rand.NewPCG(1, 2))
		v := make([]float64, cols)
		path := filepath.Join(b.TempDir(), name)
		f, err := os.Create(path)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { f.Close() })
		for r := range rows {
			if r < 64 {
				for i := range v {
					v[i] = rng.NormFloat64() * (1 + noise*rng.Float64())
				}
			}
			if _, err := f.Write(encode(t, v)); err != nil {
				b.Fatal(err)
			}
		}
		return Operand{Src: file{f, int64(t.Size())}, Type: t}
	}
	return Pair{Ref: open("ref", ref, 0), Port: open("port", port, 1e-3), Rows: rows, Cols: cols}
}

// BenchmarkPair is one hot [8192, 4096] pair from the page cache to its sums.
func BenchmarkPair(b *testing.B) {
	for _, types := range [][2]Type{{F32, F32}, {F16, F16}, {BF16, BF16}, {F32, BF16}, {F64, F64}} {
		p := pairOnDisk(b, types[0], types[1], 8192, 4096)
		for _, lp := range implementations() {
			for _, workers := range []int{1, 2} {
				b.Run(fmt.Sprintf("%v-%v/%s/workers=%d", types[0], types[1], lp.name, workers), func(b *testing.B) {
					b.SetBytes(int64(p.Rows) * int64(p.Cols) * int64(types[0].Size()+types[1].Size()))
					for b.Loop() {
						if _, errs := runAll(context.Background(), []Pair{p}, Options{Workers: workers}, with(lp)); errs[0] != nil {
							b.Fatal(errs[0])
						}
					}
				})
			}
		}
	}
}

// BenchmarkCeiling reads the same bytes the same way and only folds them with
// exclusive or: what no comparison can beat.
func BenchmarkCeiling(b *testing.B) {
	p := pairOnDisk(b, F32, F32, 8192, 4096)
	for _, workers := range []int{1, 2} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			b.SetBytes(int64(p.Rows) * int64(p.Cols) * 8)
			for b.Loop() {
				xorPair(b, p, workers)
			}
		})
	}
}

func xorPair(b *testing.B, p Pair, workers int) {
	total := int64(p.Rows) * int64(p.Cols) * 4
	const step = 512 << 10
	var next = make(chan int64, total/step+1)
	for at := int64(0); at < total; at += step {
		next <- at
	}
	close(next)
	parallel(workers, func() {
		buf := make([]float64, step/8)
		var x uint64
		for at := range next {
			for _, o := range []Operand{p.Ref, p.Port} {
				raw := bytesOf(buf)[:min(step, total-at)]
				if err := o.Src.ReadElements(raw, at/4, int64(len(raw)/4)); err != nil {
					b.Error(err)
				}
				x ^= xorBytes(raw)
			}
		}
		sink.Store(x)
	})
}

func xorBytes(p []byte) uint64 {
	var x0, x1, x2, x3, x4, x5, x6, x7 uint64
	for len(p) >= 64 {
		q := p[:64:64]
		x0 ^= binary.LittleEndian.Uint64(q)
		x1 ^= binary.LittleEndian.Uint64(q[8:])
		x2 ^= binary.LittleEndian.Uint64(q[16:])
		x3 ^= binary.LittleEndian.Uint64(q[24:])
		x4 ^= binary.LittleEndian.Uint64(q[32:])
		x5 ^= binary.LittleEndian.Uint64(q[40:])
		x6 ^= binary.LittleEndian.Uint64(q[48:])
		x7 ^= binary.LittleEndian.Uint64(q[56:])
		p = p[64:]
	}
	return x0 ^ x1 ^ x2 ^ x3 ^ x4 ^ x5 ^ x6 ^ x7
}

// BenchmarkLoops is each inner loop on rows that are in cache.
func BenchmarkLoops(b *testing.B) {
	const n = 4096
	rng := rand.New(rand.NewPCG(3, 4))
	x32, y32 := make([]float32, tileRows*n), make([]float32, tileRows*n)
	x64, y64 := make([]float64, tileRows*n), make([]float64, tileRows*n)
	for i := range x32 {
		x64[i] = rng.NormFloat64()
		y64[i] = x64[i] + 1e-3*rng.NormFloat64()
		x32[i], y32[i] = float32(x64[i]), float32(y64[i])
	}
	raw, wide := make([]byte, 2*n), make([]float32, n)
	l := make([]lanes, tileRows)
	p32, p64 := make([]float32, tileRows), make([]float64, tileRows)
	var inc incLanes
	blk := (&blockPool{}).get(n)
	other := (&blockPool{}).get(n)
	for _, lp := range implementations() {
		for _, c := range []struct {
			name  string
			bytes int
			run   func()
		}{
			{"tile32", tileRows * 8 * n, func() { eachChunk(n, func(from, to int) { lp.tile32(l, &blk.columns, x32, y32, from, to) }) }},
			{"tile64", tileRows * 16 * n, func() { eachChunk(n, func(from, to int) { lp.tile64(l, &blk.columns, x64, y64, from, to) }) }},
			{"peak32", tileRows * 4 * n, func() { eachChunk(n, func(from, to int) { lp.peak32(p32, x32, n, from, to) }) }},
			{"peak64", tileRows * 8 * n, func() { eachChunk(n, func(from, to int) { lp.peak64(p64, x64, n, from, to) }) }},
			{"inc32", 16 * n, func() { lp.inc32(&inc, x32[:n], y32[:n], x32[n:2*n], y32[n:2*n]) }},
			{"inc64", 32 * n, func() { lp.inc64(&inc, x64[:n], y64[:n], x64[n:2*n], y64[n:2*n]) }},
			{"f16", 2 * n, func() { lp.f16(wide, raw) }},
			{"bf16", 2 * n, func() { lp.bf16(wide, raw) }},
			{"narrow", 4 * n, func() { lp.narrow(wide) }},
			{"add", 6 * 8 * n, func() { lp.add(blk.store[:3*n], other.store[:3*n]) }},
		} {
			b.Run(c.name+"/"+lp.name, func(b *testing.B) {
				b.SetBytes(int64(c.bytes))
				for b.Loop() {
					c.run()
				}
			})
		}
	}
}
