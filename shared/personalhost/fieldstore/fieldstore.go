// Package fieldstore stores the schema of user fields: in memory for every call, and
// in a file for the next start.
package fieldstore

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cms-personal/personal/shared/durable"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/userfields"
)

// ErrChanged is returned if the schema is no longer the one that the caller knows.
var ErrChanged = errors.New("the user fields have been changed since they were read")

// NotStoredError says that the file could not be replaced, and where it can, what to do, such as
// mounting its folder.
type NotStoredError struct{ Err error }

// Error has the reason and the path.
func (e *NotStoredError) Error() string { return "storing the user fields: " + e.Err.Error() }

// Unwrap returns the error of writing.
func (e *NotStoredError) Unwrap() error { return e.Err }

// Set is a schema and the JSON that it was parsed from.
type Set struct {
	Source []byte
	Schema personal.Schema
}

// Store holds the current schema. It is safe for concurrent use, and made by [Open].
type Store struct {
	path    string
	current atomic.Pointer[Set]

	write    sync.Mutex // one change at a time
	reserved []string   // guarded by write
}

// Open reads the schema from the file, a JSON array of fields. If the file does not
// exist, Open creates it with the initial content; [] is a schema without fields. Fields of types that
// this version does not know stay in it. The error of an invalid schema is a [*userfields.SchemaError].
func Open(path string, initial []byte) (*Store, error) {
	source, err := durable.ReadText(path)
	missing := errors.Is(err, fs.ErrNotExist)
	if missing {
		source, err = initial, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the user fields: %w", err)
	}
	set, err := parse(source, userfields.ParseInForce)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	if missing {
		if err := durable.WriteFile(path, set.Source); err != nil {
			return nil, &NotStoredError{err}
		}
	}
	s := &Store{path: path}
	s.current.Store(set)
	return s, nil
}

func parse(source []byte, read func([]byte) ([]personal.Field, *userfields.Schema, error)) (*Set, error) {
	source = bytes.TrimPrefix(source, []byte("\ufeff")) // of an editor
	fields, _, err := read(source)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(fields, func(a, b personal.Field) int { return cmp.Compare(a.Order, b.Order) })
	// A digest is the same in every host and at every start.
	sum := sha256.Sum256(source)
	return &Set{
		Source: source,
		Schema: personal.Schema{Revision: hex.EncodeToString(sum[:12]), Fields: fields},
	}, nil
}

// Reserve refuses these names to user fields, because they are those of transient
// parameters (personalhttp.Options.Transient): the error of the current schema, and of each
// later one that has such a field, is a [*userfields.SchemaError]. personalhost.Open calls
// it for the store of a personalhost.Host.
func (s *Store) Reserve(names ...string) error {
	s.write.Lock()
	defer s.write.Unlock()
	if err := checkNames(s.Get().Schema, names); err != nil {
		return fmt.Errorf("reading %s: %w", s.path, err)
	}
	s.reserved = append(s.reserved, names...)
	return nil
}

// checkNames returns an error for the first field of a schema with a reserved name.
func checkNames(schema personal.Schema, reserved []string) error {
	for _, f := range schema.Fields {
		if slices.Contains(reserved, f.Name) {
			return &userfields.SchemaError{Field: f.Name, Property: "name",
				Problem: "the name is that of a transient parameter of the site: choose another name"}
		}
	}
	return nil
}

// Get returns the current schema. It must not be modified.
func (s *Store) Get() *Set { return s.current.Load() }

// Put replaces the schema, from the next request on, if may returns true for the
// current revision; else the error is [ErrChanged]. A field of an unknown type is refused unless it is in
// the current schema. The error is a [*NotStoredError] if the file
// cannot be written. On every error the current schema stays.
func (s *Store) Put(source []byte, may func(revision string) bool) (*Set, error) {
	s.write.Lock()
	defer s.write.Unlock()
	if !may(s.Get().Schema.Revision) {
		return nil, ErrChanged
	}
	set, err := parse(source, func(source []byte) ([]personal.Field, *userfields.Schema, error) {
		return userfields.ParseJSON(source, s.Get().Schema.Fields...)
	})
	if err != nil {
		return nil, err
	}
	if err := checkNames(set.Schema, s.reserved); err != nil {
		return nil, err
	}
	if err := durable.WriteFile(s.path, set.Source); err != nil {
		return nil, &NotStoredError{err}
	}
	s.current.Store(set)
	return set, nil
}

// PutFields is [Store.Put] for fields that were not parsed from JSON. The error is
// [ErrChanged] unless revision is the current one.
func (s *Store) PutFields(fields []personal.Field, revision string) (*Set, error) {
	source, err := s.Encode(fields)
	if err != nil {
		return nil, err
	}
	return s.Put(source, func(current string) bool { return current == revision })
}

// Encode returns fields as JSON that people can read. Those of unknown types keep the properties that they
// have in the current schema, also unknown ones.
func (s *Store) Encode(fields []personal.Field) ([]byte, error) {
	var current []map[string]json.RawMessage
	err := json.Unmarshal(s.Get().Source, &current)
	list := make([]any, len(fields))
	for i, f := range fields {
		list[i] = f
		name, _ := json.Marshal(f.Name) // a string: it cannot fail
		at := slices.IndexFunc(current, func(old map[string]json.RawMessage) bool { return bytes.Equal(old["name"], name) })
		if err == nil && at >= 0 && !f.Type.Known() {
			current[at]["order"], err = json.Marshal(f.Order) // pages change nothing else
			list[i] = current[at]
		}
	}
	var source bytes.Buffer
	e := json.NewEncoder(&source)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err = cmp.Or(err, e.Encode(list)); err != nil {
		return nil, fmt.Errorf("encoding the user fields: %w", err)
	}
	return source.Bytes(), nil
}
