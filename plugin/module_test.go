package main

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

// slowHash takes a few hundred milliseconds to verify.
const slowHash = "pbkdf2_sha256$2000000$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="

func TestModule_IsReadyBeforeForeignFormatsAreMeasured(t *testing.T) {
	url := "sqlite://" + filepath.Join(t.TempDir(), "personal.db")
	file := filepath.Join(t.TempDir(), "accounts.ndjson")
	if err := os.WriteFile(file, []byte(`{"login":"anna","password_hash":"`+slowHash+`"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"migrate", "import"} {
		args := []string{command, "--database", url}
		if command == "import" {
			args = append(args, file)
		}
		var out bytes.Buffer
		if err := run(t.Context(), args, &out, &out); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out.String())
		}
	}
	built, err := builder(newMeasurements(), slog.New(slog.DiscardHandler), nil)(t.Context(),
		rpc.Configuration{DatabaseURL: url}, nil)
	if err != nil {
		t.Fatal(err)
	}
	m := built.(*module)
	defer func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}()

	// What a host calls before and after the switch.
	if _, err := m.Preflight(t.Context()); err != nil {
		t.Errorf("preflight: %v", err)
	}
	if err := m.Migrate(t.Context(), 0); err != nil {
		t.Error(err)
	}
	if _, err := m.Health(t.Context()); err != nil {
		t.Error(err)
	}
	if err := m.CheckDatabase(t.Context()); err != nil {
		t.Error(err)
	}
	if err := m.Activate(t.Context()); err != nil {
		t.Error(err)
	}
	if accepted, err := m.Accepts(t.Context(), personal.Credentials{UserID: 1, UserHash: "x"}, []byte("unknown = 1")); accepted || err != nil {
		t.Errorf("a look at no session: got %v (error %v), want a refusal", accepted, err)
	}
	if _, err := m.Accepts(t.Context(), personal.Credentials{}, []byte("[session]\nidle = 7")); err == nil {
		t.Error("a look by settings of another version: got no error, want that they cannot be read")
	}
}
