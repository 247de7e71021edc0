package corpus

import "github.com/layerparity/parity/diagnose"

// fullFacts adds the facts that a dumper reads from the reference's config. The
// port's dumper knows only the sizes: what a port believes is not what it does.
func (p *Plan) fullFacts() diagnose.Facts {
	f, s := p.facts(), p.Spec
	r := s.Block[0]
	f.RMSEps = r.InputNorm.Eps
	f.RopeTheta = r.Rope.Theta
	if r.Rope.Width > 0 {
		f.PartialRotaryFactor = float64(r.Rope.Width) / float64(s.HeadDim)
	}
	f.SlidingWindow, f.AttnSoftcap, f.FinalSoftcap = r.Window, r.Softcap, s.FinalSoftcap
	f.ResidualMultiplier = r.ResidualMult
	if m := r.MoE; m.Experts > 0 {
		renorm := m.Renorm
		f.NormTopkProb, f.ScoringFunc, f.RoutedScalingFactor = &renorm, m.Score, m.Scale
	}
	f.Raw = map[string]any{}
	if r.Rope.Scaling != "" {
		f.Raw["rope_scaling"] = map[string]any{
			"rope_type": r.Rope.Scaling, "factor": r.Rope.Factor,
			"original_max_position_embeddings": r.Rope.Original,
			"low_freq_factor":                  r.Rope.LowFreq, "high_freq_factor": r.Rope.HighFreq,
		}
	}
	return f
}
