package main

import (
	"bytes"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"

	"github.com/cms-personal/personal/shared/personal"
)

func TestPublishEvent_IsLogged(t *testing.T) {
	var log bytes.Buffer
	c := &callbacks{log: slog.New(slog.NewTextHandler(&log, nil))}
	e := personal.Event{ID: "e1", Type: personal.EventSignedIn, UserID: 42, Address: "192.0.2.1", RequestID: "r"}
	if err := c.PublishEvent(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	if got, want := log.String(), `msg="account event" type=signed_in user_id=42 request_id=r`+"\n"; !strings.HasSuffix(got, want) {
		t.Errorf("the log holds %q, want it to end with %q", got, want)
	}
}

func TestWithoutASettingsFileLinksLeadToTheListener(t *testing.T) {
	data, err := settingsSource("", "http://127.0.0.1:8080", true)()
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]map[string]string
	if err := toml.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if url := got["recovery"]["url"]; url != "http://127.0.0.1:8080/account/recover#token={token}" {
		t.Errorf("recovery.url is %q", url)
	}
	if url := got["email"]["url"]; url != "http://127.0.0.1:8080/account/email#token={token}" {
		t.Errorf("email.url is %q", url)
	}
}

func TestASettingsFileIsReadAnewAtEveryStart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "settings.toml")
	source := settingsSource(path, "http://127.0.0.1:8080", true)
	if _, err := source(); err == nil {
		t.Error("a file that is not there was read")
	}
	for _, want := range []string{"not even TOML", "[session]\n"} {
		if err := os.WriteFile(path, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := source(); err != nil || string(got) != want {
			t.Errorf("settings are %q, %v; want %q", got, err, want)
		}
	}
}

func TestTheListenersURLCanBeCalled(t *testing.T) {
	for addr, want := range map[string]string{
		"127.0.0.1:80":    "http://127.0.0.1:80",
		"0.0.0.0:8080":    "http://127.0.0.1:8080",
		"[::]:8080":       "http://127.0.0.1:8080",
		"[::1]:8080":      "http://[::1]:8080",
		"192.0.2.1:65535": "http://192.0.2.1:65535",
	} {
		tcp, err := net.ResolveTCPAddr("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		if got := listenURL(tcp); got != want {
			t.Errorf("listenURL(%s) = %s, want %s", addr, got, want)
		}
	}
}

func TestAHostWithoutAPluginLeavesTheDataFolderToOthers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	for range 2 {
		code, _, stderr := runCommand(t, "serve", "--data", dir, "--addr", "127.0.0.1:0")
		if code != 1 || !strings.Contains(stderr, errNoPlugin.Error()) {
			t.Errorf("exit code %d, standard error %q", code, stderr)
		}
	}
}

func TestThePluginCommandWorksOnAnEmptyCatalogue(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	if code, stdout, stderr := runCommand(t, "plugin", "--data", dir, "list"); code != 0 || stdout != "" {
		t.Errorf("list: exit code %d, %q, %q", code, stdout, stderr)
	}
	if code, _, stderr := runCommand(t, "plugin", "remove", "1.0.0", "--data", dir); code != 1 || !strings.Contains(stderr, "1.0.0") {
		t.Errorf("remove: exit code %d, %q", code, stderr)
	}
	if code, _, stderr := runCommand(t, "plugin", "install", dir, "--data", dir); code != 1 || stderr == "" {
		t.Errorf("install of a folder: exit code %d, %q", code, stderr)
	}
}
