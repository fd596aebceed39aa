package fieldstore

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/userfields"
)

const initial = `[{"name":"phone","type":"text"}]` + "\n"

const oneField = `[{"name":"nickname","type":"text"}]`

func always(string) bool { return true }

func openTestFields(t *testing.T) *Store {
	t.Helper()
	s, err := Open(filepath.Join(t.TempDir(), "user-fields.json"), []byte(initial))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestOpen_MissingFileIsCreated(t *testing.T) {
	s := openTestFields(t)
	file, err := os.ReadFile(s.path)
	if err != nil || string(file) != initial {
		t.Fatalf("got file %q, %v, want the initial fields", file, err)
	}
	if fields := s.Get().Schema.Fields; len(fields) != 1 || fields[0].Name != "phone" {
		t.Errorf("got fields %v, want phone", fields)
	}
}

func TestOpen_InvalidInitialFieldsAreNotStored(t *testing.T) {
	path := filepath.Join(t.TempDir(), "user-fields.json")
	_, err := Open(path, []byte(`{}`))
	var invalid *userfields.SchemaError
	if !errors.As(err, &invalid) {
		t.Errorf("got %v, want a schema error", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v for the file, want none", err)
	}
}

func TestPut_AppliesAtOnceAndAfterRestart(t *testing.T) {
	s := openTestFields(t)
	before := s.Get().Schema.Revision
	if _, err := s.Put([]byte(oneField), always); err != nil {
		t.Fatal(err)
	}
	reopened, err := Open(s.path, []byte(initial))
	if err != nil {
		t.Fatal(err)
	}
	for _, store := range []*Store{s, reopened} {
		got := store.Get().Schema
		if len(got.Fields) != 1 || got.Fields[0].Name != "nickname" {
			t.Errorf("got fields %v, want nickname", got.Fields)
		}
		if got.Revision == before || got.Revision != s.Get().Schema.Revision {
			t.Errorf("got revision %s, want another one, the same in both stores", got.Revision)
		}
	}
}

func TestPut_InvalidSchemaChangesNothing(t *testing.T) {
	s := openTestFields(t)
	before := s.Get()
	for _, source := range []string{
		``, `null`, `{}`, oneField + `x`,
		`[{"name":"login","type":"text"}]`,
		`[{"name":"a","type":"enum"}]`,
		`[{"name":"a","type":"text","pattern":"("}]`,
		`[{"name":"a","type":"text"},{"name":"a","type":"text"}]`,
	} {
		_, err := s.Put([]byte(source), always)
		var invalid *userfields.SchemaError
		if !errors.As(err, &invalid) {
			t.Errorf("%s: got %v, want a schema error", source, err)
		}
	}
	if s.Get() != before {
		t.Error("the current schema was replaced")
	}
	if file, _ := os.ReadFile(s.path); string(file) != initial {
		t.Error("the file was replaced")
	}
}

func TestPut_FailedWriteChangesNothing(t *testing.T) {
	s := openTestFields(t)
	before := s.Get()
	if err := os.RemoveAll(filepath.Dir(s.path)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put([]byte(oneField), always); err == nil {
		t.Fatal("got no error for a failed write")
	}
	if s.Get() != before {
		t.Error("the schema was replaced in spite of the failed write")
	}
}

func TestStore_SkipsAByteOrderMark(t *testing.T) {
	path := filepath.Join(t.TempDir(), "user-fields.json")
	if err := os.WriteFile(path, []byte("\ufeff"+initial), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Open(path, nil)
	if err != nil || string(s.Get().Source) != initial {
		t.Fatalf("got %v, want the fields without the mark", err)
	}
	if _, err := s.Put([]byte("\ufeff"+oneField), always); err != nil {
		t.Fatal(err)
	}
	if file, err := os.ReadFile(path); err != nil || string(file) != oneField {
		t.Errorf("got file %q, %v, want the fields without the mark", file, err)
	}
}

func TestOpen_FolderOrUTF16(t *testing.T) {
	folder, file := t.TempDir(), filepath.Join(t.TempDir(), "user-fields.json")
	if err := os.WriteFile(file, []byte("\xff\xfe[\x00]\x00"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{folder: "it is a folder", file: "UTF-16"} {
		if _, err := Open(path, []byte("[]")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestOpen_InvalidFileFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "user-fields.json")
	if err := os.WriteFile(path, []byte(`[{"name":"city","type":"enum"}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(path, nil)
	var invalid *userfields.SchemaError
	if !errors.As(err, &invalid) || invalid.Field != "city" {
		t.Errorf("got %v, want an error that names city", err)
	}
}

func TestReserve_RefusesFieldsWithTheName(t *testing.T) {
	s := openTestFields(t)
	before := s.Get()
	var invalid *userfields.SchemaError
	if err := s.Reserve("captcha", "phone"); !errors.As(err, &invalid) || invalid.Field != "phone" || !strings.Contains(err.Error(), s.path) {
		t.Errorf("a name of the current schema: got %v, want an error that names phone and the file", err)
	}
	if err := s.Reserve("captcha", "nickname"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put([]byte(oneField), always); !errors.As(err, &invalid) || invalid.Field != "nickname" || invalid.Property != "name" {
		t.Errorf("Put: got %v, want an error that names nickname", err)
	}
	if _, err := s.PutFields([]personal.Field{{Name: "captcha", Type: personal.TypeText}}, before.Schema.Revision); !errors.As(err,
		&invalid) || invalid.Field != "captcha" {
		t.Errorf("PutFields: got %v, want an error that names captcha", err)
	}
	if file, _ := os.ReadFile(s.path); s.Get() != before || string(file) != initial {
		t.Error("the schema was replaced")
	}
	if _, err := s.Put([]byte(`[{"name":"city","type":"text"}]`), always); err != nil {
		t.Errorf("another name: %v", err)
	}
}

// A made-up 0.3.0 has a type of texts with a unit.
func TestStore_KeepsAFieldOfALaterVersion(t *testing.T) {
	const later = `{"name":"height","type":"measure","min":"0 m","unit":{"si":"<m>"},"order":2}`
	path := filepath.Join(t.TempDir(), "user-fields.json")
	if err := os.WriteFile(path, []byte(`[{"name":"city","type":"text"},`+later+`]`), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	fields := s.Get().Schema.Fields
	if len(fields) != 2 || fields[1].Type != "measure" {
		t.Fatalf("got fields %v, want both", fields)
	}
	fields = append([]personal.Field{fields[1], fields[0]}, personal.Field{Name: "note", Type: personal.TypeText})
	fields[0].Order = -1
	set, err := s.PutFields(fields, s.Get().Schema.Revision)
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.Join(strings.Fields(`[{"min":"0 m","name":"height","order":-1,"type":"measure","unit":{"si":"<m>"}},
		{"name":"city","type":"text"},{"name":"note","type":"text"}]`), ""); strings.Join(strings.Fields(string(set.Source)), "") != want {
		t.Errorf("got %s, want %s", set.Source, want)
	}
	var invalid *userfields.SchemaError
	if _, err := s.Put([]byte(`[`+later+`,{"name":"width","type":"measure"}]`), always); !errors.As(err, &invalid) || invalid.Field != "width" {
		t.Errorf("a new one: got %v, want it to be refused", err)
	}
}
