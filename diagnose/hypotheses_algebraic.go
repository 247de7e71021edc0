package diagnose

// algebraic are the hypotheses that are settled by linear algebra on the dumped
// tensors: scales, offsets, norms, sums, orders, weights, ranks and number
// formats.
var algebraic = []Hypothesis{
	nonFiniteHypothesis,
	rankHypothesis,
	normHypothesis,
	residualHypothesis,
	mlpHypothesis,
	moeHypothesis,
	embeddingHypothesis,
	orderHypothesis,
	fusedHypothesis,
	strideHypothesis,
	channelHypothesis,
	paddingHypothesis,
	blockHypothesis,
	quantHypothesis,
	weightsHypothesis,
	tiedHypothesis,
	offsetHypothesis,
	scaleHypothesis,
	precisionHypothesis,
}
