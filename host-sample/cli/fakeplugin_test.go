package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/plugins/catalogue"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

// TestMain makes the test binary a plugin too: it prints its manifest when run with
// `manifest`, and serves a fake when a host starts it.
func TestMain(m *testing.M) {
	switch {
	case len(os.Args) > 1 && os.Args[len(os.Args)-1] == "manifest":
		printManifest()
	case rpc.UnderHandshake():
		rpc.Serve(buildFake, rpc.ServeOptions{})
	default:
		os.Exit(m.Run())
	}
}

// fakeVersion is the version of the test binary, unless its first argument is asVersion and another.
const (
	fakeVersion = "1.0.0"
	asVersion   = "-version="
)

// ownVersion returns the version of the running fake.
func ownVersion() string {
	if len(os.Args) > 1 {
		if version, found := strings.CutPrefix(os.Args[1], asVersion); found {
			return version
		}
	}
	return fakeVersion
}

// fake returns the path of a fake of a version: a script that becomes the test binary, which is
// large to copy and to verify.
func fake(t *testing.T, version string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fake")
	text := fmt.Sprintf("#!/bin/sh\nexec '%s' %s%s \"$@\"\n", testBinary(t), asVersion, version)
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func printManifest() {
	one := catalogue.Range{Min: 1, Max: 1}
	_ = json.NewEncoder(os.Stdout).Encode(catalogue.Manifest{
		Name: catalogue.Name, Version: ownVersion(), Protocol: one, Schema: one,
		OS: runtime.GOOS, Arch: runtime.GOARCH,
	})
}

// Settings that change how the fake starts.
const (
	refuses = "refuse"
	away    = "database unavailable"
	needs   = "need one secret key"
)

func buildFake(_ context.Context, c rpc.Configuration, host personal.Host) (rpc.Module, error) {
	switch strings.TrimSpace(string(c.Settings)) {
	case refuses:
		return nil, &rpc.PermanentError{Reason: "settings: session.idle: must be 1s or longer"}
	case away:
		return nil, errors.New("the database is unavailable")
	case needs:
		if len(c.SecretKeys) != 1 || len(c.SecretKeys[0]) != 32 {
			return nil, &rpc.PermanentError{Reason: fmt.Sprintf("got %d secret keys", len(c.SecretKeys))}
		}
	}
	return &fakeModule{host: host, database: c.DatabaseURL}, nil
}

// fakeModule calls its host as a real module does.
type fakeModule struct {
	host     personal.Host
	database string
}

// Service returns a service whose Fields come from the host, and whose Recover sends
// a mail and an event.
func (m *fakeModule) Service() personal.Service {
	s := signedInService()
	s.FieldsFunc = func(ctx context.Context) ([]personal.Field, error) {
		schema, err := m.host.UserFields(ctx)
		return schema.Fields, err
	}
	s.RecoverFunc = func(ctx context.Context, r personal.RecoverRequest) error {
		mail := personal.Mail{ID: "m1", To: r.Email, Subject: "Hello", Text: "token\n", HTML: "<p>token</p>"}
		event := personal.Event{ID: "e1", Type: personal.EventRecoveryRequested, UserID: 42}
		return errors.Join(m.host.SendMail(ctx, mail), m.host.PublishEvent(ctx, event))
	}
	return s
}

func (*fakeModule) Administration() personal.Administration { return &personaltest.Administration{} }

func (*fakeModule) Preflight(context.Context) (rpc.PreflightResult, error) {
	return rpc.PreflightResult{}, nil
}

// Migrate creates the database file, which proves that the URL arrived.
func (m *fakeModule) Migrate(context.Context, time.Duration) error {
	return os.WriteFile(strings.TrimPrefix(m.database, "sqlite://"), nil, 0o600)
}

func (*fakeModule) Activate(context.Context) error           { return nil }
func (*fakeModule) Quiesce(context.Context) error            { return nil }
func (*fakeModule) Health(context.Context) ([]string, error) { return nil, nil }
func (*fakeModule) Settle(context.Context) error             { return nil }
func (*fakeModule) CheckDatabase(context.Context) error      { return nil }

func (*fakeModule) Accepts(context.Context, personal.Credentials, []byte) (bool, error) {
	return false, nil
}

func (*fakeModule) Turn(context.Context, time.Duration, bool, bool) (rpc.Turn, error) {
	return rpc.Turn{}, rpc.ErrNotScratch
}

func (*fakeModule) Metrics(context.Context) ([]byte, error) { return nil, nil }

func (*fakeModule) Close() error { return nil }

// testBinary is the path of the plugin.
func testBinary(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// settingsFile returns the path of a new file with the given text.
func settingsFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "settings.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
