package dump

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Schema is the version of the manifest this package reads and writes. The JSON
// Schema is in docs/schemas.
const Schema = "parity.dump/1"

// ManifestFile is the manifest's name inside a dump folder.
const ManifestFile = "dump.json"

// maxManifest bounds what is read into memory: a manifest of 100,000 tensors is
// about 20 MB.
const maxManifest = 64 << 20

// Manifest is dump.json: what the files alone cannot say. Every field but
// Schema may be missing; a zero value means "not stated".
type Manifest struct {
	Schema    string         `json:"schema"`
	Complete  *bool          `json:"complete,omitempty"`
	Created   string         `json:"created,omitempty"`
	Dumper    NameVersion    `json:"dumper"`
	Framework Framework      `json:"framework"`
	Model     map[string]any `json:"model,omitempty"`
	Mode      string         `json:"mode,omitempty"`
	Step      *int           `json:"step,omitempty"`
	Rank      *RankInfo      `json:"rank,omitempty"`
	Prompt    *Prompt        `json:"prompt,omitempty"`
	// Tokens are the rows that a dump keeps of the sequence, ascending; empty for
	// all of them.
	Tokens  []int    `json:"tokens,omitempty"`
	Tensors []Tensor `json:"tensors"`
}

// NameVersion names a program.
type NameVersion struct {
	Name    string `json:"name,omitempty"`
	Version string `json:"version,omitempty"`
}

// Framework is the engine that ran the model. Device and MatmulPrecision tell
// whether float32 products were computed in full precision.
type Framework struct {
	Name            string `json:"name,omitempty"`
	Version         string `json:"version,omitempty"`
	Device          string `json:"device,omitempty"`
	MatmulPrecision string `json:"matmul_precision,omitempty"`
}

// RankInfo places a rank in the process mesh; the pairs are [index, count].
type RankInfo struct {
	Index int    `json:"index"`
	World int    `json:"world,omitempty"`
	TP    []int  `json:"tp,omitempty"`
	SP    []int  `json:"sp,omitempty"`
	CP    []int  `json:"cp,omitempty"`
	PP    []int  `json:"pp,omitempty"`
	DP    []int  `json:"dp,omitempty"`
	EP    []int  `json:"ep,omitempty"`
	RNG   string `json:"rng,omitempty"`
}

// Prompt is the text the run saw.
type Prompt struct {
	Text             string `json:"text,omitempty"`
	AddSpecialTokens *bool  `json:"add_special_tokens,omitempty"`
	// TokenIDs are the ids of the whole sequence where the dump keeps some rows
	// only.
	TokenIDs []int64 `json:"token_ids,omitempty"`
}

// Tensor is one checkpoint as the manifest states it.
type Tensor struct {
	Name   string   `json:"name"`
	File   string   `json:"file"`
	Order  *int     `json:"order,omitempty"`
	Source string   `json:"source,omitempty"`
	Axes   []string `json:"axes,omitempty"`
	// DType is what the model computed in; the file may be wider.
	DType string `json:"dtype,omitempty"`
	// Calls counts how often the place fired in the run; 0 is not stated.
	Calls   int      `json:"calls,omitempty"`
	Columns string   `json:"columns,omitempty"`
	Inputs  []string `json:"inputs,omitempty"`
	Shard   *Shard   `json:"shard,omitempty"`
}

// Shard says which part of a tensor this rank holds.
type Shard struct {
	Axis  string `json:"axis,omitempty"`
	Index int    `json:"index"`
	Count int    `json:"count"`
	Kind  string `json:"kind"` // concat, sum or replica
}

// ReadManifest parses and validates a manifest. Errors name the field at fault;
// unknown fields are accepted, so that newer dumpers stay readable.
func ReadManifest(r io.Reader) (*Manifest, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxManifest+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxManifest {
		return nil, fmt.Errorf("manifest is over %d MiB", maxManifest>>20)
	}
	var m Manifest
	dec := json.NewDecoder(bytes.NewReader(b))
	if err := dec.Decode(&m); err != nil {
		return nil, jsonError(err, dec.InputOffset())
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, fmt.Errorf("offset %d: data after the manifest's closing brace", dec.InputOffset())
	}
	if err := m.Validate(); err != nil {
		return nil, err
	}
	return &m, nil
}

// jsonError adds the place to a decoding error.
func jsonError(err error, at int64) error {
	var te *json.UnmarshalTypeError
	if errors.As(err, &te) {
		return fmt.Errorf("offset %d: field %q is a JSON %s", te.Offset, te.Field, te.Value)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return fmt.Errorf("offset %d: the JSON ends too early", at)
	}
	return fmt.Errorf("offset %d: %w", at, err)
}

