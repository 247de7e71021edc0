package triage

import (
	"math/rand/v2"
	"strings"
	"testing"
)

func TestAutomatonFindsWhatContainsFinds(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	text := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = "abAB- \xff"[rng.IntN(7)]
		}
		return string(b)
	}
	for range 2000 {
		words := make([]string, 1+rng.IntN(6))
		for i := range words {
			words[i] = strings.ReplaceAll(strings.ToLower(text(1+rng.IntN(4))), "\xff", "")
		}
		line := text(rng.IntN(20))
		a, seen := newAutomaton(words), make([]bool, len(words))
		any := a.find([]byte(line), seen)
		lower := strings.NewReplacer("A", "a", "B", "b").Replace(line)
		want := false
		for i, w := range words {
			holds := w != "" && strings.Contains(lower, w)
			want = want || holds
			if seen[i] != holds {
				t.Fatalf("%q in %q: %v", w, line, seen[i])
			}
		}
		if any != want {
			t.Fatalf("%q in %q: any = %v", words, line, any)
		}
	}
}
