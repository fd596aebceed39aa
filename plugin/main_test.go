package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/cms-personal/personal/internal/testkit"
	"github.com/cms-personal/personal/shared/plugins/catalogue"
)

func TestRun_PrintsHelpAndDescriptions(t *testing.T) {
	for args, want := range map[string]string{
		"":           "It does not serve requests on its own",
		"--help":     "settings",
		"settings":   "[session]",
		"version":    "0.0.0-dev+",
		"--version":  "0.0.0-dev+",
		"migrate -h": "PERSONAL_DATABASE",
	} {
		var out bytes.Buffer
		if err := run(t.Context(), strings.Fields(args), &out, &out); err != nil {
			t.Errorf("%q: %v", args, err)
		}
		if text := strings.Join(strings.Fields(out.String()), " "); !strings.Contains(strings.ToLower(text), strings.ToLower(want)) {
			t.Errorf("%q: got %s, want it to contain %q", args, out.String(), want)
		}
	}
}

// The version of a development build follows from its build id: ownVersion.
func TestOwnVersion_ReadsTheBuildID(t *testing.T) {
	binary := testkit.Binaries(t).Plugin
	id, err := exec.Command("go", "tool", "buildid", binary).Output()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	if id = bytes.TrimSpace(id); len(id) == 0 || !bytes.Contains(program[:versionBytes], id) {
		t.Errorf("the first %d bytes lack the build id %q", versionBytes, id)
	}
}

func TestManifest_IsValid(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), []string{"manifest"}, &out, &out); err != nil {
		t.Fatal(err)
	}
	var m catalogue.Manifest
	if err := json.Unmarshal(out.Bytes(), &m); err != nil {
		t.Fatal(err)
	}
	if err := m.Validate(); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"session", "session.idle", "throttle.guess.burst"} {
		if !slices.Contains(m.Settings, key) {
			t.Errorf("got settings %v, want %s among them", m.Settings, key)
		}
	}
}

func TestManifest_NamesChanges(t *testing.T) {
	declared := changes
	t.Cleanup(func() { changes = declared })
	changes = "Profile.name\nLeave mail\n"
	var out bytes.Buffer
	if err := run(t.Context(), []string{"manifest"}, &out, &out); err != nil {
		t.Fatal(err)
	}
	var m catalogue.Manifest
	if err := json.Unmarshal(out.Bytes(), &m); err != nil {
		t.Fatal(err)
	}
	if want := []string{"Profile.name", "Leave mail"}; !slices.Equal(m.Changes, want) || m.Validate() != nil {
		t.Errorf("got changes %q, %v, want %q", m.Changes, m.Validate(), want)
	}
}

func TestDatabaseFlag_RefusesPasswordWithoutRepeatingIt(t *testing.T) {
	const secret = "hunter2hunter2"
	for _, url := range []string{"postgres://ada:" + secret + "@127.0.0.1:1/db", "postgres://127.0.0.1:1/db?password=" + secret} {
		var out bytes.Buffer
		err := run(t.Context(), []string{"migrate", "--database", url}, &out, &out)
		if err == nil || !strings.Contains(err.Error(), "PERSONAL_DATABASE") {
			t.Errorf("got %v, want an error that names PERSONAL_DATABASE", err)
		}
		if strings.Contains(out.String(), secret) || err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("got %v and %s, want no password", err, out.String())
		}
	}
}
