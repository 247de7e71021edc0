package dump

import (
	"bytes"
	"encoding/json"
	"testing"
)

// FuzzManifest: whatever the bytes, reading a manifest ends in a valid manifest
// or an error; and what was read is written and read back equal.
func FuzzManifest(f *testing.F) {
	for _, seed := range []string{
		`{"schema":"parity.dump/1","tensors":[]}`,
		`{"schema":"parity.dump/1","complete":true,"step":0,"rank":{"index":0,"world":2,"tp":[0,2]},"model":{"num_layers":30},
		  "tensors":[{"name":"layer_00","file":"layer_00.npy","order":0,"dtype":"bfloat16","calls":1,"shard":{"axis":"hidden","index":0,"count":2,"kind":"sum"}}]}`,
		`{"schema":"parity.dump/1","tensors":[{"name":"a","file":"../a.npy"}]}`,
		`{"schema":"parity.dump/2"}`, `{`, `null`, `[]`, `{"schema":1}`, "\x00", `{"schema":"parity.dump/1","tensors":[{"name":"a","file":"a"},{"name":"a","file":"b"}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := ReadManifest(bytes.NewReader(b))
		if err != nil {
			return
		}
		out, err := json.Marshal(m)
		if err != nil {
			t.Fatalf("writing what was read: %v", err)
		}
		again, err := ReadManifest(bytes.NewReader(out))
		if err != nil {
			t.Fatalf("reading what was written: %v", err)
		}
		out2, _ := json.Marshal(again)
		if !bytes.Equal(out, out2) {
			t.Fatalf("not stable:\n%s\n%s", out, out2)
		}
	})
}
