//go:build (!amd64 && !arm64) || purego

package kernel

func choose() *loops { return &portable }

func possible() []*loops { return []*loops{&portable} }
