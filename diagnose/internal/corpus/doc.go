// Package corpus makes pairs of dumps with a known difference: a toy decoder is
// run twice, once as the reference and once as a port that breaks exactly one
// rule (or none, or two), and what the right explanation is stands beside it.
//
// The decoder is a pre-norm Llama: T=48 tokens, hidden size 128, 8 heads over 2
// key-value heads, 6 layers, Gaussian weights divided by the square root of
// their fan-in. Its rules are plain data (Spec, Rules), so that a fault is an
// edit of the port's rules or weights, and the arithmetic does not know which
// side it computes. Weights come from PCG streams keyed by seed and name: the
// same case has the same numbers on every run.
//
// The reference sums in float64 and rounds to float32 at every checkpoint. A
// float32 port sums in float32 in another order, so that a right pair differs by
// about 1e-7; a bfloat16 or float16 port rounds the output of every operation.
package corpus
