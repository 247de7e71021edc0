package catalog

import (
	"slices"
	"testing"
)

func TestSearchPutsFirstWhatAPersonMeans(t *testing.T) {
	for _, c := range []struct {
		query, want, reason string
	}{
		{"rope.theta", "rope.theta", "an id"},
		{"half noise video", "video.half_noise", "words of a title in another order"},
		{"NumelIn=1", "hang.scalar_allreduce", "a piece of a log line"},
		{"double bos", "input.extra_token", "a keyword"},
		{"block_mask", "video.block_mask", "a name from an error message"},
		{"gguf q k permuted", "benign.layout", "slang of the field"},
		{"lm_head newly initialized", "load.newly_initialized", "a warning"},
		{"ema shard", "video.ema_shard", "two words of an id"},
		{"repeat_interleave gqa", "attention.head_map", "keywords only"},
		{"deadlock", "hang.asymmetric_collective", "a word no id has"},
		{"CUDA out of memory", "train.oom", "a title"},
		{"qk norm", "norm.missing", "two short words"},
	} {
		hits := Search(c.query)
		if len(hits) == 0 {
			t.Errorf("%q (%s): nothing found", c.query, c.reason)
			continue
		}
		if hits[0].Pattern.ID != c.want {
			t.Errorf("%q (%s): first is %s (%.2f), want %s", c.query, c.reason, hits[0].Pattern.ID, hits[0].Score, c.want)
		}
	}
}

func TestSearchIsSortedAndLeavesOutWhatDoesNotMatch(t *testing.T) {
	hits := Search("softcap tanh")
	if !slices.IsSortedFunc(hits, func(x, y Hit) int {
		switch {
		case x.Score > y.Score:
			return -1
		case x.Score < y.Score:
			return 1
		}
		return 0
	}) {
		t.Error("hits are not sorted by score")
	}
	if len(hits) == 0 || len(hits) == len(All()) {
		t.Errorf("%d of %d patterns match", len(hits), len(All()))
	}
}

func TestSearchForNothingFindsNothing(t *testing.T) {
	for _, query := range []string{"", "  ", "?!", "zyzzyva"} {
		if hits := Search(query); len(hits) != 0 {
			t.Errorf("%q: %d hits", query, len(hits))
		}
	}
}
