package store_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/internal/transfer"
)

func TestFormats_AreListedByImportsAndADailyScan(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
		s := migrated(t, url, store.Options{Clock: func() time.Time { return now }})
		scans := 0
		format := func(hash string) string {
			scans++
			before, _, found := strings.Cut(hash, ":")
			if !found {
				return ""
			}
			return before
		}
		scan := func(current string) {
			t.Helper()
			if err := s.ScanFormats(t.Context(), current, format); err != nil {
				t.Fatal(err)
			}
		}
		want := func(formats ...string) {
			t.Helper()
			got, err := s.Formats(t.Context())
			if err != nil || !slices.Equal(got, formats) {
				t.Errorf("got formats %q, error %v, want %q", got, err, formats)
			}
		}
		add := func(login, hash string, listed ...string) {
			t.Helper()
			batch := []accounts.Account{{Login: login, LoginKey: login, PasswordHash: hash}}
			_, err := s.AddAccounts(t.Context(), batch, func([]transfer.Outcome) transfer.FollowUp {
				return transfer.FollowUp{Formats: listed}
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		add("ada", "slow:1")
		add("bob", "current:1")
		add("eve", "no format")
		want()
		scan("current:")
		want("slow")
		add("kim", "slower:1", "slower")
		want("slow", "slower")
		scans = 0
		now = now.Add(23 * time.Hour)
		scan("current:")
		if scans > 0 {
			t.Error("got a second scan within a day, want none")
		}
		scan("slow:") // the costs have changed
		want("current", "slower")
		now = now.Add(25 * time.Hour)
		if _, err := s.UpdateProfile(t.Context(), 1, func(*accounts.Account) []accounts.NewJob { return nil }); err != nil {
			t.Fatal(err)
		}
		if err := s.DeleteAccount(t.Context(), 4, func(accounts.Account, outbox.Job) []byte { return nil }); err != nil {
			t.Fatal(err)
		}
		scan("slow:")
		want("current")

		const jump = 365 * 24 * time.Hour // of a clock that returns
		now = now.Add(jump)
		scan("slow:")
		now = now.Add(-jump)
		scans = 0
		scan("slow:")
		if scans == 0 {
			t.Error("got no scan after one in the future, want one")
		}
	})
}
