package corpus

// Spec is everything that a run follows besides its weights' values and its
// arithmetic. It is plain data: two equal Specs describe the same run.
type Spec struct {
	Seed uint64
	// Sizes. HeadDim is Dim/Heads unless set.
	Layers, Dim, Heads, KVHeads, HeadDim, FFN, Vocab, Tokens int

	// EmbedStd is the spread of the embedding rows, EmbedScale what they are
	// multiplied by (0 means 1).
	EmbedStd, EmbedScale float64
	// GainStd is the spread of the norms' weights around 1.
	GainStd      float64
	Tied         bool // logits from the embedding matrix
	FinalNorm    Norm
	FinalSoftcap float64
	LogitScale   float64

	// Decode is the number of teacher-forced decode steps after the prefill;
	// Chunks splits the prefill into that many steps.
	Decode, Chunks int
	// Pads gives a batch: the number of left pads of each request. Requests are
	// written one below the other: rows are len(Pads)*Tokens.
	Pads []int
	// World is the number of tensor-parallel ranks; each writes its own dump.
	World int
	// Denoise gives a diffusion transformer: one step per timestep, latents
	// instead of tokens, and norms modulated by a time embedding of each frame.
	Denoise []float64
	Frames  int
	// Text is the number of leading text tokens, whose timestep is 0, or the
	// video's own where TextTime is set.
	Text     int
	TextTime bool
	// Image marks rows [from, to) as a picture, 6 patches wide, whose rows have
	// a time, a height and a width position (M-RoPE); Image[1] 0 means none.
	Image [2]int

	// TapFFNInput dumps the residual stream between attention and MLP too,
	// TapQKV the fused projection.
	TapFFNInput, TapQKV, TapCache bool
	// Spikes are massive activations.
	Spikes []Spike

	Block []Rules
}

// Spike adds Value to one number of a layer's MLP output.
type Spike struct {
	Layer, Token, Dim int
	Value             float64
}

// Rules are what one block does.
type Rules struct {
	// Mixer is "" for attention, "conv" or "ssm".
	Mixer string

	InputNorm, PostNorm, QNorm, KNorm Norm
	QKNorm                            bool // q and k are normed per head
	QKNormAfterRope                   bool
	PostLN                            bool // norms after the residual additions
	ParallelBlock                     bool // the MLP reads the block's input

	QKVBias, OutBias bool
	Rope             Rope
	SharedQ, SharedK bool    // positions count the pads of a batch
	Scale            float64 // of the scores; 0 means 1/sqrt(head dim)
	Softcap          float64
	// Temperature > 0 scales the scores of a query at position p by
	// 1 + 0.1 ln(1 + floor(p/Temperature)), as Llama 4 does.
	Temperature       float64
	Window            int    // keys seen, the token itself included; 0 means all
	Mask              string // "", "full", "topleft"
	LookAhead         int
	WindowPrefillOnly bool // decode sees all keys
	PadsSeen          bool // pad keys are attended
	EmptyNaN          bool // a row without keys is 0/0
	Sink              bool
	HeadMap           []int // key-value head of each head; nil is repeated
	SwapKV            bool  // k and v exchanged after projection
	FusedRanks        int   // q, k, v read flat from the concatenation of that many ranks' fused shards

	// State across steps and chunks.
	StateChunk int   // recurrent state is lost at every multiple
	StateAfter bool  // conv state saved after the convolution
	KVZero     []int // cache rows that read as zero at decode
	KVStale    bool  // the newest cache row is the one before

	// Residual stream.
	ResidualMult       float64 // of both additions; 0 means 1
	AttnFromNorm       bool    // the first addition starts at the normed value
	MLPFromNorm        bool
	NoAttnResidual     bool
	Activation         string // "silu", "gelu", "gelu_tanh", "quick_gelu", "relu2", "relu"
	SwapGateUp         bool   // act(up)*gate
	MoE                MoE
	NoReduceAttn       bool // partial sums are not added over the ranks
	NoReduceMLP        bool
	BiasPerRank        bool // every rank adds the bias before the sum
	UnscaledModulation bool // adaLN scale taken as s, not 1+s
}

// MoE is the rule of a mixture of experts; Experts 0 means a dense MLP.
type MoE struct {
	Experts, TopK int
	// Score is "softmax" or "sigmoid"; TopKFirst scores only the chosen.
	Score     string
	TopKFirst bool
	// SelectBias chooses by score plus bias; WeightBias leaves the bias in the
	// weights.
	SelectBias, WeightBias bool
	Renorm                 bool
	Scale                  float64 // of the weights; 0 means 1
	RoutedTimes            float64 // of the routed sum, again; 0 means 1
	Shared                 bool
	SharedTimes            float64 // 0 means 1
	RawLogits              bool    // weights are the logits
	RouterBF16             bool
}

func orOne(x float64) float64 {
	if x == 0 {
		return 1
	}
	return x
}

// toy is the decoder of docs/faults.md.
func toy() Spec {
	s := Spec{
		Seed: 1, Layers: 6, Dim: 128, Heads: 8, KVHeads: 2, FFN: 256, Vocab: 256, Tokens: 48,
		EmbedStd: 1, GainStd: 0.3, World: 1, FinalNorm: Norm{Eps: 1e-6},
	}
	return s.build()
}

// build fills what depends on the sizes: the head dim and one Rules per layer.
func (s Spec) build() Spec {
	if s.HeadDim == 0 {
		s.HeadDim = s.Dim / s.Heads
	}
	s.Block = make([]Rules, s.Layers)
	for l := range s.Block {
		n := Norm{Eps: 1e-6}
		s.Block[l] = Rules{
			InputNorm: n, PostNorm: n, QNorm: n, KNorm: n,
			Rope: Rope{Theta: 5e5}, Activation: "silu",
		}
	}
	return s
}

// with returns an edited copy.
func (s Spec) with(edits ...func(*Spec)) Spec {
	s = s.clone()
	for _, f := range edits {
		f(&s)
	}
	return s
}

func (s Spec) clone() Spec {
	s.Block = append([]Rules(nil), s.Block...)
	s.Pads = append([]int(nil), s.Pads...)
	s.Denoise = append([]float64(nil), s.Denoise...)
	s.Spikes = append([]Spike(nil), s.Spikes...)
	return s
}

// each edits the rules of every layer.
func (s *Spec) each(f func(r *Rules)) {
	for l := range s.Block {
		f(&s.Block[l])
	}
}

// norms edits every norm of the model, the final one included.
func (s *Spec) norms(f func(n *Norm)) {
	for l := range s.Block {
		f(&s.Block[l].InputNorm)
		f(&s.Block[l].PostNorm)
	}
	f(&s.FinalNorm)
}
