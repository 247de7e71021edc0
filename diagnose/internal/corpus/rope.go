package corpus

import "math"

// Rope is the rule of the rotary embedding.
type Rope struct {
	Theta float64
	// Interleaved rotates pairs (2i, 2i+1); else pairs (i, i+width/2).
	Interleaved bool
	// Width is the number of rotated dims of a head; 0 means all.
	Width int
	// Scaling is "", "linear", "llama3" or "yarn".
	Scaling             string
	Factor              float64
	Original            float64 // trained context length (llama3, yarn)
	LowFreq, HighFreq   float64 // llama3
	BetaFast, BetaSlow  float64 // yarn
	Mscale              float64 // multiplies cos and sin; 0 means 1
	OffsetQ, OffsetK    float64 // added to every position
	DecodeZeroQ         bool    // position 0 at every decode step
	DecodeZeroK         bool
	PositionBF16        bool // positions rounded to bfloat16
	FreqBF16            bool // inverse frequencies rounded to bfloat16
	TablesBF16          bool // cos and sin rounded to bfloat16
	WindowStart         int  // >0: every row of a window of that many tokens is rotated at the window's first position
	Negative            bool // rotates the other way
	DenominatorFullHead bool // partial width, but exponents 2i/head_dim
	PairFullHead        bool // partial width, but partners half a head apart
	Off                 bool // NoPE
	Twice               bool // rotated a second time
	// Sections gives the number of pairs that turn with the time, height and
	// width position (M-RoPE): in runs, or in turns t h w t h w.
	Sections            [3]int
	SectionsInterleaved bool
}

// InvFreq returns the angle per position of each pair of a head with hd dims:
// theta^(-2i/width), then scaled. Formulas: transformers' modeling_rope_utils.
func (r Rope) InvFreq(hd int) []float64 {
	width := r.width(hd)
	den := float64(width)
	if r.DenominatorFullHead {
		den = float64(hd)
	}
	inv := make([]float64, width/2)
	for i := range inv {
		inv[i] = math.Pow(r.Theta, -2*float64(i)/den)
	}
	switch r.Scaling {
	case "linear":
		for i := range inv {
			inv[i] /= r.Factor
		}
	case "llama3":
		for i, w := range inv {
			// Share of the original frequency: 1 for short waves, 0 for
			// those longer than the trained context over LowFreq.
			wave := 2 * math.Pi / w
			smooth := (r.Original/wave - r.LowFreq) / (r.HighFreq - r.LowFreq)
			smooth = min(1, max(0, smooth))
			inv[i] = (1-smooth)*w/r.Factor + smooth*w
		}
	case "yarn":
		at := func(rotations float64) float64 {
			return float64(width) * math.Log(r.Original/(rotations*2*math.Pi)) / (2 * math.Log(r.Theta))
		}
		low, high := max(0, math.Floor(at(r.BetaFast))), min(float64(width-1), math.Ceil(at(r.BetaSlow)))
		for i, w := range inv {
			ramp := min(1, max(0, (float64(i)-low)/max(high-low, 1e-3)))
			inv[i] = ramp*w/r.Factor + (1-ramp)*w
		}
	}
	return inv
}

func (r Rope) width(hd int) int {
	if r.Width > 0 {
		return r.Width
	}
	return hd
}

// axis returns which position (0 time, 1 height, 2 width) turns pair i.
func (r Rope) axis(i int) int {
	switch {
	case r.Sections == [3]int{}:
		return 0
	case r.SectionsInterleaved:
		if axis := i % 3; i < 3*r.Sections[axis] {
			return axis
		}
		return 0
	case i < r.Sections[0]:
		return 0
	case i < r.Sections[0]+r.Sections[1]:
		return 1
	}
	return 2
}

// rotate returns x with each head of hd dims rotated by its row's position on
// each axis.
func (r Rope) rotate(a Arith, x *Mat, hd int, pos [][3]float64) *Mat {
	if r.Off {
		return x.clone()
	}
	inv := r.InvFreq(hd)
	out := x.clone()
	width := r.width(hd)
	scale := 1.0
	if r.Mscale != 0 {
		scale = r.Mscale
	}
	for t := range x.Rows {
		for i, w := range inv {
			c, s := r.table(a, pos[t][r.axis(i)], w)
			c, s = c*scale, s*scale
			p, q := i, i+width/2
			if r.PairFullHead {
				q = i + hd/2
			}
			if r.Interleaved {
				p, q = 2*i, 2*i+1
			}
			for h := 0; h < x.Cols; h += hd {
				in, to := x.Row(t)[h:h+hd], out.Row(t)[h:h+hd]
				u, v := float64(in[p]), float64(in[q])
				to[p] = a.round(u*c - v*s)
				to[q] = a.round(v*c + u*s)
			}
		}
	}
	return out
}

// table returns cos and sin of one angle, in the precision of the side: ports
// keep frequency and angle in float32.
func (r Rope) table(a Arith, pos, w float64) (c, s float64) {
	if r.PositionBF16 {
		pos = float64(roundBF16(pos))
	}
	if r.FreqBF16 {
		w = float64(roundBF16(w))
	}
	angle := pos * w
	if !a.wide {
		angle = float64(float32(pos) * float32(w))
	}
	if r.Twice {
		angle *= 2
	}
	if r.Negative {
		angle = -angle
	}
	s, c = math.Sincos(angle)
	if r.TablesBF16 {
		c, s = float64(roundBF16(c)), float64(roundBF16(s))
	}
	return c, s
}
