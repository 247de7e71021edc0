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

// piece is one read of one file.
type piece struct {
	file *os.File
	at   int64
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
			buf := make([]byte, block)
			var x uint64
			for {
				i := int(next.Add(1)) - 1
				if i >= len(pieces) {
					break
				}
				n, err := pieces[i].file.ReadAt(buf, pieces[i].at)
				if err != nil && err != io.EOF {
					errs[w] = err
					break
				}
				x ^= xor(buf[:n])
			}
			total.Add(x)
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	fmt.Printf("%016x\n", total.Load())
	return nil
}

// list cuts each file and its namesake into blocks, the two sides in turn.
func list(ref, port string) ([]piece, error) {
	entries, err := os.ReadDir(ref)
	if err != nil {
		return nil, err
	}
	var pieces []piece
	for _, e := range entries {
		a, err := os.Open(filepath.Join(ref, e.Name()))
		if err != nil {
			return nil, err
		}
		b, err := os.Open(filepath.Join(port, e.Name()))
		if err != nil {
			return nil, err
		}
		info, err := a.Stat()
		if err != nil {
			return nil, err
		}
		for at := int64(0); at < info.Size(); at += block {
			pieces = append(pieces, piece{a, at}, piece{b, at})
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
