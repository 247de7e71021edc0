// Command parity compares the per-layer tensors of a trusted reference run with
// those of a port of the same model: it proves that the dumps can be trusted,
// names where the error enters, and says why.
//
//	parity compare ref/ port/
//
// See `parity help` for the commands and their exit statuses.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal kills at once.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], &env{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}))
}
