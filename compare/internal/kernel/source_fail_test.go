package kernel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// broken is a source that fails from an element on.
type broken struct {
	memory
	from int64
}

type brokenError struct{ at int64 }

func (e *brokenError) Error() string {
	return fmt.Sprintf("reading broken.npy: offset %d: no more", e.at)
}

func (b broken) ReadElements(dst []byte, first, n int64) error {
	if first+n > b.from {
		return &brokenError{max(first, b.from)}
	}
	return b.memory.ReadElements(dst, first, n)
}

func brokenPair(from int64) Pair {
	v := make([]float64, 200*3000)
	p := Pair{Ref: operand(F32, v), Port: operand(F32, v), Rows: 200, Cols: 3000}
	p.Port.Src = broken{p.Port.Src.(memory), from}
	return p
}

func TestAReadThatFailsIsTheErrorOfItsPair(t *testing.T) {
	for _, from := range []int64{0, 1, 2999, 300000, 599999} {
		for workers := 1; workers <= 4; workers++ {
			s, err := Run(context.Background(), brokenPair(from), Options{Workers: workers})
			var e *brokenError
			if s != nil || !errors.As(err, &e) {
				t.Errorf("failing at %d: sums %v, error %v", from, s, err)
			}
		}
	}
	if s, err := Run(context.Background(), brokenPair(600000), Options{}); err != nil || s.Whole.N != 600000 {
		t.Errorf("failing past the end: %v, %v", s, err)
	}
}

func TestAPairThatFailsLeavesTheOthersAlone(t *testing.T) {
	good := Pair{Ref: operand(F32, []float64{1, 2}), Port: operand(F32, []float64{1, 2}), Rows: 1, Cols: 2}
	odd := good
	odd.Rows = -1
	pairs := []Pair{good, brokenPair(10), good, odd, brokenPair(600000), {Ref: good.Ref, Port: good.Port}, good}
	for workers := 1; workers <= 5; workers++ {
		sums, errs := RunAll(context.Background(), pairs, Options{Workers: workers})
		for i := range pairs {
			fails := i == 1 || i == 3
			if (errs[i] != nil) != fails || (sums[i] == nil) != fails {
				t.Errorf("%d workers: pair %d: sums %v, error %v", workers, i, sums[i], errs[i])
			}
		}
		if sums[5].Whole.N != 0 || sums[5].Whole.MaxAt != -1 || sums[6].Whole.A2 != 5 {
			t.Errorf("%d workers: empty %+v, last %+v", workers, sums[5].Whole, sums[6].Whole)
		}
	}
}

// TestAFileThatShrinksWhileItIsRead truncates the port's file after the first read.
func TestAFileThatShrinksWhileItIsRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "port")
	const rows, cols = 2000, 1000
	if err := os.WriteFile(path, make([]byte, 4*rows*cols), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p := Pair{Ref: Operand{Src: file{f, 4}, Type: F32}, Port: Operand{Src: file{f, 4}, Type: F32}, Rows: rows, Cols: cols}
	var once atomic.Bool
	_, err = Run(context.Background(), p, Options{Workers: 2, Progress: func(int64) {
		if once.CompareAndSwap(false, true) {
			if err := os.Truncate(path, 4*rows*cols/2+3); err != nil {
				t.Error(err)
			}
		}
	}})
	if !errors.Is(err, io.EOF) {
		t.Errorf("the error is %v, want that of the read", err)
	}
}

func TestCancellationStops(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	var reads atomic.Int64
	_, err := Run(ctx, brokenPair(600000), Options{Workers: 2, Progress: func(int64) {
		reads.Add(1)
		cancel()
	}})
	if !errors.Is(err, context.Canceled) || reads.Load() > 2 {
		t.Errorf("error %v after %d reads", err, reads.Load())
	}
	small := Pair{Ref: operand(F32, []float64{1}), Port: operand(F32, []float64{1}), Rows: 1, Cols: 1}
	_, errs := RunAll(ctx, []Pair{small, small}, Options{})
	for i, err := range errs {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("pair %d after cancellation: %v", i, err)
		}
	}
	if _, err := RunIncrements(ctx, IncPair{small.Ref, small.Ref, small.Port, small.Port, 1, 1}, Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("increments after cancellation: %v", err)
	}
}

func TestPairsThatMakeNoSenseAreRefused(t *testing.T) {
	good := Pair{Ref: operand(F32, []float64{1}), Port: operand(F32, []float64{1}), Rows: 1, Cols: 1}
	for want, change := range map[string]func(*Pair){
		"shape [-1, 1] is negative":            func(p *Pair) { p.Rows = -1 },
		"holds too many elements":              func(p *Pair) { p.Rows, p.Cols = 1<<40, 1<<40 },
		"ref has unknown element type 9":       func(p *Pair) { p.Ref.Type = 9 },
		"port has no source":                   func(p *Pair) { p.Port.Src = nil },
		"port is f8 without a table of values": func(p *Pair) { p.Port.Type, p.Port.Table = F8, nil },
		"ref begins at element -2":             func(p *Pair) { p.Ref.First = -2 },
	} {
		p := good
		change(&p)
		if _, err := Run(context.Background(), p, Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

func TestProgressCountsEveryByteOnce(t *testing.T) {
	for _, workers := range []int{1, 3} {
		var n atomic.Int64
		p := brokenPair(600000)
		if _, err := Run(context.Background(), p, Options{Workers: workers, Progress: func(b int64) { n.Add(b) }}); err != nil {
			t.Fatal(err)
		}
		if n.Load() != 2*4*600000 {
			t.Errorf("%d workers: %d bytes", workers, n.Load())
		}
	}
}
