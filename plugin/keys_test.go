package main

import (
	"bytes"
	"errors"
	"log/slog"
	"testing"

	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

func TestModule_RefusesInvalidSecretKeys(t *testing.T) {
	build := builder(newMeasurements(), slog.New(slog.DiscardHandler), nil)
	_, err := build(t.Context(), rpc.Configuration{
		DatabaseURL: testdb.SQLite(t), SecretKeys: [][]byte{bytes.Repeat([]byte("k"), 32), []byte("SecretSesame")},
	}, &personaltest.Host{})
	var permanent *rpc.PermanentError
	if !errors.As(err, &permanent) || permanent.Reason != "secret keys: secret key 2 has 12 bytes, not 32" {
		t.Errorf("got %v, want a permanent error with the number of the key", err)
	}
}
