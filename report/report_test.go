package report_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/layerparity/parity/compare"
	"github.com/layerparity/parity/report"
)

var update = flag.Bool("update", false, "write the golden files")

// golden compares with a file of testdata, or writes it.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("%s (-want +got):\n%s", name, d)
	}
}

func ptr[T any](v T) *T { return &v }

// sample is a divergence with everything a report can meet, odd numbers and
// hostile names included.
func sample() *compare.Comparison {
	nan, inf := compare.Num(math.NaN()), compare.Num(math.Inf(1))
	layer := func(n int, s compare.Status, e compare.Num) *compare.Checkpoint {
		return &compare.Checkpoint{
			Name: compareName(n), Layer: &n, Kind: "layer", Status: s, Tokens: 4, Dims: 8, Error: &e, WorstError: &e, Floor: ptr(compare.Num(1e-10)), FloorOf: "float32",
			IncrementError: &e, Figures: &compare.Figures{Cos: 1 - e, OneMinusCos: e, RelL2: e, MaxAt: []int{0, 1}, MaxDiff: 2, MaxRef: 1, MaxPort: -1},
		}
	}
	evil := layer(7, compare.Fails, nan)
	evil.Name = "=cmd|\x1b[31m`<b>\n\u202elayer_07|x"
	evil.Reason = "NaN & <tag> ]]> \x00"
	evil.WorstError, evil.IncrementError = &inf, nil
	enters := layer(5, compare.Enters, 0.5)
	enters.Reason = "median token error 0.5 is above the float32 floor 1e-10"
	enters.WorstTokens = []compare.TokenFigures{{Token: 3, RelL2: 1}, {Token: 1, Batch: ptr(2), RelL2: 0.5}}
	enters.MedianToken = &compare.TokenFigures{Token: 1, RelL2: 0.25}
	enters.WorstDims = []compare.DimFigures{{Dim: 6, RelL2: 2}}
	enters.Dominant = &compare.Dominant{Tokens: []int{0}, Dims: []int{507}, TokenShare: 0.99, DimShare: 0.98, OneMinusCosWithout: 0.1}
	enters.NonFinite = &compare.NonFinite{PortNaN: 1, Mismatched: 1}
	logits := &compare.Checkpoint{Name: "last_logits", Kind: "logits", Status: compare.Inherited, Tokens: 1, Dims: 100, Figures: &compare.Figures{OneMinusCos: 0.1}, Error: ptr(compare.Num(0.1)), Floor: ptr(compare.Num(1e-9)),
		Logits: &compare.Logits{ArgmaxRef: 909, ArgmaxPort: 198, Rows: 1, Flips: 1, Ties: 1, K: 10, TopK: 0.9, KL: 0.01, Margin: 0.18, RMSError: 0.38, Note: "a flip inside the noise"}}
	return &compare.Comparison{
		Schema: compare.Schema, Version: "test", Verdict: compare.Divergence, ExitStatus: 1, Reason: "the error enters at layer_05",
		Ref: compare.DumpInfo{Path: "ref/", Model: "m", DType: "float32", Manifest: true, Tensors: 9}, Port: compare.DumpInfo{Path: "po|rt/\x07", Tensors: 8},
		First:    &compare.First{Checkpoint: "layer_06", Layer: ptr(6), By: "cosine", Value: 0.98, Threshold: 0.99},
		FirstRaw: &compare.First{Checkpoint: "layer_00", Layer: ptr(0), By: "median token cosine", Value: 0.1, Threshold: 0.99},
		Enters:   &compare.Entry{Checkpoint: "layer_05", Layer: ptr(5), By: "floor", Error: 0.5, Floor: 1e-10, Gain: 1e6, Inputs: []compare.Input{{Checkpoint: "layer_04", Error: 1e-13, Floor: 1e-10}}, Text: "it is bad; its inputs are good"},
		Trend:    &compare.Trend{Kind: "cliff", At: ptr(5), Statistic: inf, Threshold: 8, Text: "cliff at layer 5"},
		Guards: []compare.Guard{
			{ID: "input.tokens", Status: compare.Pass, Evidence: "4 ids are equal"},
			{ID: "capture.index_shift", Status: compare.Repaired, Evidence: "shifted", Remedy: "take the output", Checkpoint: "layer_00"},
			{ID: "capture.stale", Status: compare.NotChecked, Evidence: "no manifest", Remedy: "write one"},
			{ID: "capture.split_residual", Status: compare.NotApplicable, Evidence: "no second half"},
			{ID: "capture.duplicate", Status: compare.Fail, Evidence: "same | bytes", Remedy: "clone"},
		},
		Checkpoints: []*compare.Checkpoint{
			{Name: "prompt_tokens", Kind: "input", Status: compare.Equal, Ints: &compare.Ints{Equal: true}},
			layer(0, compare.Agrees, 1e-13), layer(1, compare.Agrees, 2e-13), layer(2, compare.Agrees, 1e-13), layer(3, compare.Agrees, 1e-13), layer(4, compare.Agrees, 1e-13),
			enters, layer(6, compare.Inherited, 0.9), evil,
			{Name: "layer_08", Layer: ptr(8), Kind: "layer", Status: compare.Incomparable, Reason: "shapes differ: reference [4 8], port [3 8]"},
			{Name: "layer_09", Layer: ptr(9), Kind: "layer", Status: compare.Unreadable, Reason: "truncated: 100 bytes expected, 7 found"},
			logits,
		},
		Unpaired: []compare.Unpaired{{Checkpoint: "layer_10", Side: "ref", File: "ref/layer_10.npy", Required: true}, {Checkpoint: "x", Side: "port", File: "x.npy", Allowed: true}},
		Coverage: compare.Coverage{Ref: 9, Port: 8, Paired: 12, Compared: 10, Layers: 8, LayersAll: 11}, Thresholds: compare.DefaultThresholds(),
		Warnings: []string{"a warning\nwith a second line"},
		Findings: []compare.Finding{{Cause: "rope.theta", Checkpoint: "layer_05.q_rope", Layer: ptr(5), Proof: compare.ProofExact, Before: 0.41, After: 3.1e-8, Floor: 1.2e-7, Params: 1, Rows: 4,
			Values: map[string]any{"reference": 500000.0, "port": 10000.0}, Claim: "port rotates with theta = 10000, reference with 500000", For: []string{"moduli are equal"}, Against: []string{"none"},
			Try: "parity try ref/ port/ --at layer_05.q_rope --apply 'unrope(theta=10000) | rope(theta=500000)'", Verify: "look at the config", Fix: "copy rope_theta"}},
		NextStep: "Hunt at layer_05.",
	}
}

