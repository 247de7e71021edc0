// Package dump opens what one run of a model left on disk: checkpoints in
// execution order, under canonical names, with what the manifest says of them.
//
// A dump is a folder of .npy files with or without a manifest (dump.json), a
// .npz archive, or a folder of step_*/rank_* folders of those. Open lists every
// tensor and validates every header without reading the data; Record.Open gives
// access to the values, streaming. A file that cannot be read is a record with
// Err set, so that the others can still be compared: nothing is skipped
// silently.
//
// A new format is one file in this package and one row of the formats table.
package dump
