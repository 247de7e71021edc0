package compare

import (
	"fmt"
	"math"
	"path"
	"strconv"
	"strings"

	"github.com/layerparity/parity/dump"
)

// Thresholds are the limits beyond the noise floors. The zero value of a limit
// in Override means "not set".
type Thresholds struct {
	// Cos is the protocol's threshold on the cosine, whole tensor and median
	// token, for tokens, post_embed, layer outputs, final norm and logits.
	Cos Num `json:"cos"`
	// RelL2 and MaxRel fail every checkpoint above them; nil does not.
	RelL2  *Num `json:"rel_l2,omitempty"`
	MaxRel *Num `json:"max_rel,omitempty"`
	// Overrides replace the limits of checkpoints by name; the last that
	// matches wins.
	Overrides []Override `json:"overrides,omitempty"`
}

// Override sets limits for checkpoints whose name matches a glob.
type Override struct {
	Pattern string `json:"pattern"`
	Cos     *Num   `json:"cos,omitempty"`
	RelL2   *Num   `json:"rel_l2,omitempty"`
	MaxRel  *Num   `json:"max_rel,omitempty"`
}

// DefaultThresholds are the protocol's.
func DefaultThresholds() Thresholds { return Thresholds{Cos: 0.99} }

// Options choose how two dumps are compared. The zero value is not useful;
// start from DefaultOptions.
type Options struct {
	Thresholds Thresholds
	// Floor overrides the precision class that floors come from; nil takes it
	// from manifests and values.
	Floor *dump.Precision
	// AllowUnpaired are globs of required checkpoints that may lack a partner.
	AllowUnpaired []string
	// Strict is what validate asks for: no applicable guard may be left
	// unchecked.
	Strict bool
	// Detail asks for the figures of every token and dim, not the worst alone.
	Detail bool
	// Workers is the number of goroutines that read and sum; 0 takes the CPUs
	// of the cgroup's quota. Results do not depend on it.
	Workers int
	// Progress is told what is being done and how many bytes were read; nil is
	// silent. It may be called from several goroutines.
	Progress func(what string, bytes int64)
	// Version is the program's version, for the report.
	Version string
}

// DefaultOptions are what the command uses without flags.
func DefaultOptions() Options { return Options{Thresholds: DefaultThresholds()} }

// ParseOverride reads "PATTERN:cos=0.999,rel_l2=0.01,max_rel=0.1".
func ParseOverride(s string) (Override, error) {
	pattern, limits, ok := strings.Cut(s, ":")
	if !ok || pattern == "" || limits == "" {
		return Override{}, fmt.Errorf("threshold %q is not PATTERN:cos=X,rel_l2=X,max_rel=X", s)
	}
	if _, err := path.Match(pattern, ""); err != nil {
		return Override{}, fmt.Errorf("threshold %q: %w", s, err)
	}
	o := Override{Pattern: pattern}
	fields := map[string]**Num{"cos": &o.Cos, "rel_l2": &o.RelL2, "max_rel": &o.MaxRel}
	for _, l := range strings.Split(limits, ",") {
		name, value, _ := strings.Cut(l, "=")
		field := fields[strings.ReplaceAll(name, "-", "_")]
		v, err := strconv.ParseFloat(value, 64)
		if field == nil || err != nil || math.IsNaN(v) {
			return Override{}, fmt.Errorf("threshold %q: %q is not cos, rel_l2 or max_rel with a number", s, l)
		}
		n := Num(v)
		*field = &n
	}
	return o, nil
}

// limits are the thresholds that hold for one checkpoint; explicit is true for
// those that the user set by name or flag.
type limits struct {
	cos           Num
	relL2, maxRel *Num
	cosByName     bool
}

// of returns the limits of a checkpoint.
func (t Thresholds) of(name string) limits {
	l := limits{cos: t.Cos, relL2: t.RelL2, maxRel: t.MaxRel}
	for _, o := range t.Overrides {
		if !matchName(o.Pattern, name) {
			continue
		}
		if o.Cos != nil {
			l.cos, l.cosByName = *o.Cos, true
		}
		if o.RelL2 != nil {
			l.relL2 = o.RelL2
		}
		if o.MaxRel != nil {
			l.maxRel = o.MaxRel
		}
	}
	return l
}

// matchName matches a glob against a checkpoint's name, with or without its
// step and rank.
func matchName(pattern, name string) bool {
	if ok, _ := path.Match(pattern, name); ok {
		return true
	}
	ok, _ := path.Match(pattern, path.Base(name))
	return ok
}

// matchAny reports whether any of the globs matches.
func matchAny(patterns []string, name string) bool {
	for _, p := range patterns {
		if matchName(p, name) {
			return true
		}
	}
	return false
}
