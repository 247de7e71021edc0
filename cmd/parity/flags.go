package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path"
	"strings"

	"github.com/spf13/cobra"

	"github.com/layerparity/parity/compare"
	"github.com/layerparity/parity/dump"
	"github.com/layerparity/parity/npy"
)

// compareFlags are the flags of every command that compares two dumps.
type compareFlags struct {
	maps          []string
	steps, ranks  []int
	dtype         string
	cos           float64
	relL2, maxRel float64
	thresholds    []string
	floor         string
	allowUnpaired []string
	workers       int
	gitBisect     bool
	strict        bool
	detail        bool
	out           output
}

// register adds the flags to a command.
func (f *compareFlags) register(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringArrayVar(&f.maps, "map", nil, "rename checkpoints: FROM=TO, /REGEXP/=TO with $1, or a YAML `file` of FROM: TO; ref: or port: before it limits it to one side")
	fl.IntSliceVar(&f.steps, "step", nil, "compare these `steps` only")
	fl.IntSliceVar(&f.ranks, "rank", nil, "compare these `ranks` only")
	fl.StringVar(&f.dtype, "dtype", "", "what 8-bit or 2-byte voids are where no manifest says it, as float8_e4m3fn, float8_e5m2, bfloat16, float16")
	fl.Float64Var(&f.cos, "cos", float64(compare.DefaultThresholds().Cos), "threshold on the cosine, whole tensor and median token")
	fl.Float64Var(&f.relL2, "rel-l2", math.NaN(), "fail checkpoints whose rel_l2 is above this")
	fl.Float64Var(&f.maxRel, "max-rel", math.NaN(), "fail checkpoints whose max_rel is above this")
	fl.StringArrayVar(&f.thresholds, "threshold", nil, "limits by name: 'GLOB:cos=0.999,rel_l2=0.01,max_rel=0.1'; the last match wins")
	fl.StringVar(&f.floor, "floor", "", "hold all checkpoints to one precision's noise floor: float32, tf32, float16, bfloat16, 8-bit, unknown")
	fl.StringArrayVar(&f.allowUnpaired, "allow-unpaired", nil, "required checkpoints (glob) that may lack a partner")
	fl.BoolVar(&f.detail, "detail", false, "put the figures of every token and dim into the JSON report, not the worst alone")
	fl.IntVar(&f.workers, "workers", 0, "goroutines that read and sum (default: the CPUs of the cgroup's quota); results do not depend on it")
	fl.BoolVar(&f.gitBisect, "git-bisect", false, "exit as git bisect run expects: 0 good, 1 bad, everything else 125 (skip)")
	f.out.register(cmd)
	for _, name := range []string{"rel-l2", "max-rel"} {
		fl.Lookup(name).DefValue = "0" // pflag keeps quiet about a zero; NaN would puzzle
	}
	for name, values := range map[string][]string{
		"floor": {"float32", "tf32", "float16", "bfloat16", "8-bit", "unknown"},
		"dtype": {"bfloat16", "float16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0"},
	} {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	}
}

// common builds the reading options that hold for both sides.
func (f *compareFlags) common() (dump.Options, error) {
	o := dump.Options{Steps: f.steps, Ranks: f.ranks}
	if f.dtype != "" {
		dt, ok := npy.ParseDType(dump.LogicalName(f.dtype))
		if !ok || !dt.IsFloat() || dt.Size() > 2 {
			return o, fmt.Errorf("--dtype %s: not an 8-bit or 16-bit float", f.dtype)
		}
		o.DType = dt
	}
	return o, nil
}

// open opens both dumps as the flags say.
func (f *compareFlags) open(refPath, portPath string) (ref, port *dump.Dump, err error) {
	o, err := f.common()
	if err != nil {
		return nil, nil, err
	}
	refRenames, portRenames, err := f.renames()
	if err != nil {
		return nil, nil, err
	}
	o.Renames = refRenames
	ref, err1 := dump.Open(refPath, o)
	o.Renames = portRenames
	port, err2 := dump.Open(portPath, o)
	if err := errors.Join(err1, err2); err != nil {
		return nil, nil, err
	}
	return ref, port, f.chosen(ref, port)
}

