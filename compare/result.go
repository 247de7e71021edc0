package compare

import (
	"github.com/layerparity/parity/dump"
)

// Schema is the version of the JSON report; its JSON Schema is in docs/schemas.
const Schema = "parity.compare/1"

// Comparison is everything that comparing two dumps found. It is plain data in
// a fixed order: reports print it, and compute nothing.
type Comparison struct {
	Schema     string   `json:"schema"`
	Version    string   `json:"version"`
	Verdict    Verdict  `json:"verdict"`
	ExitStatus int      `json:"exit_status"`
	Ref        DumpInfo `json:"ref"`
	Port       DumpInfo `json:"port"`
	// Reason is one sentence: why this verdict.
	Reason string `json:"reason"`
	// First is where cosine (whole tensor or median token) first falls below
	// the protocol's threshold, after repairs; FirstRaw the same before them.
	First    *First `json:"first"`
	FirstRaw *First `json:"first_raw"`
	// Enters is where the error enters: the earliest checkpoint above its floor
	// whose inputs are all below theirs.
	Enters *Entry `json:"enters"`
	// Trend says how the error runs over the layers: cliff, drift, spike, flat.
	Trend       *Trend        `json:"trend,omitempty"`
	Guards      []Guard       `json:"guards"`
	Checkpoints []*Checkpoint `json:"checkpoints"`
	Unpaired    []Unpaired    `json:"unpaired"`
	Coverage    Coverage      `json:"coverage"`
	Thresholds  Thresholds    `json:"thresholds"`
	Warnings    []string      `json:"warnings"`
	Findings    []Finding     `json:"findings"`
	// Reasoning is what the shape of the error over tokens says, with numbers:
	// the token-0 invariant and the table of signatures. Filled by explain.
	Reasoning []string `json:"reasoning,omitempty"`
	// NextStep is what to do now, in this case: step 2 of the protocol.
	NextStep string `json:"next_step"`

	// Parts are the steps and ranks that were compared, with the views that
	// later stages read tensors through.
	Parts []*Part `json:"-"`
}

// DumpInfo is what the report says of one side.
type DumpInfo struct {
	Path      string `json:"path"`
	Model     string `json:"model,omitempty"`
	Framework string `json:"framework,omitempty"`
	DType     string `json:"dtype,omitempty"`
	Mode      string `json:"mode,omitempty"`
	Manifest  bool   `json:"manifest"`
	Tensors   int    `json:"tensors"`
}

// First is a place where figures cross the protocol's threshold.
type First struct {
	Checkpoint string `json:"checkpoint"`
	Layer      *int   `json:"layer,omitempty"`
	// By names the figure: "cosine" or "median token cosine".
	By        string `json:"by"`
	Value     Num    `json:"value"`
	Threshold Num    `json:"threshold"`
}

// Entry is the place where the error enters.
type Entry struct {
	Checkpoint string `json:"checkpoint"`
	Layer      *int   `json:"layer,omitempty"`
	// By is the rule that fired: "mask", "floor", "tokens", "gain", "scale", "offset",
	// "nonfinite", "integer", "threshold".
	By string `json:"by"`
	// Error is e = rel_l2²/2 of the median token, Floor its floor, Gain the
	// checkpoint's gain over its inputs.
	Error Num `json:"error"`
	Floor Num `json:"floor"`
	Gain  Num `json:"gain"`
	// Inputs are the checkpoints it was computed from and their errors.
	Inputs []Input `json:"inputs"`
	// Text is one sentence for people.
	Text string `json:"text"`
}

// Input is one input of an entry.
type Input struct {
	Checkpoint string `json:"checkpoint"`
	Error      Num    `json:"error"`
	Floor      Num    `json:"floor"`
}

// Status is what became of one pair.
type Status string

// The statuses of a checkpoint.
const (
	// Equal: bit for bit, or equal integers.
	Equal Status = "equal"
	// Agrees: below its floor.
	Agrees Status = "agrees"
	// Noted: differs, and is right or cannot be judged: layout, ties, noise.
	Noted Status = "noted"
	// Inherited: above its floor, and so is an input.
	Inherited Status = "inherited"
	// Enters: above its floor while its inputs are below theirs.
	Enters Status = "enters"
	// Fails: a figure past a threshold, NaN on one side, unequal integers.
	Fails Status = "fails"
	// Incomparable: shapes that no repair explains.
	Incomparable Status = "incomparable"
	// Unreadable: one side's file cannot be read whole.
	Unreadable Status = "unreadable"
)

