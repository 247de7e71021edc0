//go:build arm64 && !purego

package kernel

import (
	"os"
	"testing"
)

func TestNEONIsChosenUnlessThePortableLoopsAreWishedFor(t *testing.T) {
	want, all := "neon", 2
	if os.Getenv("PARITY_KERNEL") == "portable" {
		want, all = "portable", 1
	}
	if got := Implementation(); got != want || len(possible()) != all {
		t.Errorf("%s of %d, want %s of %d", got, len(possible()), want, all)
	}
}
