package dumptest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// Net is a small network with a residual stream, computed in float64: each
// layer adds 1.5·tanh(norm(h)·W). It has no attention, so tokens do not see each
// other; what it is for is that an error at one layer goes on to the next.
type Net struct {
	IDs    *Array
	Embed  *Array
	Weight []*Array // [D, D] a layer
	Gain   []float64
	Head   *Array // [D, V]
	// Fault changes what layer l adds; nil changes nothing. h is the stream
	// before it, add the increment.
	Fault func(l int, h, add *Array)
	// Stream changes the stream after layer l, in the model, not in its dump.
	Stream func(l int, h *Array)
}

// NewNet makes a network of n layers on a prompt of random ids.
func NewNet(seed uint64, n, tokens, dims int) *Net {
	rng := rand.New(rand.NewPCG(seed, 2))
	net := &Net{Embed: Rand(rng, tokens, dims), Head: Rand(rng, dims, 2*dims), Gain: Rand(rng, dims).Data, IDs: Ints()}
	for range n {
		w := Rand(rng, dims, dims)
		for i := range w.Data {
			w.Data[i] /= math.Sqrt(float64(dims))
		}
		net.Weight = append(net.Weight, w)
	}
	for range tokens {
		net.IDs.Data = append(net.IDs.Data, float64(rng.Uint32()%1000+100))
	}
	net.IDs.Shape[0] = tokens
	return net
}

// Model is the dump of a network without a fault.
func Model(seed uint64, n, tokens, dims int) Dump { return NewNet(seed, n, tokens, dims).Run() }

// Run computes a dump with all required checkpoints.
func (n *Net) Run() Dump {
	h := n.Embed.Clone()
	d := Dump{"prompt_tokens": n.IDs.Clone(), "post_embed": rounded(h)}
	for l, w := range n.Weight {
		add := matmul(normed(h, nil), w).Map(func(v float64) float64 { return 1.5 * math.Tanh(v) })
		if n.Fault != nil {
			n.Fault(l, h, add)
		}
		h = h.Clone()
		for i, v := range add.Data {
			h.Data[i] += v
		}
		if n.Stream != nil {
			n.Stream(l, h)
		}
		d[fmt.Sprintf("layer_%02d", l)] = rounded(h)
	}
	last := normed(h, n.Gain)
	d["post_final_norm"], d["logits"] = rounded(last), rounded(matmul(last, n.Head))
	return d
}

// At makes a fault of one layer.
func At(layer int, f func(v float64) float64) func(int, *Array, *Array) {
	return func(l int, _, add *Array) {
		if l != layer {
			return
		}
		for i, v := range add.Data {
			add.Data[i] = f(v)
		}
	}
}

// rounded copies an array as float32 holds it.
func rounded(a *Array) *Array { return a.Map(func(v float64) float64 { return float64(float32(v)) }) }

// normed divides each row by its root mean square, times a gain.
func normed(a *Array, gain []float64) *Array {
	b := a.Clone()
	for t := range b.Shape[0] {
		row, sq := b.Row(t), 0.0
		for _, v := range row {
			sq += v * v
		}
		rms := math.Sqrt(sq / float64(len(row)))
		for i := range row {
			row[i] /= rms
			if gain != nil {
				row[i] *= gain[i]
			}
		}
	}
	return b
}

// matmul multiplies [T, D] by [D, E].
func matmul(x, w *Array) *Array {
	rows, cols := x.Shape[0], w.Shape[1]
	out := &Array{Shape: []int{rows, cols}, Data: make([]float64, rows*cols), DType: x.DType}
	for t := range rows {
		row := out.Row(t)
		for i, v := range x.Row(t) {
			for j, u := range w.Data[i*cols : (i+1)*cols] {
				row[j] += v * u
			}
		}
	}
	return out
}

// With returns a copy of the dump with one tensor replaced, or left out where it
// is nil.
func (d Dump) With(name string, a *Array) Dump {
	out := d.Clone()
	if a == nil {
		delete(out, name)
	} else {
		out[name] = a
	}
	return out
}

// Named returns the dump under other names.
func (d Dump) Named(f func(string) string) Dump {
	out := make(Dump, len(d))
	for n, a := range d {
		out[f(n)] = a
	}
	return out
}

// LayerNames lists the dump's layer outputs in order.
func (d Dump) LayerNames() []string {
	var names []string
	for n := range d {
		if len(n) == len("layer_00") && n[:6] == "layer_" {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	return names
}
