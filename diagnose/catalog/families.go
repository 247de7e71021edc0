package catalog

// families is the table: a new family is one file with its patterns and one row
// here. The order is the order of work: inputs and captures first, then the
// model from bottom to top, then what dumps cannot show.
var families = []Family{
	{ID: "input", Title: "What the model was given", Finding: true, patterns: input},
	{ID: "capture", Title: "The dump is wrong, not the model", Finding: true, patterns: capture},
	{ID: "spike", Title: "False spikes: jumps that a dump makes", patterns: spike},
	{ID: "signature", Title: "How to read a comparison", patterns: signature},
	{ID: "benign", Title: "Differs, and is right", Finding: true, patterns: benign},
	{ID: "scale", Title: "A factor too many or too few", Finding: true, patterns: scale},
	{ID: "offset", Title: "A constant added", Finding: true, patterns: offset},
	{ID: "norm", Title: "Normalisation", Finding: true, patterns: norm},
	{ID: "order", Title: "Right numbers in another order", Finding: true, patterns: order},
	{ID: "rope", Title: "Rotary position embedding", Finding: true, patterns: rope},
	{ID: "attention", Title: "Attention", Finding: true, patterns: attention},
	{ID: "mlp", Title: "Feed-forward block", Finding: true, patterns: mlp},
	{ID: "moe", Title: "Mixture of experts", Finding: true, patterns: moe},
	{ID: "residual", Title: "Residual stream", Finding: true, patterns: residual},
	{ID: "layers", Title: "A property on the wrong layers", Finding: true, patterns: layers},
	{ID: "weights", Title: "Weights", Finding: true, patterns: weights},
	{ID: "quant", Title: "Quantised weights", Finding: true, patterns: quant},
	{ID: "numerics", Title: "Overflow, NaN and precision", Finding: true, patterns: numerics},
	{ID: "state", Title: "State between chunks and decode steps", Finding: true, patterns: state},
	{ID: "parallel", Title: "Several ranks", Finding: true, patterns: parallel},
	{ID: "ranks", Title: "Right on one rank, wrong on several", patterns: ranks},
	{ID: "video", Title: "Parallel video and world models", patterns: video},
	{ID: "hang", Title: "Training or serving hangs", patterns: hang},
	{ID: "train", Title: "Loss, memory and devices in training", patterns: train},
	{ID: "load", Title: "What a loader says", patterns: load},
	{ID: "path", Title: "Dumps agree and the text differs", patterns: path},
	{ID: "unknown", Title: "Nothing fits", Finding: true, patterns: unknown},
}
