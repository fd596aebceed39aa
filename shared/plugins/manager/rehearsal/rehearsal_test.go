package rehearsal

import (
	"encoding/json"
	"os"
	"os/exec"
	"testing"
	"time"
)

// versionOf returns the version of a binary of the plugin.
func versionOf(t *testing.T, binary string) Version {
	t.Helper()
	out, err := exec.Command(binary, "manifest").Output()
	if err != nil {
		t.Fatal(err)
	}
	v := Version{Binary: binary}
	if err := json.Unmarshal(out, &v.Manifest); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestRun_HonestVersionPasses(t *testing.T) {
	v := versionOf(t, os.Getenv("REHEARSAL_BINARY"))
	began := time.Now()
	result, err := Run(t.Context(), Config{Old: &v, New: v, Dir: t.TempDir(), Sockets: t.TempDir(), AccountURL: "https://script.invalid/account"})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(time.Since(began))
	for _, c := range result.Checks {
		t.Logf("%+v", c)
	}
}