// chosen finds --step and --rank that no dump has folders for: they would be
// ignored without a word.
func (f *compareFlags) chosen(dumps ...*dump.Dump) error {
	for _, c := range []struct {
		flag string
		want []int
		of   func(*dump.Run) int
	}{{"step", f.steps, func(r *dump.Run) int { return r.Step }}, {"rank", f.ranks, func(r *dump.Run) int { return r.Rank }}} {
		found := len(c.want) == 0
		for _, d := range dumps {
			for _, r := range d.Runs {
				found = found || c.of(r) >= 0
			}
		}
		if !found {
			return fmt.Errorf("--%s %v: there is no %s_* folder to choose from", c.flag, c.want, c.flag)
		}
	}
	return nil
}

// openOne opens the dump of a command that looks at one alone.
func (f *compareFlags) openOne(path string) (*dump.Dump, error) {
	o, err := f.common()
	if err != nil {
		return nil, err
	}
	if o.Renames, _, err = f.renames(); err != nil {
		return nil, err
	}
	d, err := dump.Open(path, o)
	if err != nil {
		return nil, err
	}
	return d, f.chosen(d)
}

// renames reads the --map flags for both sides.
func (f *compareFlags) renames() (ref, port []dump.Rename, err error) {
	for _, m := range f.maps {
		both := true
		side := &ref
		if rest, ok := strings.CutPrefix(m, "ref:"); ok {
			m, both = rest, false
		} else if rest, ok := strings.CutPrefix(m, "port:"); ok {
			m, both, side = rest, false, &port
		}
		var rs []dump.Rename
		if info, statErr := os.Stat(m); statErr == nil && info.Mode().IsRegular() {
			rs, err = dump.ReadRenames(m)
		} else {
			var r dump.Rename
			r, err = dump.ParseRename(m)
			rs = []dump.Rename{r}
		}
		if err != nil {
			return nil, nil, fmt.Errorf("--map: %w", err)
		}
		if both {
			ref, port = append(ref, rs...), append(port, rs...)
		} else {
			*side = append(*side, rs...)
		}
	}
	return ref, port, nil
}

// options builds the comparison's options.
func (f *compareFlags) options() (compare.Options, error) {
	o := compare.DefaultOptions()
	o.Version = versionString()
	o.Workers, o.Strict, o.Detail = f.workers, f.strict, f.detail
	o.AllowUnpaired = f.allowUnpaired
	for _, glob := range f.allowUnpaired {
		if _, err := path.Match(glob, ""); err != nil {
			return o, fmt.Errorf("--allow-unpaired %s: %w", glob, err)
		}
	}
	if !(f.cos >= -1 && f.cos <= 1) {
		return o, fmt.Errorf("--cos %v: a cosine lies in -1..1", f.cos)
	}
	o.Thresholds.Cos = compare.Num(f.cos)
	for _, l := range []struct {
		name string
		v    float64
		to   **compare.Num
	}{{"rel-l2", f.relL2, &o.Thresholds.RelL2}, {"max-rel", f.maxRel, &o.Thresholds.MaxRel}} {
		if math.IsNaN(l.v) {
			continue // not given
		}
		if l.v < 0 {
			return o, fmt.Errorf("--%s %v: must not be negative", l.name, l.v)
		}
		n := compare.Num(l.v)
		*l.to = &n
	}
	for _, t := range f.thresholds {
		ov, err := compare.ParseOverride(t)
		if err != nil {
			return o, fmt.Errorf("--threshold: %w", err)
		}
		o.Thresholds.Overrides = append(o.Thresholds.Overrides, ov)
	}
	if f.floor != "" {
		p, ok := dump.ParsePrecision(f.floor)
		if !ok {
			return o, fmt.Errorf("--floor %s: not one of float32, tf32, float16, bfloat16, 8-bit, unknown", f.floor)
		}
		o.Floor = &p
	}
	if f.workers < 0 {
		return o, fmt.Errorf("--workers %d: must not be negative", f.workers)
	}
	return o, nil
}

// status maps a verdict to the exit status that was asked for.
func (f *compareFlags) status(v compare.Verdict) int {
	if f.gitBisect {
		return v.Info().BisectExit
	}
	return v.Info().Exit
}
