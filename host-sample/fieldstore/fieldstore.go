// Package fieldstore owns the schema of user fields: in memory for every call, and
// in a file for the next start.
package fieldstore

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"

	"github.com/cms-personal/personal/shared/durable"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/userfields"
)

// sampleFields is what a new CMS begins with.
//
//go:embed user-fields.json
var sampleFields []byte

// ErrChanged says that the schema is no longer the one that the caller knows.
var ErrChanged = errors.New("the user fields were changed meanwhile")

// Set is the schema in force and the JSON that it was read from.
type Set struct {
	Source []byte
	Schema personal.Schema
}

// Store owns the schema. It is safe for concurrent use, and made by [Open].
type Store struct {
	path    string
	write   sync.Mutex // one change at a time
	current atomic.Pointer[Set]
}

// Open reads the file, or makes it. The error of a faulty schema is a
// [*userfields.SchemaError].
func Open(path string) (*Store, error) {
	source, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		source, err = sampleFields, durable.WriteFile(path, sampleFields)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the user fields: %w", err)
	}
	set, err := parse(source)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	s := &Store{path: path}
	s.current.Store(set)
	return s, nil
}

func parse(source []byte) (*Set, error) {
	_, checked, err := userfields.ParseJSON(source)
	if err != nil {
		return nil, err
	}
	return &Set{
		Source: source,
		Schema: personal.Schema{Revision: revisionOf(source), Fields: checked.Fields()},
	}, nil
}

// revisionOf tells schemas apart by their contents, so that it means the same
// to every host and at every start.
func revisionOf(source []byte) string {
	sum := sha256.Sum256(source)
	return hex.EncodeToString(sum[:12])
}

// Get returns the schema in force. It must not be changed.
func (s *Store) Get() *Set { return s.current.Load() }

// Put brings a new schema into force, from the next request on, if may, asked
// with the revision in force, allows it; else the error is [ErrChanged]. Whatever
// the error, the last good schema stays.
func (s *Store) Put(source []byte, may func(revision string) bool) (*Set, error) {
	s.write.Lock()
	defer s.write.Unlock()
	if !may(s.Get().Schema.Revision) {
		return nil, ErrChanged
	}
	set, err := parse(source)
	if err != nil {
		return nil, err
	}
	if err := durable.WriteFile(s.path, source); err != nil {
		return nil, fmt.Errorf("keeping the user fields: %w", err)
	}
	s.current.Store(set)
	return set, nil
}

// PutFields is [Store.Put] for fields that come from no file, if the revision is
// still the one in force.
func (s *Store) PutFields(fields []personal.Field, revision string) (*Set, error) {
	var source bytes.Buffer
	e := json.NewEncoder(&source)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false) // people read the file
	if err := e.Encode(fields); err != nil {
		return nil, fmt.Errorf("writing the user fields: %w", err)
	}
	return s.Put(source.Bytes(), func(inForce string) bool { return inForce == revision })
}