func compareName(n int) string { return "layer_0" + string(rune('0'+n)) }

func write(t *testing.T, name string, c *compare.Comparison, o report.Options) []byte {
	t.Helper()
	f, ok := report.ByName(name)
	if !ok {
		t.Fatalf("no format %q", name)
	}
	var b bytes.Buffer
	if err := f.Write(&b, c, o); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestGoldenReports(t *testing.T) {
	for _, f := range report.Formats {
		golden(t, "sample"+f.Ext[0], write(t, f.Name, sample(), report.Options{}))
	}
	golden(t, "sample-all.txt", write(t, "terminal", sample(), report.Options{All: true}))
	golden(t, "sample-color.txt", write(t, "terminal", sample(), report.Options{Color: true}))
}

func TestTheTerminalReportFitsIntoItsColumnsAndHoldsNoControlCharacters(t *testing.T) {
	check := func(what string, c *compare.Comparison, width int) {
		for _, line := range strings.Split(string(write(t, "terminal", c, report.Options{Width: width, All: true})), "\n") {
			if n := utf8.RuneCountInString(line); n > width && !strings.HasPrefix(line, "  try ") {
				t.Errorf("%s: %d columns of %d: %s", what, n, width, line)
			}
			if strings.ContainsAny(line, "\x1b\x00\x07\u202e") {
				t.Errorf("%s: control character in %q", what, line)
			}
		}
	}
	check("sample", sample(), 100)
	for _, dir := range cases(t) {
		check(dir, compareDirs(t, filepath.Join(dir, "ref"), filepath.Join(dir, "port")), 100)
	}
}

func TestTheVerdictIsTheFirstLine(t *testing.T) {
	for _, v := range compare.Verdicts {
		c := sample()
		c.Verdict = v.Verdict
		line, _, _ := strings.Cut(string(write(t, "terminal", c, report.Options{})), "\n")
		if !strings.HasPrefix(line, strings.ToUpper(string(v.Verdict))+"  ") {
			t.Errorf("first line of %s: %q", v.Verdict, line)
		}
	}
}

func TestCSVReadsBackAndRunsNoFormula(t *testing.T) {
	rows, err := csv.NewReader(bytes.NewReader(write(t, "csv", sample(), report.Options{}))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 1+len(sample().Checkpoints) {
		t.Fatalf("%d rows", len(rows))
	}
	for _, r := range rows[1:] {
		if strings.ContainsAny(r[0][:1], "=+-@") {
			t.Errorf("a spreadsheet would run %q", r[0])
		}
	}
	if got := rows[7][9:11]; got[0] != "0.5" || got[1] != "0.5" {
		t.Errorf("cos and 1-cos of layer_05 read back as %v", got)
	}
}

func TestJUnitIsWellFormedAndItsCountsAreItsCases(t *testing.T) {
	var doc struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Errors   int `xml:"errors,attr"`
		Suites   []struct {
			Cases []struct {
				Failure *struct{} `xml:"failure"`
				Error   *struct{} `xml:"error"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(write(t, "junit", sample(), report.Options{}), &doc); err != nil {
		t.Fatal(err)
	}
	tests, failures, errs := 0, 0, 0
	for _, s := range doc.Suites {
		for _, c := range s.Cases {
			tests++
			if c.Failure != nil {
				failures++
			}
			if c.Error != nil {
				errs++
			}
		}
	}
	// verdict, 5 guards, 12 checkpoints, 2 unpaired
	if tests != 20 || doc.Tests != tests || doc.Failures != failures || doc.Errors != errs || errs != 1 {
		t.Errorf("%d cases, %d failures, %d errors; attributes say %+v", tests, failures, errs, doc)
	}
}

func TestJSONReadsBackToTheSameBytes(t *testing.T) {
	first := write(t, "json", sample(), report.Options{})
	var c compare.Comparison
	if err := json.Unmarshal(first, &c); err != nil {
		t.Fatal(err)
	}
	var again bytes.Buffer
	if err := report.JSON(&again, &c); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first, again.Bytes()) {
		t.Error("the report changes when it is read and written")
	}
}

func TestMarkdownKeepsHostileNamesInTheirCells(t *testing.T) {
	for _, line := range strings.Split(string(write(t, "markdown", sample(), report.Options{All: true})), "\n") {
		if strings.HasPrefix(line, "| FAIL") {
			cells := strings.Count(strings.ReplaceAll(line, `\|`, ""), "|")
			if cells != 7 || strings.Contains(line, "<b>") && !strings.Contains(line, "`") {
				t.Errorf("cells broken: %s", line)
			}
		}
	}
}

// full fails every write, as a closed pipe does.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestAWriterThatFailsIsAnError(t *testing.T) {
	for _, f := range report.Formats {
		if err := f.Write(full{}, sample(), report.Options{}); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("%s: %v", f.Name, err)
		}
	}
}

func TestFormatsAreFoundByNameAndExtension(t *testing.T) {
	for path, want := range map[string]string{"a.json": "json", "b.MD": "markdown", "x/c.xml": "junit", "d.csv": "csv", "e.txt": "terminal"} {
		if f, ok := report.ByExt(path); !ok || f.Name != want {
			t.Errorf("%s chooses %q", path, f.Name)
		}
	}
	if _, ok := report.ByExt("a.pdf"); ok {
		t.Error("an unknown extension chooses a format")
	}
	if _, ok := report.ByName("html5"); ok {
		t.Error("an unknown name is a format")
	}
}