// Validate checks the rules of the schema that JSON types do not express.
func (m *Manifest) Validate() error {
	if m.Schema != Schema {
		return fmt.Errorf("schema is %q, this version reads %q", m.Schema, Schema)
	}
	if m.Step != nil && *m.Step < 0 {
		return fmt.Errorf("step is %d, must not be negative", *m.Step)
	}
	if r := m.Rank; r != nil {
		if r.Index < 0 || r.World < 0 || (r.World > 0 && r.Index >= r.World) {
			return fmt.Errorf("rank %d of world %d does not exist", r.Index, r.World)
		}
		for _, mesh := range [][]int{r.TP, r.SP, r.CP, r.PP, r.DP, r.EP} {
			if mesh != nil && (len(mesh) != 2 || mesh[0] < 0 || mesh[1] < 1 || mesh[0] >= mesh[1]) {
				return fmt.Errorf("rank: mesh coordinate %v is not [index, count]", mesh)
			}
		}
	}
	seen := make(map[string]int, len(m.Tensors))
	for i := range m.Tensors {
		if err := m.Tensors[i].validate(); err != nil {
			return fmt.Errorf("tensors[%d]: %w", i, err)
		}
		if j, dup := seen[m.Tensors[i].Name]; dup {
			return fmt.Errorf("tensors[%d] and tensors[%d] have the same name %q", j, i, m.Tensors[i].Name)
		}
		seen[m.Tensors[i].Name] = i
	}
	return nil
}

// validate checks one tensor entry.
func (t *Tensor) validate() error {
	switch {
	case t.Name == "":
		return errors.New("name is missing")
	case t.File == "":
		return fmt.Errorf("%q has no file", t.Name)
	case strings.ContainsRune(t.File, 0) || !filepath.IsLocal(t.File):
		// A manifest must not make parity read outside the dump.
		return fmt.Errorf("%q: file %q leads outside the dump", t.Name, t.File)
	case t.Calls < 0:
		return fmt.Errorf("%q: calls is %d", t.Name, t.Calls)
	case t.Columns != "" && t.Columns != "interleaved" && t.Columns != "half_split":
		return fmt.Errorf("%q: columns is %q, must be interleaved or half_split", t.Name, t.Columns)
	}
	if s := t.Shard; s != nil {
		if s.Kind != "concat" && s.Kind != "sum" && s.Kind != "replica" {
			return fmt.Errorf("%q: shard.kind is %q, must be concat, sum or replica", t.Name, s.Kind)
		}
		if s.Count < 1 || s.Index < 0 || s.Index >= s.Count {
			return fmt.Errorf("%q: shard %d of %d does not exist", t.Name, s.Index, s.Count)
		}
	}
	return nil
}

// WriteManifest writes m into a dump folder atomically (temporary file, then
// rename), as the last act of a dump.
func WriteManifest(dir string, m *Manifest) error {
	if err := m.Validate(); err != nil {
		return fmt.Errorf("writing %s: %w", ManifestFile, err)
	}
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return fmt.Errorf("writing %s: %w", ManifestFile, err)
	}
	f, err := os.CreateTemp(dir, ".dump-*.json")
	if err != nil {
		return fmt.Errorf("writing %s: %w", ManifestFile, err)
	}
	defer os.Remove(f.Name()) // a no-op after the rename
	_, err = f.Write(append(b, '\n'))
	if err = errors.Join(err, f.Chmod(0o644), f.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", ManifestFile, err)
	}
	return os.Rename(f.Name(), filepath.Join(dir, ManifestFile))
}

// Fact returns a number of the model object, for example Fact("num_layers").
func (m *Manifest) Fact(name string) (v float64, ok bool) {
	if m == nil {
		return 0, false
	}
	v, ok = m.Model[name].(float64)
	return v, ok
}

// Text returns a string of the model object, "" where it is not stated.
func (m *Manifest) Text(name string) string {
	if m == nil {
		return ""
	}
	s, _ := m.Model[name].(string)
	return s
}

// FullPrecision tells whether the manifest says that float32 products were
// computed as such: on a CPU, or with matmul_precision "highest".
func (m *Manifest) FullPrecision() bool {
	return m != nil && (strings.HasPrefix(m.Framework.Device, "cpu") || m.Framework.MatmulPrecision == "highest")
}
