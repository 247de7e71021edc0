package npy

import "sync"

const (
	slabBytes   = 2 << 20  // elements of a Fortran-order array kept in C order
	windowBytes = 64 << 10 // of the file, read at once
	farBytes    = 4 << 10  // runs further apart than this are read one by one
)

// slab keeps the elements of a Fortran-order array that were transposed last.
type slab struct {
	mu          sync.Mutex
	buf, window []byte
	first, n    int64 // the elements in buf, in C order
}

func (s *slab) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buf, s.window, s.n = nil, nil, 0
}

// transposes reports whether the two orders differ: not so where at most one
// axis is longer than 1.
func transposes(shape []int) bool {
	long := 0
	for _, d := range shape {
		if d > 1 {
			long++
		}
	}
	return long > 1
}

// readFortran is ReadElements for files in Fortran order.
func (a *Array) readFortran(dst []byte, first, n int64) error {
	s := &a.src.slab
	s.mu.Lock()
	defer s.mu.Unlock()
	size := int64(a.h.DType.Size())
	for n > 0 {
		if first < s.first || first >= s.first+s.n {
			if n*size >= slabBytes { // as much as a slab: no need to keep it
				return a.transpose(dst, first, n)
			}
			if err := a.fillSlab(first); err != nil {
				return err
			}
		}
		k := min(n, s.first+s.n-first)
		copy(dst[:k*size], s.buf[(first-s.first)*size:])
		dst, first, n = dst[k*size:], first+k, n-k
	}
	return nil
}

// fillSlab transposes the elements from first on, as many as the slab holds.
func (a *Array) fillSlab(first int64) error {
	s, size := &a.src.slab, int64(a.h.DType.Size())
	n := min(slabBytes/size, a.h.Len()-first)
	if int64(len(s.buf)) < n*size {
		s.buf = make([]byte, n*size)
	}
	s.n = 0 // whatever happens below, the old content is gone
	if err := a.transpose(s.buf[:n*size], first, n); err != nil {
		return err
	}
	s.first, s.n = first, n
	return nil
}

// transpose reads elements [first, first+n) of C order into dst.
//
// The file is a sequence of columns, each the elements of one place on the
// axes behind the first. They are visited as they stand in the file; of each,
// the elements that fall into the range form one run.
func (a *Array) transpose(dst []byte, first, n int64) error {
	shape, size := a.h.Shape, int64(a.h.DType.Size())
	rows := int64(shape[0])
	row := a.h.Len() / rows // elements of a row in C order
	stride := make([]int64, len(shape))
	for i, s := len(shape)-1, int64(1); i >= 0; i-- {
		stride[i] = s
		s *= int64(shape[i])
	}
	w := window{a: a, ahead: rows*size < farBytes}
	index := make([]int, len(shape))
	at := int64(0) // the column's place in a row
	for column := int64(0); column < row; column++ {
		// The rows i with first <= i*row + at < first+n; at < row, so none is negative.
		lo := (first - at + row - 1) / row
		hi := min(rows, (first+n-at+row-1)/row)
		if lo < hi {
			run, err := w.read((column*rows+lo)*size, (hi-lo)*size)
			if err != nil {
				return err
			}
			scatter(dst, (lo*row+at-first)*size, row*size, run, size)
		}
		// The next column: the axis behind the first turns fastest.
		for i := 1; i < len(shape); i++ {
			at += stride[i]
			if index[i]++; index[i] < shape[i] {
				break
			}
			at -= stride[i] * int64(shape[i])
			index[i] = 0
		}
	}
	return nil
}

// scatter puts the elements of run into dst, step bytes apart from at on.
func scatter(dst []byte, at, step int64, run []byte, size int64) {
	switch size {
	case 1:
		for ; len(run) > 0; run, at = run[1:], at+step {
			dst[at] = run[0]
		}
	case 2:
		for ; len(run) > 0; run, at = run[2:], at+step {
			le.PutUint16(dst[at:], le.Uint16(run))
		}
	case 4:
		for ; len(run) > 0; run, at = run[4:], at+step {
			le.PutUint32(dst[at:], le.Uint32(run))
		}
	default:
		for ; len(run) > 0; run, at = run[8:], at+step {
			le.PutUint64(dst[at:], le.Uint64(run))
		}
	}
}

// window reads ascending runs of the array's data, little-endian. Where runs
// stand close, it reads ahead.
type window struct {
	a     *Array
	ahead bool
	have  []byte
	at    int64 // byte of the data where have begins
}

// read gives n bytes of the data from byte at on; they are valid until the next call.
func (w *window) read(at, n int64) ([]byte, error) {
	if at < w.at || at+n > w.at+int64(len(w.have)) {
		buf := &w.a.src.slab.window
		want := n
		if w.ahead {
			size := int64(w.a.h.DType.Size())
			want = max(n, min(windowBytes, w.a.h.Len()*size-at))
		}
		if int64(len(*buf)) < want {
			*buf = make([]byte, want)
		}
		w.have, w.at = nil, 0
		if err := w.a.readRun((*buf)[:want], w.a.h.DataOffset+at); err != nil {
			return nil, err
		}
		w.have, w.at = (*buf)[:want], at
	}
	return w.have[at-w.at:][:n], nil
}