// Figures are the numbers of a whole pair, as docs/metrics.md defines them.
type Figures struct {
	Cos         Num `json:"cos"`
	OneMinusCos Num `json:"one_minus_cos"`
	RelL2       Num `json:"rel_l2"`
	MaxDiff     Num `json:"max_diff"`
	// MaxAt is the index of the largest difference in the reference's shape;
	// MaxRef and MaxPort are both values there.
	MaxAt     []int `json:"max_at"`
	MaxRef    Num   `json:"max_ref"`
	MaxPort   Num   `json:"max_port"`
	MaxRel    Num   `json:"max_rel"`
	NormRatio Num   `json:"norm_ratio"`
	Scale     Num   `json:"scale"`
	MeanDiff  Num   `json:"mean_diff"`
	SNR       Num   `json:"snr_db"`
	// NormRef and NormPort are the L2 norms.
	NormRef  Num `json:"norm_ref"`
	NormPort Num `json:"norm_port"`
}

// Checkpoint is one pair and everything that was found about it.
type Checkpoint struct {
	// Name carries the step and rank where the comparison has several.
	Name   string  `json:"name"`
	Layer  *int    `json:"layer,omitempty"`
	Tap    string  `json:"tap,omitempty"`
	Step   *int    `json:"step,omitempty"`
	Rank   *int    `json:"rank,omitempty"`
	Kind   string  `json:"kind"`
	Status Status  `json:"status"`
	Ref    *Stored `json:"ref,omitempty"`
	Port   *Stored `json:"port,omitempty"`
	// Tokens and Dims are the rows and columns that were compared.
	Tokens int `json:"tokens"`
	Dims   int `json:"dims"`
	// Figures is nil for integers and for pairs that were not summed.
	*Figures
	// Raw holds the figures before a repair, nil where there was none.
	Raw *Figures `json:"raw,omitempty"`
	// Error is e = rel_l2²/2 of the median token; WorstError of the worst.
	Error      *Num   `json:"error,omitempty"`
	WorstError *Num   `json:"worst_error,omitempty"`
	Floor      *Num   `json:"floor,omitempty"`
	FloorOf    string `json:"floor_of,omitempty"`
	// Gain is the error over the root of the summed squares of its inputs' and
	// the dtype's unit rounding.
	Gain *Num `json:"gain,omitempty"`
	// IncrementError is the median over tokens, layers only.
	IncrementError *Num `json:"increment_error,omitempty"`
	// MedianToken and WorstTokens are per token (row).
	MedianToken *TokenFigures  `json:"median_token,omitempty"`
	WorstTokens []TokenFigures `json:"worst_tokens,omitempty"`
	WorstDims   []DimFigures   `json:"worst_dims,omitempty"`
	// Dominant names tokens and dims that hold most of the energy, and the
	// cosine without them.
	Dominant  *Dominant  `json:"dominant,omitempty"`
	NonFinite *NonFinite `json:"non_finite,omitempty"`
	Ints      *Ints      `json:"integers,omitempty"`
	Logits    *Logits    `json:"logits,omitempty"`
	// Repairs are what was done to make the pair comparable; Notes what a
	// reader should know of it; Reason why Status is not Agrees.
	Repairs []string `json:"repairs,omitempty"`
	Notes   []string `json:"notes,omitempty"`
	Reason  string   `json:"reason,omitempty"`

	// PerToken and PerDim are all rows and columns, where Options.Detail asks
	// for them.
	PerToken []TokenFigures `json:"per_token,omitempty"`
	PerDim   []DimFigures   `json:"per_dim,omitempty"`
}

// Stored says what a side's file holds.
type Stored struct {
	File  string `json:"file"`
	DType string `json:"dtype"`
	// Logical is the dtype the model computed in, "" where it is not known.
	Logical string `json:"logical_dtype,omitempty"`
	Shape   []int  `json:"shape"`
}

// TokenFigures are the figures of one row.
type TokenFigures struct {
	// Token is the row; Batch its batch entry where the tensor has a batch axis.
	Token       int  `json:"token"`
	Batch       *int `json:"batch,omitempty"`
	Cos         Num  `json:"cos"`
	OneMinusCos Num  `json:"one_minus_cos"`
	RelL2       Num  `json:"rel_l2"`
	Error       Num  `json:"error"`
	MaxDiff     Num  `json:"max_diff"`
	NormRatio   Num  `json:"norm_ratio"`
	Scale       Num  `json:"scale"`
}

// DimFigures are the figures of one column.
type DimFigures struct {
	Dim         int `json:"dim"`
	Cos         Num `json:"cos"`
	OneMinusCos Num `json:"one_minus_cos"`
	RelL2       Num `json:"rel_l2"`
	MaxDiff     Num `json:"max_diff"`
	NormRatio   Num `json:"norm_ratio"`
}

