package dump

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/layerparity/parity/npy"
)

// inMemory is the largest deflated member that is inflated into memory; larger
// ones go to an unlinked temporary file, so that memory stays bounded.
const inMemory = 8 << 20

// matchNPZ recognises an archive by its first bytes, not by its name.
func matchNPZ(path string, info os.FileInfo) bool {
	if !info.Mode().IsRegular() {
		return false
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	var magic [4]byte
	_, err = io.ReadFull(f, magic[:])
	return err == nil && (string(magic[:]) == "PK\x03\x04" || string(magic[:]) == "PK\x05\x06")
}

// openNPZ opens an archive of .npy members, stored or deflated, Zip64 included.
// A dump.json member is its manifest.
func openNPZ(path string, o Options) (*Dump, error) {
	z, err := zip.OpenReader(path)
	if err != nil {
		return nil, fmt.Errorf("reading the archive's directory: %w", err)
	}
	defer z.Close()
	m, err := npzManifest(z)
	if err != nil {
		return nil, err
	}
	metas := make(map[string]*Tensor)
	if m != nil {
		for i := range m.Tensors {
			metas[m.Tensors[i].File] = &m.Tensors[i]
		}
	}
	var sources []source
	seen := make(map[string]bool)
	for _, f := range z.File {
		if !strings.HasSuffix(f.Name, ".npy") {
			continue
		}
		if seen[f.Name] {
			return nil, fmt.Errorf("the archive has two members named %q", f.Name)
		}
		seen[f.Name] = true
		name, meta := strings.TrimSuffix(f.Name, ".npy"), metas[f.Name]
		if meta != nil {
			name = meta.Name
		}
		member := f.Name
		sources = append(sources, source{written: name, file: path + ":" + member, meta: meta, open: func() (*Array, error) { return openMember(path, member) }})
	}
	if m != nil {
		for i := range m.Tensors {
			if t := &m.Tensors[i]; !seen[t.File] {
				file := path + ":" + t.File
				sources = append(sources, source{written: t.Name, file: file, meta: t, err: fmt.Errorf("opening %s: %w", file, os.ErrNotExist)})
			}
		}
	}
	if len(sources) == 0 {
		return nil, errors.New("the archive has no .npy member")
	}
	run, err := newRun(path, m, sources, o)
	if err != nil {
		return nil, err
	}
	return &Dump{Path: path, Runs: []*Run{run}}, nil
}

// npzManifest reads the archive's manifest; nil where it has none.
func npzManifest(z *zip.ReadCloser) (*Manifest, error) {
	for _, f := range z.File {
		if f.Name != ManifestFile {
			continue
		}
		r, err := f.Open()
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", ManifestFile, err)
		}
		defer r.Close()
		m, err := ReadManifest(r)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", ManifestFile, err)
		}
		return m, nil
	}
	return nil, nil
}

// openMember opens one member for random access. Stored members are read in
// place; deflated ones are inflated once, with their CRC checked.
func openMember(path, member string) (*Array, error) {
	file := path + ":" + member
	z, err := zip.OpenReader(path)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", file, err)
	}
	defer z.Close()
	for _, f := range z.File {
		if f.Name != member {
			continue
		}
		if f.Method == zip.Store {
			return openStored(path, file, f)
		}
		return inflate(file, f)
	}
	return nil, fmt.Errorf("opening %s: the archive no longer has this member", file)
}

// openStored reads a stored member in place, so that its CRC is not verified:
// the file system's own checks cover it as they cover a plain .npy.
func openStored(path, file string, f *zip.File) (*Array, error) {
	off, err := f.DataOffset()
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", file, err)
	}
	osf, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	size := int64(f.UncompressedSize64)
	return newMember(io.NewSectionReader(osf, off, size), size, file, osf)
}

// newMember reads the header of a member's bytes; c is closed with the array.
func newMember(r io.ReaderAt, size int64, file string, c io.Closer) (*Array, error) {
	a, err := npy.New(r, size, file)
	if err != nil {
		if c != nil {
			err = errors.Join(err, c.Close())
		}
		return nil, err
	}
	return &Array{a, c}, nil
}

// inflate decompresses a member, to memory where it is small.
func inflate(file string, f *zip.File) (*Array, error) {
	r, err := f.Open()
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", file, err)
	}
	defer r.Close()
	// A hostile directory may understate the size: read one byte more than it
	// says, never without a limit.
	size := int64(f.UncompressedSize64)
	limited := io.LimitReader(r, size+1)
	if size <= inMemory {
		b, err := io.ReadAll(limited)
		if err == nil && int64(len(b)) != size {
			err = fmt.Errorf("the directory says %d bytes", size)
		}
		if err != nil {
			return nil, fmt.Errorf("inflating %s: %w", file, err)
		}
		return newMember(bytes.NewReader(b), size, file, nil)
	}
	tmp, err := os.CreateTemp("", "parity-*.npy")
	if err != nil {
		return nil, fmt.Errorf("inflating %s: %w", file, err)
	}
	// Unlinked while open: nothing is left behind, whatever happens.
	os.Remove(tmp.Name())
	n, err := io.Copy(tmp, limited)
	if err == nil && n != size {
		err = fmt.Errorf("found %d bytes, the directory says %d", n, size)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("inflating %s: %w", file, err), tmp.Close())
	}
	return newMember(tmp, size, file, tmp)
}
