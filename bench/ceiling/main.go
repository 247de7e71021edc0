// Command ceiling reads pairs of files as parity does, by pread into a small buffer,
// and folds their bytes with exclusive or: the time that no comparison of these files
// on this machine can beat by reading them. Usage:
//
//	ceiling [-workers N] REF PORT
//
// REF and PORT are folders; every file of REF is read beside its namesake in PORT.
package main

import (
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
)

const block = 512 << 10

// piece is one block of a file and of its namesake.
type piece struct {
	ref, port string
	at        int64
}

// pair is what a worker has open: few descriptors, since Linux makes a process
// with threads wait for a larger table of them.
type pair struct {
	name  string
	sides [2]*os.File
}

// open keeps the pair of p, or changes to it.
func (o *pair) open(p piece) error {
	if o.name == p.ref {
		return nil
	}
	o.close()
	for i, path := range []string{p.ref, p.port} {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		o.sides[i] = f
	}
	o.name = p.ref
	return nil
}

func (o *pair) close() {
	for i, f := range o.sides {
		if f != nil {
			f.Close()
		}
		o.sides[i] = nil
	}
	o.name = ""
}

func main() {
	workers := flag.Int("workers", runtime.GOMAXPROCS(0), "goroutines that read")
	flag.Parse()
	if err := run(flag.Args(), *workers); err != nil {
		fmt.Fprintln(os.Stderr, "ceiling:", err)
		os.Exit(2)
	}
}

func run(folders []string, workers int) error {
	if len(folders) != 2 {
		return fmt.Errorf("want two folders, have %d", len(folders))
	}
	pieces, err := list(folders[0], folders[1])
	if err != nil {
		return err
	}
	var next atomic.Int64
	var total atomic.Uint64
	var wg sync.WaitGroup
	errs := make([]error, workers)
	for w := range workers {
		wg.Go(func() {
			x, err := fold(pieces, &next)
			total.Add(x)
			errs[w] = err
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	fmt.Printf("%016x\n", total.Load())
	return nil
}

// fold reads the pieces that are next until none is left.
func fold(pieces []piece, next *atomic.Int64) (x uint64, err error) {
	buf := make([]byte, block)
	var open pair
	defer open.close()
	for {
		i := int(next.Add(1)) - 1
		if i >= len(pieces) {
			return x, nil
		}
		if err := open.open(pieces[i]); err != nil {
			return x, err
		}
		for _, f := range open.sides {
			n, err := f.ReadAt(buf, pieces[i].at)
			if err != nil && err != io.EOF {
				return x, err
			}
			x ^= xor(buf[:n])
		}
	}
}

// list cuts each file and its namesake into blocks.
func list(ref, port string) ([]piece, error) {
	entries, err := os.ReadDir(ref)
	if err != nil {
		return nil, err
	}
	var pieces []piece
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			return nil, err
		}
		for at := int64(0); at < info.Size(); at += block {
			pieces = append(pieces, piece{filepath.Join(ref, e.Name()), filepath.Join(port, e.Name()), at})
		}
	}
	return pieces, nil
}

// xor folds p; eight words at a time keep the loads going.
func xor(p []byte) uint64 {
	var x [8]uint64
	for len(p) >= 64 {
		q := p[:64:64]
		x[0] ^= binary.LittleEndian.Uint64(q)
		x[1] ^= binary.LittleEndian.Uint64(q[8:])
		x[2] ^= binary.LittleEndian.Uint64(q[16:])
		x[3] ^= binary.LittleEndian.Uint64(q[24:])
		x[4] ^= binary.LittleEndian.Uint64(q[32:])
		x[5] ^= binary.LittleEndian.Uint64(q[40:])
		x[6] ^= binary.LittleEndian.Uint64(q[48:])
		x[7] ^= binary.LittleEndian.Uint64(q[56:])
		p = p[64:]
	}
	var r uint64
	for _, v := range x {
		r ^= v
	}
	for _, b := range p {
		r ^= uint64(b)
	}
	return r
}
