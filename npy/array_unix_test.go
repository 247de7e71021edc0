//go:build unix

package npy

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestNamedPipeIsNotWaitedFor: opening one blocks until somebody writes.
func TestNamedPipeIsNotWaitedFor(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe.npy")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(pipe)
	wantError(t, err, IO, "not a regular file")
	_, err = Open(os.DevNull)
	wantError(t, err, IO, "not a regular file")
}
