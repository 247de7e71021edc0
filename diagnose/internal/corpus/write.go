package corpus

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/layerparity/parity/diagnose"
	"github.com/layerparity/parity/dump"
	"github.com/layerparity/parity/npy"
)

// Write writes the run as a dump folder: one .npy for each checkpoint and, where
// the run has a manifest, dump.json. Several steps or ranks go into folders
// step_NNNN and rank_NN. The files have the logical dtype.
func (r *Run) Write(dir string) error {
	steps, ranks := r.Steps(), r.Ranks()
	for key, part := range r.Parts {
		step, rank := -1, -1
		if len(steps) > 1 {
			step = key[0]
		}
		if len(ranks) > 1 {
			rank = key[1]
		}
		at := filepath.Join(dir, filepath.FromSlash(dump.Label(step, rank)))
		if err := r.writePart(at, part, step, rank, len(ranks)); err != nil {
			return err
		}
	}
	return nil
}

func (r *Run) writePart(dir string, p *Part, step, rank, world int) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("making the dump folder: %w", err)
	}
	for _, name := range p.Names {
		if err := p.Tensors[name].write(filepath.Join(dir, name+".npy")); err != nil {
			return err
		}
	}
	if r.Manifest == nil {
		return nil
	}
	return dump.WriteManifest(dir, r.manifest(p, step, rank, world))
}

// write stores the values in the logical dtype, which holds each exactly.
func (a *Array) write(path string) error {
	dt, ok := npy.ParseDType(a.DType)
	if !ok {
		return fmt.Errorf("writing %s: no dtype %q", path, a.DType)
	}
	values := make([]float64, 0, len(a.Data)+len(a.Ints))
	for _, v := range a.Data {
		values = append(values, float64(v))
	}
	for _, v := range a.Ints {
		values = append(values, float64(v))
	}
	data := make([]byte, dt.Size()*len(values))
	npy.EncodeFloat64(data, values, dt)
	return npy.WriteFile(path, dt, a.Shape, data)
}

// split are the taps that tensor parallelism cuts along heads or width.
var split = []string{"q", "k", "v", "qkv", "q_norm", "k_norm", "q_rope", "k_rope", "attn_probs", "attn_ctx", "mlp_gate", "mlp_up", "mlp_act"}

func (r *Run) manifest(p *Part, step, rank, world int) *dump.Manifest {
	yes := true
	fw := r.Manifest["framework"].(dump.Framework)
	mode, _ := r.Manifest["mode"].(string)
	m := &dump.Manifest{
		Schema: dump.Schema, Complete: &yes, Created: "2026-01-01T00:00:00Z",
		Dumper: dump.NameVersion{Name: "parity.corpus", Version: "1"}, Framework: fw, Mode: mode, Model: model(r.Facts),
	}
	if step >= 0 {
		m.Step = &step
	}
	if rank >= 0 {
		m.Rank = &dump.RankInfo{Index: rank, World: world, TP: []int{rank, world}}
	}
	for i, name := range p.Names {
		a := p.Tensors[name]
		order := i
		t := dump.Tensor{Name: name, File: name + ".npy", Order: &order, DType: a.DType, Calls: 1}
		if a.Ints == nil && m.Model["dtype"] == nil {
			m.Model["dtype"] = a.DType
		}
		if _, tap := diagnose.SplitName(name); rank >= 0 && slices.Contains(split, tap) {
			t.Shard = &dump.Shard{Axis: "hidden", Index: rank, Count: world, Kind: "concat"}
		}
		m.Tensors = append(m.Tensors, t)
	}
	return m
}

// model is the manifest's model object: the facts that are stated.
func model(f diagnose.Facts) map[string]any {
	m := maps.Clone(f.Raw)
	if m == nil {
		m = map[string]any{}
	}
	for name, v := range map[string]int{
		"num_layers": f.NumLayers, "hidden_size": f.HiddenSize, "num_heads": f.NumHeads, "num_kv_heads": f.NumKVHeads,
		"head_dim": f.HeadDim, "intermediate_size": f.IntermediateSize, "vocab_size": f.VocabSize,
		"sliding_window": f.SlidingWindow, "num_experts": f.NumExperts, "num_experts_per_tok": f.NumExpertsPerTok,
	} {
		if v != 0 {
			m[name] = v
		}
	}
	for name, v := range map[string]float64{
		"rope_theta": f.RopeTheta, "rms_eps": f.RMSEps, "partial_rotary_factor": f.PartialRotaryFactor,
		"residual_multiplier": f.ResidualMultiplier, "attn_logit_softcapping": f.AttnSoftcap,
		"final_logit_softcapping": f.FinalSoftcap, "routed_scaling_factor": f.RoutedScalingFactor,
	} {
		if v != 0 {
			m[name] = v
		}
	}
	if f.NormTopkProb != nil {
		m["norm_topk_prob"] = *f.NormTopkProb
	}
	if f.ScoringFunc != "" {
		m["scoring_func"] = f.ScoringFunc
	}
	return m
}
