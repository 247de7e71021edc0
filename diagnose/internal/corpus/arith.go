package corpus

import (
	"math"
	"math/rand/v2"
)

// Arith is how one side computes: how wide sums are kept and to what the
// output of each operation is rounded.
type Arith struct {
	// DType is the logical dtype of every floating checkpoint.
	DType string
	// wide sums in float64; else in float32, in blocks of 16.
	wide  bool
	round func(float64) float32
	// noise is the relative size of a Gaussian error on every linear's output:
	// what kernels chosen for another batch size do.
	noise float64
	rng   *rand.Rand
}

// The arithmetic of the reference and of the honest ports.
var (
	arithRef  = Arith{DType: "float32", wide: true, round: roundF32}
	arithF32  = Arith{DType: "float32", round: roundF32}
	arithBF16 = Arith{DType: "bfloat16", round: roundBF16}
	arithF16  = Arith{DType: "float16", round: roundF16}
)

// withNoise returns the arithmetic with a relative error on every linear.
func (a Arith) withNoise(rel float64, seed uint64) Arith {
	a.noise, a.rng = rel, stream(seed, "noise")
	return a
}

// Mat is a row-major matrix; rows are tokens.
type Mat struct {
	Rows, Cols int
	Data       []float32
}

func newMat(rows, cols int) *Mat { return &Mat{rows, cols, make([]float32, rows*cols)} }

// Row returns row i as a view.
func (m *Mat) Row(i int) []float32 { return m.Data[i*m.Cols : (i+1)*m.Cols] }

// concat puts matrices of equal height side by side.
func concat(parts ...*Mat) *Mat {
	cols := 0
	for _, p := range parts {
		cols += p.Cols
	}
	out := newMat(parts[0].Rows, cols)
	for t := range out.Rows {
		row := out.Row(t)
		for _, p := range parts {
			row = row[copy(row, p.Row(t)):]
		}
	}
	return out
}

// permuteMat returns the matrix whose column i is column order[i].
func permuteMat(m *Mat, order []int) *Mat {
	out := newMat(m.Rows, len(order))
	for t := range m.Rows {
		for i, c := range order {
			out.Row(t)[i] = m.Row(t)[c]
		}
	}
	return out
}

func (m *Mat) clone() *Mat {
	return &Mat{m.Rows, m.Cols, append([]float32(nil), m.Data...)}
}

// dot returns the inner product in the side's sums.
func (a Arith) dot(x, y []float32) float64 {
	if a.wide {
		var s float64
		for i, v := range x {
			s += float64(float64(v) * float64(y[i]))
		}
		return s
	}
	var total float32
	for len(x) > 0 {
		n := min(16, len(x))
		var s float32
		for i, v := range x[:n] {
			s += float32(v * y[i])
		}
		total += s
		x, y = x[n:], y[n:]
	}
	return float64(total)
}

// linear returns x W^T + b, rounded.
func (a Arith) linear(x *Mat, w Linear) *Mat {
	out := newMat(x.Rows, w.Out)
	for t := 0; t < x.Rows; t += 4 {
		if t+4 <= x.Rows {
			a.linear4(x, w, out, t)
			continue
		}
		for ; t < x.Rows; t++ {
			row := out.Row(t)
			for o := range row {
				row[o] = a.finish(a.dot(x.Row(t), w.row(o)), w, o)
			}
		}
	}
	if a.noise > 0 {
		a.disturb(out)
	}
	return out
}

// linear4 is linear for four tokens at once: each weight is loaded once. The
// order of each sum is dot's.
func (a Arith) linear4(x *Mat, w Linear, out *Mat, t int) {
	x0, x1, x2, x3 := x.Row(t), x.Row(t+1), x.Row(t+2), x.Row(t+3)
	o0, o1, o2, o3 := out.Row(t), out.Row(t+1), out.Row(t+2), out.Row(t+3)
	sums := dots4
	if a.wide {
		sums = wideDots4
	}
	for o := range w.Out {
		d0, d1, d2, d3 := sums(w.row(o), x0, x1, x2, x3)
		o0[o], o1[o] = a.finish(d0, w, o), a.finish(d1, w, o)
		o2[o], o3[o] = a.finish(d2, w, o), a.finish(d3, w, o)
	}
}

// wideDots4 sums in float64.
func wideDots4(w, x0, x1, x2, x3 []float32) (d0, d1, d2, d3 float64) {
	// The lengths are equal: this tells the compiler.
	x0, x1, x2, x3 = x0[:len(w)], x1[:len(w)], x2[:len(w)], x3[:len(w)]
	for i, v := range w {
		f := float64(v)
		d0 += float64(f * float64(x0[i]))
		d1 += float64(f * float64(x1[i]))
		d2 += float64(f * float64(x2[i]))
		d3 += float64(f * float64(x3[i]))
	}
	return d0, d1, d2, d3
}

// dots4 sums in float32, in blocks of 16.
func dots4(w, x0, x1, x2, x3 []float32) (d0, d1, d2, d3 float64) {
	var t0, t1, t2, t3 float32
	for len(w) > 0 {
		n := min(16, len(w))
		var s0, s1, s2, s3 float32
		y0, y1, y2, y3 := x0[:n], x1[:n], x2[:n], x3[:n]
		for i, v := range w[:n] {
			s0 += float32(v * y0[i])
			s1 += float32(v * y1[i])
			s2 += float32(v * y2[i])
			s3 += float32(v * y3[i])
		}
		t0, t1, t2, t3 = t0+s0, t1+s1, t2+s2, t3+s3
		w, x0, x1, x2, x3 = w[n:], x0[n:], x1[n:], x2[n:], x3[n:]
	}
	return float64(t0), float64(t1), float64(t2), float64(t3)
}

func (a Arith) finish(sum float64, w Linear, o int) float32 {
	if w.B != nil {
		sum += float64(w.B[o])
	}
	return a.round(sum)
}

func (a Arith) disturb(m *Mat) {
	for t := range m.Rows {
		row := m.Row(t)
		rms := math.Sqrt(meanSquare(row))
		for i, v := range row {
			row[i] = a.round(float64(v) + a.noise*rms*a.rng.NormFloat64())
		}
	}
}

// each applies f to every value and rounds.
func (a Arith) each(x *Mat, f func(float64) float64) *Mat {
	out := newMat(x.Rows, x.Cols)
	for i, v := range x.Data {
		out.Data[i] = a.round(f(float64(v)))
	}
	return out
}

// add returns x + c*y, rounded once.
func (a Arith) add(x, y *Mat, c float64) *Mat {
	out := newMat(x.Rows, x.Cols)
	for i, v := range x.Data {
		out.Data[i] = a.round(float64(v) + c*float64(y.Data[i]))
	}
	return out
}

// mul returns x*y by element, rounded.
func (a Arith) mul(x, y *Mat) *Mat {
	out := newMat(x.Rows, x.Cols)
	for i, v := range x.Data {
		out.Data[i] = a.round(float64(v) * float64(y.Data[i]))
	}
	return out
}

func meanSquare(x []float32) float64 {
	var s float64
	for _, v := range x {
		s += float64(v) * float64(v)
	}
	return s / float64(len(x))
}
