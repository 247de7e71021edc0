package corpus

import (
	"hash/fnv"
	"math/rand/v2"
)

// stream returns the random numbers that belong to one name under one seed. A
// stream per name keeps a tensor's values when another is added beside it.
func stream(seed uint64, name string) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(name))
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// gaussian fills n values from N(mean, std), rounded to bfloat16: a checkpoint
// on disk is bfloat16 and both sides load the same one.
func gaussian(seed uint64, name string, n int, mean, std float64) []float32 {
	r := stream(seed, name)
	out := make([]float32, n)
	for i := range out {
		out[i] = roundBF16(mean + std*r.NormFloat64())
	}
	return out
}
