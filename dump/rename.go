package dump

import (
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/goccy/go-yaml"
)

// Rename maps the name of a checkpoint as a tool wrote it to the name it should
// have. Pattern is exact, or a regular expression between slashes whose groups
// To may use ($1).
type Rename struct {
	Pattern string
	To      string
	re      *regexp.Regexp
}

// ParseRename reads "FROM=TO"; FROM between slashes is a regular expression that
// must match the whole name: `/blk\.(\d+)\.out/=layer_$1`.
func ParseRename(s string) (Rename, error) {
	// The last '=' divides, since an expression may contain one.
	i := strings.LastIndexByte(s, '=')
	if i <= 0 || i == len(s)-1 {
		return Rename{}, fmt.Errorf("rename %q is not FROM=TO", s)
	}
	return newRename(s[:i], s[i+1:])
}

// newRename compiles a rename.
func newRename(from, to string) (Rename, error) {
	r := Rename{Pattern: from, To: to}
	if len(from) > 2 && from[0] == '/' && from[len(from)-1] == '/' {
		re, err := regexp.Compile("^(?:" + from[1:len(from)-1] + ")$")
		if err != nil {
			return r, fmt.Errorf("rename %q: %w", from, err)
		}
		r.re = re
	}
	return r, nil
}

// apply returns the new name; ok is false where the rename does not match.
func (r Rename) apply(name string) (string, bool) {
	if r.re == nil {
		return r.To, name == r.Pattern
	}
	if !r.re.MatchString(name) {
		return "", false
	}
	return r.re.ReplaceAllString(name, r.To), true
}

// ReadRenames reads a YAML mapping of FROM: TO, in the file's order; the first
// rename that matches a name wins.
func ReadRenames(path string) ([]Rename, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading renames: %w", err)
	}
	var m yaml.MapSlice
	if err := yaml.Unmarshal(b, &m); err != nil {
		return nil, fmt.Errorf("reading renames of %s: %w", path, err)
	}
	renames := make([]Rename, 0, len(m))
	for _, item := range m {
		from, ok1 := item.Key.(string)
		to, ok2 := item.Value.(string)
		if !ok1 || !ok2 {
			return nil, fmt.Errorf("reading renames of %s: %v: %v is not a pair of names", path, item.Key, item.Value)
		}
		r, err := newRename(from, to)
		if err != nil {
			return nil, fmt.Errorf("reading renames of %s: %w", path, err)
		}
		renames = append(renames, r)
	}
	return renames, nil
}
