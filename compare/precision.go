package compare

import (
	"encoding/binary"
	"math"

	"github.com/layerparity/parity/dump"
	"github.com/layerparity/parity/npy"
)

// storedPrecision is what the stored bytes can hold at best.
var storedPrecision = map[npy.DType]dump.Precision{
	npy.Float16: dump.Float16, npy.BFloat16: dump.BFloat16,
	npy.Float8E4M3FN: dump.EightBit, npy.Float8E5M2: dump.EightBit, npy.Float8E4M3FNUZ: dump.EightBit,
	npy.Float8E5M2FNUZ: dump.EightBit, npy.Float8E8M0: dump.EightBit,
}

// sidePrecision classifies what one side's values are good for: what its
// manifest says they were computed in, but never finer than the stored dtype or
// than all values of the run show.
func sidePrecision(v *View, run *dump.Run, effective dump.Precision) dump.Precision {
	full := run.Manifest.FullPrecision()
	p := dump.PrecisionOf(v.Record.Logical, full)
	if p == dump.Unknown {
		p = dump.PrecisionOf(run.Manifest.Text("dtype"), full)
	}
	for _, q := range []dump.Precision{storedPrecision[v.DType], effective} {
		switch {
		case q == dump.Unknown:
		case p == dump.Unknown:
			p = q
		default:
			p = coarser(p, q)
		}
	}
	return p
}

// effectivePrecision reads a run's precision from its values: when every
// float32 of every layer output is a bfloat16 (low 16 bits zero) or a float16,
// that is what the model computed in; else unknown. Files of float16 can hold a
// bfloat16 run, too: the last three bits of its normal numbers are zero. A
// counterexample is normally among the first values.
func effectivePrecision(run *dump.Run) dump.Precision {
	bf16, f16, seen := true, true, false
	for _, r := range run.Records {
		if r.Err != nil || (r.DType != npy.Float32 && r.DType != npy.Float16) || (r.Kind != dump.KindLayer && r.Kind != dump.KindTap) {
			continue
		}
		seen = true
		if err := scanNarrow(r, &bf16, &f16); err != nil || (!bf16 && !f16) {
			return dump.Unknown
		}
	}
	switch {
	case !seen:
		return dump.Unknown
	case bf16:
		return dump.BFloat16
	case f16:
		return dump.Float16
	}
	return dump.Unknown
}

// scanNarrow clears the flags of the formats that cannot hold a value of r.
func scanNarrow(r *dump.Record, bf16, f16 *bool) error {
	a, err := r.Open()
	if err != nil {
		return err
	}
	defer a.Close()
	const chunk = 1 << 14
	size := int64(r.DType.Size())
	buf := make([]byte, size*chunk)
	more := func() bool { return *bf16 || *f16 && r.DType == npy.Float32 }
	for at, n := int64(0), r.Header.Len(); at < n && more(); at += chunk {
		k := min(chunk, n-at)
		if err := a.ReadElements(buf[:size*k], at, k); err != nil {
			return err
		}
		if r.DType == npy.Float16 {
			for b := buf[:size*k]; len(b) > 0; b = b[2:] {
				bits := binary.LittleEndian.Uint16(b)
				normal := bits&0x7c00 != 0 && bits&0x7c00 != 0x7c00
				*bf16 = *bf16 && (!normal || bits&7 == 0)
			}
			continue
		}
		for b := buf[:size*k]; len(b) > 0; b = b[4:] {
			bits := binary.LittleEndian.Uint32(b)
			*bf16 = *bf16 && bits&0xffff == 0
			if *f16 {
				v := math.Float32frombits(bits)
				*f16 = v != v || npy.Float16ToFloat32(npy.Float32ToFloat16(v)) == v
			}
		}
	}
	return nil
}

// evidence says which agreement of a computed checkpoint shows what the products
// of a run are good for, by the coarser dtype that the pair is stored in, and the
// class that pairs of unknown precision are held to then. Storage in 16 bits alone
// changes a token by e up to u²/2, u the unit rounding.
var evidence = map[dump.Precision]struct {
	e     float64
	class dump.Precision
}{
	dump.Unknown:  {floors[dump.Float32].e, dump.TF32},
	dump.Float16:  {0x1p-23, dump.Float16},
	dump.BFloat16: {0x1p-17, dump.BFloat16},
}

// storedIn is the coarser of the 16-bit dtypes that a pair is stored in, Unknown
// for wider files.
func (p *Pair) storedIn() dump.Precision {
	a, b := storedPrecision[p.Ref.DType], storedPrecision[p.Port.DType]
	switch {
	case a == dump.Unknown:
		return b
	case b == dump.Unknown:
		return a
	}
	return coarser(a, b)
}

// classify sets the precision class of every pair. A pair of unknown class is
// held to reduced-precision float32 where another computed checkpoint agrees to
// full float32 precision, or to the 16-bit dtype that it is stored in where
// another agrees to the rounding of that: the run itself shows what its products
// are.
func (p *part) classify() {
	refEff, portEff := effectivePrecision(p.Ref), effectivePrecision(p.Port)
	shown := map[dump.Precision]bool{}
	for _, pr := range p.Pairs {
		if !pr.comparable() {
			continue
		}
		pr.precision = coarser(sidePrecision(pr.Ref, p.Ref, refEff), sidePrecision(pr.Port, p.Port, portEff))
		if p.o.Floor != nil {
			pr.precision = *p.o.Floor
		}
		if ev, ok := evidence[pr.storedIn()]; ok && pr.sums != nil && pr.computed() && energy(median(pr.rel)) <= ev.e {
			shown[pr.storedIn()] = true
		}
	}
	for _, pr := range p.Pairs {
		if pr.precision == dump.Unknown && pr.comparable() && shown[pr.storedIn()] {
			pr.precision = evidence[pr.storedIn()].class
			pr.inferred = true
		}
	}
}

// computed tells whether a checkpoint's values went through a matrix product,
// so that agreement says something of the precision of products.
func (p *Pair) computed() bool {
	return p.Kind == dump.KindLayer || (p.Kind == dump.KindTap && p.Tap != "input_norm") || p.Kind == dump.KindLogits
}

// floor returns the noise floor of e for the pair's class.
func (p *Pair) floor() float64 { return floors[p.precision].of(p.Kind) }
