package fieldstore

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/userfields"
)

const oneField = `[{"name":"nickname","type":"text"}]`

func always(string) bool { return true }

func openTestFields(t *testing.T) *Store {
	t.Helper()
	s, err := Open(filepath.Join(t.TempDir(), "user-fields.json"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestOpen_CreatesSampleFields(t *testing.T) {
	s := openTestFields(t)
	file, err := os.ReadFile(s.path)
	if err != nil || string(file) != string(sampleFields) {
		t.Fatalf("got file %q, %v, want the sample fields", file, err)
	}
	schema := s.Get().Schema
	var names, hidden, readOnly []string
	for _, f := range schema.Fields {
		names = append(names, f.Name)
		if f.Hidden {
			hidden = append(hidden, f.Name)
		}
		if f.ReadOnly {
			readOnly = append(readOnly, f.Name)
		}
		if f.Label["en"] == "" || f.Label["ru"] == "" || f.Group == "" {
			t.Errorf("field %s: got no label or no group", f.Name)
		}
	}
	want := []string{"phone", "birth_date", "city", "company", "interests", "newsletter", "customer_number", "internal_note"}
	if !slices.Equal(names, want) {
		t.Errorf("got fields %v, want %v", names, want)
	}
	if !slices.Equal(hidden, []string{"internal_note"}) || !slices.Equal(readOnly, []string{"customer_number"}) {
		t.Errorf("got hidden %v, read-only %v", hidden, readOnly)
	}
	if city := schema.Fields[2]; len(city.Options) != 4 {
		t.Errorf("city: got %d options, want 4", len(city.Options))
	}
	if preset := schema.Fields[5].Default; preset.Kind != personal.InputBoolean || preset.Text != "false" {
		t.Errorf("newsletter: got default %v, want false", preset)
	}
}

func TestPut_AppliesAtOnceAndAfterRestart(t *testing.T) {
	s := openTestFields(t)
	before := s.Get().Schema.Revision
	if _, err := s.Put([]byte(oneField), always); err != nil {
		t.Fatal(err)
	}
	reopened, err := Open(s.path)
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
	if file, _ := os.ReadFile(s.path); string(file) != string(sampleFields) {
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

func TestOpen_InvalidFileFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "user-fields.json")
	if err := os.WriteFile(path, []byte(`[{"name":"city","type":"enum"}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(path)
	var invalid *userfields.SchemaError
	if !errors.As(err, &invalid) || invalid.Field != "city" {
		t.Errorf("got %v, want an error that names city", err)
	}
}
