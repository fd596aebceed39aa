package main

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"

	"github.com/cms-personal/personal/host-sample/atomicfile"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/userfields"
)

// sampleFields is what a new CMS begins with.
//
//go:embed user-fields.json
var sampleFields []byte

// errChanged says that the schema is no longer the one that the caller knows.
var errChanged = errors.New("the user fields were changed meanwhile")

// fieldSet is the schema in force and the JSON that it was read from.
type fieldSet struct {
	source []byte
	schema personal.Schema
}

// fieldStore owns the schema of user fields: in memory, and in a file for the
// next start. It is safe for concurrent use.
type fieldStore struct {
	path    string
	write   sync.Mutex // one change at a time
	current atomic.Pointer[fieldSet]
}

// openFields reads the file, or makes it. The error of a faulty schema is a
// [*userfields.SchemaError].
func openFields(path string) (*fieldStore, error) {
	source, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		source, err = sampleFields, atomicfile.Write(path, sampleFields)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the user fields: %w", err)
	}
	set, err := parseFields(source)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	s := &fieldStore{path: path}
	s.current.Store(set)
	return s, nil
}

func parseFields(source []byte) (*fieldSet, error) {
	_, checked, err := userfields.ParseJSON(source)
	if err != nil {
		return nil, err
	}
	return &fieldSet{
		source: source,
		schema: personal.Schema{Revision: revisionOf(source), Fields: checked.Fields()},
	}, nil
}

// revisionOf tells schemas apart by their contents, so that it means the same
// to every host and at every start.
func revisionOf(source []byte) string {
	sum := sha256.Sum256(source)
	return hex.EncodeToString(sum[:12])
}

// get returns the schema in force. It must not be changed.
func (s *fieldStore) get() *fieldSet { return s.current.Load() }

// put brings a new schema into force, from the next request on, if may, asked
// with the revision in force, allows it; else the error is [errChanged]. Whatever
// the error, the last good schema stays.
func (s *fieldStore) put(source []byte, may func(revision string) bool) (*fieldSet, error) {
	s.write.Lock()
	defer s.write.Unlock()
	if !may(s.get().schema.Revision) {
		return nil, errChanged
	}
	set, err := parseFields(source)
	if err != nil {
		return nil, err
	}
	if err := atomicfile.Write(s.path, source); err != nil {
		return nil, fmt.Errorf("keeping the user fields: %w", err)
	}
	s.current.Store(set)
	return set, nil
}