// Dominant names massive activations and the cosine without them.
type Dominant struct {
	Tokens     []int `json:"tokens"`
	Dims       []int `json:"dims"`
	TokenShare Num   `json:"token_share"`
	DimShare   Num   `json:"dim_share"`
	// CosWithout is the cosine over all other tokens and dims.
	CosWithout         Num `json:"cos_without"`
	OneMinusCosWithout Num `json:"one_minus_cos_without"`
}

// NonFinite counts NaN and Inf of both sides.
type NonFinite struct {
	RefNaN     int64 `json:"ref_nan"`
	RefPosInf  int64 `json:"ref_pos_inf"`
	RefNegInf  int64 `json:"ref_neg_inf"`
	PortNaN    int64 `json:"port_nan"`
	PortPosInf int64 `json:"port_pos_inf"`
	PortNegInf int64 `json:"port_neg_inf"`
	// Matched are places where both sides hold the same kind; they are left out
	// of the figures. Mismatched are the others, FirstMismatch the first.
	Matched       int64 `json:"matched"`
	Mismatched    int64 `json:"mismatched"`
	FirstMismatch []int `json:"first_mismatch,omitempty"`
}

// Ints compares integers and bools: never by cosine.
type Ints struct {
	Equal     bool  `json:"equal"`
	Different int64 `json:"different"`
	// FirstAt is the first differing index; FirstRef and FirstPort the values.
	FirstAt   []int `json:"first_at,omitempty"`
	FirstRef  int64 `json:"first_ref,omitempty"`
	FirstPort int64 `json:"first_port,omitempty"`
	// Ties counts the differences that lie within the error of what the
	// integers were chosen from.
	Ties int64 `json:"ties,omitempty"`
}

// Logits compares distributions over the vocabulary.
type Logits struct {
	// Argmax of the last row on both sides; Equal over all rows.
	ArgmaxRef   int  `json:"argmax_ref"`
	ArgmaxPort  int  `json:"argmax_port"`
	ArgmaxEqual bool `json:"argmax_equal"`
	// Flips counts rows whose argmax differs; Ties those of them whose margin
	// is smaller than the error.
	Rows  int `json:"rows"`
	Flips int `json:"flips"`
	Ties  int `json:"ties"`
	// TopK is the overlap of the K best of the last row, in 0..1.
	K    int `json:"k"`
	TopK Num `json:"top_k_overlap"`
	// KL is KL(ref‖port) in nats, mean over rows, MaxKL the largest.
	KL    Num `json:"kl"`
	MaxKL Num `json:"max_kl"`
	// Margin is the reference's gap between its two best logits of the last
	// row; RMSError the root mean square of the differences there.
	Margin   Num `json:"margin"`
	RMSError Num `json:"rms_error"`
	// Note says what a differing argmax means.
	Note string `json:"note,omitempty"`
	// noise is the typical error of a logit of the last row.
	noise float64
}

// Unpaired is a checkpoint that only one side has.
type Unpaired struct {
	Checkpoint string `json:"checkpoint"`
	// Side is "ref" or "port": the side that has it.
	Side     string `json:"side"`
	File     string `json:"file"`
	Required bool   `json:"required"`
	// Allowed is true where --allow-unpaired names it, Explained where a repair
	// accounts for it.
	Allowed   bool   `json:"allowed,omitempty"`
	Explained string `json:"explained,omitempty"`
}

// Coverage counts what was compared.
type Coverage struct {
	Ref      int `json:"ref"`
	Port     int `json:"port"`
	Paired   int `json:"paired"`
	Compared int `json:"compared"`
	// Layers are the layer outputs compared, of all that either side has.
	Layers    int `json:"layers"`
	LayersAll int `json:"layers_all"`
}

// Trend tells cliff, drift and spike apart by a stated statistic.
type Trend struct {
	// Kind is "flat", "drift", "cliff", "spike" or "too few layers".
	Kind string `json:"kind"`
	// At is the layer of a cliff or spike.
	At *int `json:"at,omitempty"`
	// Statistic is the largest step of the log error over the layers, in robust
	// standard deviations of the steps; Threshold its limit.
	Statistic Num    `json:"statistic"`
	Threshold Num    `json:"threshold"`
	Text      string `json:"text"`
}

// Part is one step and rank of both sides.
type Part struct {
	Step, Rank int
	Ref, Port  *dump.Run
	// Pairs are the matched checkpoints in execution order.
	Pairs []*Pair
	label string
}

// Label returns the prefix of the part's checkpoints, "" where the comparison
// has one part only.
func (p *Part) Label() string { return p.label }
