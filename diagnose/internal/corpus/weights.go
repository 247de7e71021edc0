package corpus

import (
	"fmt"
	"math"
)

// Linear is a matrix [Out, In] in row-major order with an optional bias.
type Linear struct {
	Out, In int
	W, B    []float32
}

func (w Linear) row(o int) []float32 { return w.W[o*w.In : (o+1)*w.In] }

// rows returns output rows [from, to) as a view.
func (w Linear) rows(from, to int) Linear {
	v := Linear{Out: to - from, In: w.In, W: w.W[from*w.In : to*w.In]}
	if w.B != nil {
		v.B = w.B[from:to]
	}
	return v
}

// cols returns input columns [from, to) as a copy, without the bias.
func (w Linear) cols(from, to int) Linear {
	v := Linear{Out: w.Out, In: to - from, W: make([]float32, 0, w.Out*(to-from))}
	for o := range w.Out {
		v.W = append(v.W, w.row(o)[from:to]...)
	}
	return v
}

// clone copies the values, so that a fault can edit them.
func (w Linear) clone() Linear {
	w.W = append([]float32(nil), w.W...)
	w.B = append([]float32(nil), w.B...)
	if len(w.B) == 0 {
		w.B = nil
	}
	return w
}

// permuteRows returns the matrix whose row i is row perm[i].
func (w Linear) permuteRows(perm []int) Linear {
	v := Linear{Out: w.Out, In: w.In, W: make([]float32, 0, len(w.W))}
	for _, p := range perm {
		v.W = append(v.W, w.row(p)...)
		if w.B != nil {
			v.B = append(v.B, w.B[p])
		}
	}
	return v
}

// transpose returns the matrix read in the other order, [In, Out].
func (w Linear) transpose() Linear {
	v := Linear{Out: w.In, In: w.Out, W: make([]float32, len(w.W)), B: w.B}
	for o := range w.Out {
		for i := range w.In {
			v.W[i*w.Out+o] = w.W[o*w.In+i]
		}
	}
	return v
}

// Expert is one gated MLP.
type Expert struct{ Gate, Up, Down Linear }

// LayerWeights are the tensors of one block.
type LayerWeights struct {
	InputNorm, PostNorm, QNorm, KNorm []float32
	Q, K, V, O                        Linear
	Expert
	Router     Linear
	RouterBias []float32
	Experts    []Expert
	Shared     Expert
	Sink       []float32
	// ConvIn projects the normed input, Conv holds ConvWidth taps per channel,
	// Decay the state's decay per channel.
	ConvIn      Linear
	Conv, Decay []float32
	Mod         Linear // adaLN: time embedding -> scale and shift
}

// ConvWidth is the length of the causal convolution.
const ConvWidth = 4

// Weights are the tensors of a model.
type Weights struct {
	Embed, Head Linear // [Vocab, Dim]
	Time        Linear // [Dim, Dim], after the sinusoids
	FinalNorm   []float32
	Layers      []LayerWeights
}

// clone copies the table of tensors, not their values.
func (w *Weights) clone() *Weights {
	c := *w
	c.Layers = append([]LayerWeights(nil), w.Layers...)
	return &c
}

// newWeights draws the tensors that a Spec needs, rounded to bfloat16.
func newWeights(s Spec) *Weights {
	g := drawer{s}
	w := &Weights{
		Embed:     Linear{Out: s.Vocab, In: s.Dim, W: gaussian(s.Seed, "embed", s.Vocab*s.Dim, 0, s.EmbedStd)},
		Head:      g.linear("head", s.Vocab, s.Dim, false),
		FinalNorm: g.gain("final", s.Dim),
	}
	if s.Tied {
		w.Head = w.Embed
	}
	if s.Frames > 0 {
		w.Time = g.linear("time", s.Dim, s.Dim, false)
	}
	for l := range s.Layers {
		w.Layers = append(w.Layers, g.layer(l, s.Block[l]))
	}
	return w
}

type drawer struct{ s Spec }

func (g drawer) linear(name string, out, in int, bias bool) Linear {
	w := Linear{Out: out, In: in, W: gaussian(g.s.Seed, name, out*in, 0, 1/math.Sqrt(float64(in)))}
	if bias {
		w.B = gaussian(g.s.Seed, name+".bias", out, 0, 0.5)
	}
	return w
}

func (g drawer) gain(name string, n int) []float32 {
	return gaussian(g.s.Seed, name+".norm", n, 1, g.s.GainStd)
}

func (g drawer) expert(name string) Expert {
	return Expert{
		Gate: g.linear(name+".gate", g.s.FFN, g.s.Dim, false),
		Up:   g.linear(name+".up", g.s.FFN, g.s.Dim, false),
		Down: g.linear(name+".down", g.s.Dim, g.s.FFN, false),
	}
}

func (g drawer) layer(l int, r Rules) LayerWeights {
	s := g.s
	n := fmt.Sprintf("layer%d", l)
	w := LayerWeights{InputNorm: g.gain(n+".input", s.Dim), PostNorm: g.gain(n+".post", s.Dim)}
	switch r.Mixer {
	case "":
		w.Q = g.linear(n+".q", s.Heads*s.HeadDim, s.Dim, r.QKVBias)
		w.K = g.linear(n+".k", s.KVHeads*s.HeadDim, s.Dim, r.QKVBias)
		w.V = g.linear(n+".v", s.KVHeads*s.HeadDim, s.Dim, r.QKVBias)
		w.QNorm, w.KNorm = g.gain(n+".qn", s.HeadDim), g.gain(n+".kn", s.HeadDim)
		w.Sink = gaussian(s.Seed, n+".sink", s.Heads, 1, 1)
		w.O = g.linear(n+".o", s.Dim, s.Heads*s.HeadDim, r.OutBias)
	default:
		w.ConvIn = g.linear(n+".convin", s.Dim, s.Dim, false)
		w.Conv = gaussian(s.Seed, n+".conv", s.Dim*ConvWidth, 0, 0.5)
		w.Decay = gaussian(s.Seed, n+".decay", s.Dim, 0.8, 0.05)
		w.O = g.linear(n+".o", s.Dim, s.Dim, r.OutBias)
	}
	if r.MoE.Experts == 0 {
		w.Expert = g.expert(n)
	} else {
		w.Router = g.linear(n+".router", r.MoE.Experts, s.Dim, false)
		w.RouterBias = gaussian(s.Seed, n+".routerbias", r.MoE.Experts, 0, 0.1)
		for e := range r.MoE.Experts {
			w.Experts = append(w.Experts, g.expert(fmt.Sprintf("%s.expert%d", n, e)))
		}
		w.Shared = g.expert(n + ".shared")
	}
	if s.Frames > 0 {
		w.Mod = g.linear(n+".mod", 2*s.Dim, s.Dim, false)
	}
	return w
}
