package transfer_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/password"
	"github.com/cms-personal/personal/internal/seal"
	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/transfer"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/userfields"
)

const (
	phrase = "correct horse"
	md5    = "3cb4e732631f47e6eb961f34554b7cde" // of the phrase
	bcrypt = "$2y$05$32NViFI06tEIA85AKhLuI.oKKe.Pz.nndt.Dl8nJiju5UIxRBJkRy"
)

func openStore(t *testing.T, url string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), url, store.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

func cheapHasher(t *testing.T) *password.Hasher {
	t.Helper()
	h, err := password.New(password.Params{MemoryKiB: 16, Time: 1, Threads: 1}, 0)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

var fields = []personal.Field{
	{Name: "city", Type: personal.TypeEnum, Options: []personal.Option{{Value: "kazan"}, {Value: "omsk"}}},
	{Name: "age", Type: personal.TypeInteger},
	{Name: "interests", Type: personal.TypeTags, MaxLength: 10},
	{Name: "vip", Type: personal.TypeBoolean, ReadOnly: true},
	{Name: "role", Type: personal.TypeText, ReadOnly: true},
	{Name: "team", Type: personal.TypeTags, ReadOnly: true},
	{Name: "street", Type: personal.TypeLongText, Required: true},
}

func schema(t *testing.T) *userfields.Schema {
	t.Helper()
	s, err := userfields.Compile(fields)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// keyring returns the keys with some numbers.
func keyring(t *testing.T, numbers ...byte) *seal.Keyring {
	t.Helper()
	var keys [][]byte
	for _, n := range numbers {
		keys = append(keys, bytes.Repeat([]byte{n}, seal.KeySize))
	}
	k, err := seal.New(keys)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// run is an import with its reports.
type run struct {
	transfer.Import
	report strings.Builder
	shown  []transfer.Progress
}

func newRun(t *testing.T, s transfer.Store) *run {
	r := &run{Import: transfer.Import{Store: s, Schema: schema(t), Wrapper: cheapHasher(t), Keys: keyring(t, 1, 2), Strict: true}}
	r.Refused = func(line int, reason string) error {
		fmt.Fprintf(&r.report, "%d: %s\n", line, reason)
		return nil
	}
	r.LeftOut = func(line int, reason string) error {
		fmt.Fprintf(&r.report, "%d: left out: %s\n", line, reason)
		return nil
	}
	r.Renamed = func(transfer.Renaming) error { return nil }
	r.Progress = func(p transfer.Progress) { r.shown = append(r.shown, p) }
	return r
}

func (r *run) file(t *testing.T, format transfer.Format, text string) transfer.Progress {
	t.Helper()
	done, err := r.Run(t.Context(), transfer.File{ReadSeeker: strings.NewReader(text), Format: format})
	if err != nil {
		t.Fatal(err)
	}
	return done
}

func account(t *testing.T, s *store.Store, login string) accounts.Account {
	t.Helper()
	found, err := s.FindAccount(t.Context(), accounts.AccountQuery{LoginKey: login})
	if err != nil {
		t.Fatalf("%s: %v", login, err)
	}
	a, err := s.Account(t.Context(), found.ID)
	if err != nil {
		t.Fatalf("%s: %v", login, err)
	}
	return a
}

func export(t *testing.T, s *store.Store) string {
	t.Helper()
	var out bytes.Buffer
	if _, err := transfer.Export(t.Context(), s, &out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}
