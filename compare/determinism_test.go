package compare

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/layerparity/parity/internal/dumptest"
	"github.com/layerparity/parity/npy"
)

// The report is the same byte for byte for any number of workers: on real dumps,
// on one of each verdict, and on a pair that is large enough to be split.
func TestTheReportDoesNotDependOnWorkers(t *testing.T) {
	pairs := map[string][2]string{}
	for _, name := range []string{"gate-up", "clean-bf16", "clean-llamacpp", "buffer-reused", "decode-position", "split-residual"} {
		pairs[name] = [2]string{filepath.Join(fixturesDir, name, "ref"), filepath.Join(fixturesDir, name, "port")}
	}
	dir := t.TempDir()
	rng := rand.New(rand.NewPCG(1, 2))
	big := dumptest.Rand(rng, 700, 900) // 2.5 MB a side: over the kernel's small pairs
	pairs["large"] = [2]string{
		dumptest.Dump{"layer_00": big, "layer_01": big.Noise(rng, 0.5)}.Write(t, filepath.Join(dir, "ref")),
		dumptest.Dump{"layer_00": big.Noise(rng, 1e-3), "layer_01": big.Noise(rng, 0.5).As(npy.Float64)}.Write(t, filepath.Join(dir, "port")),
	}
	for name, pair := range pairs {
		var first []byte
		for _, workers := range []int{1, 2, 3, 7} {
			o := DefaultOptions()
			o.Workers = workers
			b, err := json.MarshalIndent(compareWith(t, pair[0], pair[1], o), "", " ")
			if err != nil {
				t.Fatal(err)
			}
			if first == nil {
				first = b
			}
			if !bytes.Equal(b, first) {
				t.Errorf("%s: %d workers give another report than 1", name, workers)
			}
		}
	}
}
