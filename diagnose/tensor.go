package diagnose

// Side is one of the two runs of a comparison.
type Side int

// The two runs: the trusted one, and the one under test.
const (
	Ref Side = iota
	Port
)

// String returns "ref" or "port".
func (s Side) String() string {
	if s == Port {
		return "port"
	}
	return "ref"
}

// Tensor is a dumped tensor, decoded to float64 in row-major order.
//
// Rows are tokens: a checkpoint [T, D] has Rows T and Cols D; [T, H, d] is
// flattened to [T, H*d]; attention probabilities keep Shape [H, T, S] with Rows
// H*T and Cols S. Shape is the file's own.
type Tensor struct {
	Name       string
	Shape      []int
	Rows, Cols int
	Data       []float64
	// DType is the logical dtype of the manifest ("float32", "bfloat16", ...),
	// which may be narrower than the file.
	DType string
	// Columns is the order of each head's dims where the manifest states it:
	// "interleaved", "half_split" or "".
	Columns string
}

// Row returns row i as a view.
func (t *Tensor) Row(i int) []float64 { return t.Data[i*t.Cols : (i+1)*t.Cols] }

// Facts are what a manifest says of the model; zero means not stated. Names
// follow transformers' config.
type Facts struct {
	NumLayers, HiddenSize, NumHeads, NumKVHeads, HeadDim, IntermediateSize, VocabSize int
	RopeTheta, RMSEps, PartialRotaryFactor, ResidualMultiplier                        float64
	SlidingWindow, NumExperts, NumExpertsPerTok                                       int
	AttnSoftcap, FinalSoftcap, RoutedScalingFactor                                    float64
	NormTopkProb                                                                      *bool
	ScoringFunc                                                                       string
	// Raw is the manifest's model object as read, for facts without a field
	// (rope_scaling, mrope_section, quantization, ...).
	Raw map[string]any
}

// Source gives a hypothesis the tensors of one step and rank of both runs,
// after the comparison's repairs (index shift, extra rows, ...). Tensors are
// read when asked for; a Source may cache the last few.
type Source interface {
	// Tensor returns the checkpoint of that side; ok is false where it was not
	// dumped or cannot be read.
	Tensor(side Side, name string) (t *Tensor, ok bool)
	// Has tells whether that side dumped the checkpoint, without reading it.
	Has(side Side, name string) bool
	// Names lists the checkpoints of that side in execution order.
	Names(side Side) []string
	// Facts returns what that side's manifest says of its model.
	Facts(side Side) Facts
	// Part returns the same run's tensors at another step or rank; ok is false
	// where there is none. Steps and Ranks list what both sides have.
	Part(step, rank int) (s Source, ok bool)
	Steps() []int
	Ranks() []int
	// Step and Rank tell where this Source stands.
	Step() int
	Rank() int
}
