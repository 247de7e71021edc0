package diagnose

// positional are the hypotheses about positions, attention and what a run keeps
// from step to step.
var positional = []Hypothesis{
	layerSetHypothesis,
	ropeHypothesis,
	ropeLayoutHypothesis,
	attentionHypothesis,
	contextHypothesis,
	fusedKernelHypothesis,
	kvHypothesis,
	recurrentHypothesis,
	logitCapHypothesis,
	tokenHypothesis,
}
