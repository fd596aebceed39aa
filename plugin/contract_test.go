package main

import (
	"bytes"
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/testkit"
	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/plugins/catalogue"
	"github.com/cms-personal/personal/shared/plugins/manager"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

// These tests start the built binary like a host. Clients remember no profiles:
// TestService_ContractOverGRPC of package accounts has them do so.
func TestPlugin_Contract(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		personaltest.Run(t, func(t *testing.T, host personal.Host) personal.Service {
			return rpc.NewClient(startPlugin(t, url, host), host)
		})
	})
}

func TestPlugin_ContractOfRequiredVerification(t *testing.T) {
	personaltest.RunRequiredVerification(t, func(t *testing.T, host personal.Host) personal.Service {
		required := "[registration]\nenabled = true\nemail_verification = \"required\"\n"
		return rpc.NewClient(startPlugin(t, testdb.SQLite(t), host, required), host)
	})
}

func TestPlugin_AdministrationContract(t *testing.T) {
	personaltest.RunAdministration(t, func(t *testing.T, host personal.Host) (personal.Service, personal.Administration) {
		client := rpc.NewClient(startPlugin(t, testdb.SQLite(t), host), host)
		return client, client
	})
}

// startPlugin starts the built binary, with further settings, and stops it when the test
// ends.
func startPlugin(t *testing.T, url string, host personal.Host, further ...string) *manager.Manager {
	t.Helper()
	versions, err := catalogue.Open(t.TempDir())
	if err != nil {
		t.Fatalf("opening a catalogue: %v", err)
	}
	entry, err := versions.Install(t.Context(), testkit.Script(t, testkit.Binaries(t).Plugin))
	if err != nil {
		t.Fatalf("installing the plugin: %v", err)
	}
	if err := versions.SaveState(catalogue.State{Active: entry.Manifest.Version}); err != nil {
		t.Fatalf("activating the plugin: %v", err)
	}
	settings := "[password]\nmemory_kib = 1024\ntime = 1\n[throttle]\nenabled = false\n[two_factor]\nenabled = true\n[sign_in]\nmailed_code = true\n" +
		"[passkeys]\nrp_id = \"" + personaltest.PasskeyDomain + "\"\norigins = [\"" + personaltest.PasskeyOrigin + "\"]\n" +
		strings.Join(further, "")
	manager, err := manager.New(manager.Config{
		Catalogue: versions, Host: host, DatabaseURL: url, RunDir: filepath.Join(t.TempDir(), "run"),
		Settings:   func() ([]byte, error) { return []byte(settings), nil },
		SecretKeys: func() ([][]byte, error) { return [][]byte{bytes.Repeat([]byte("k"), 32)}, nil },
		Log:        slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatalf("creating a manager: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := manager.Stop(ctx); err != nil {
			t.Errorf("stopping the plugin: %v", err)
		}
	})
	if err := manager.Start(); err != nil {
		t.Fatalf("starting the plugin: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := manager.WaitReady(ctx); err != nil {
		t.Fatalf("waiting for the plugin: %v", err)
	}
	return manager
}
