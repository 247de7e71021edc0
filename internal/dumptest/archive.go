package dumptest

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"maps"
	"slices"
)

// Members encodes a dump as the files of a folder or archive, by name.
func (d Dump) Members() map[string][]byte {
	out := make(map[string][]byte, len(d))
	for name, a := range d {
		out[name+".npy"] = a.NPY()
	}
	return out
}

// Archive writes members as a zip, in the order of their names: stored, as
// numpy.savez does, or deflated, as numpy.savez_compressed does.
func Archive(members map[string][]byte, method uint16) ([]byte, error) {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(members)) {
		w, err := z.CreateHeader(&zip.FileHeader{Name: name, Method: method})
		if err != nil {
			return nil, err
		}
		if _, err := w.Write(members[name]); err != nil {
			return nil, err
		}
	}
	err := z.Close()
	return b.Bytes(), err
}

// Archive64 writes members stored, with every size and offset in Zip64 records
// although none is large: what an archive over 4 GB looks like.
func Archive64(members map[string][]byte) []byte {
	le := binary.LittleEndian
	u16 := func(b []byte, v ...uint16) []byte {
		for _, x := range v {
			b = le.AppendUint16(b, x)
		}
		return b
	}
	const full = 1<<32 - 1
	var b, central []byte
	names := slices.Sorted(maps.Keys(members))
	for _, name := range names {
		data, at := members[name], uint64(len(b))
		size, sum := uint64(len(data)), crc32.ChecksumIEEE(data)
		extra := u16(nil, 1, 16)
		extra = le.AppendUint64(le.AppendUint64(extra, size), size)

		b = le.AppendUint32(b, 0x04034b50)
		b = u16(b, 45, 0, 0, 0, 0x21) // version, flags, stored, time, date
		b = le.AppendUint32(b, sum)
		b = le.AppendUint32(le.AppendUint32(b, full), full)
		b = u16(b, uint16(len(name)), uint16(len(extra)))
		b = append(append(append(b, name...), extra...), data...)

		extra = u16(nil, 1, 24)
		extra = le.AppendUint64(le.AppendUint64(le.AppendUint64(extra, size), size), at)
		central = le.AppendUint32(central, 0x02014b50)
		central = u16(central, 45, 45, 0, 0, 0, 0x21)
		central = le.AppendUint32(central, sum)
		central = le.AppendUint32(le.AppendUint32(central, full), full)
		central = u16(central, uint16(len(name)), uint16(len(extra)), 0, 0, 0)
		central = le.AppendUint32(le.AppendUint32(central, 0), full)
		central = append(append(central, name...), extra...)
	}
	start, end := uint64(len(b)), uint64(len(b)+len(central))
	b = append(b, central...)
	n := uint64(len(names))
	b = le.AppendUint64(le.AppendUint32(b, 0x06064b50), 44)
	b = u16(b, 45, 45)
	b = le.AppendUint32(le.AppendUint32(b, 0), 0)
	for _, v := range []uint64{n, n, uint64(len(central)), start} {
		b = le.AppendUint64(b, v)
	}
	b = le.AppendUint32(le.AppendUint32(b, 0x07064b50), 0)
	b = le.AppendUint32(le.AppendUint64(b, end), 1)
	b = le.AppendUint32(b, 0x06054b50)
	b = u16(b, 0, 0, 0xffff, 0xffff)
	b = le.AppendUint32(le.AppendUint32(b, full), full)
	return u16(b, 0)
}
