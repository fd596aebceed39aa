package store_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/testkit/testdb"
)

// A process that the database refuses still finishes what it has done: another node would do it
// again.
func TestFinishJobs_WorksWhenTheDatabaseRefusesThisVersion(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		s := migrated(t, url, store.Options{})
		_, err := s.CreateAccount(t.Context(), accounts.Account{LoginKey: "anna", CredentialVersion: 1}, accounts.Session{},
			func(int64) []accounts.NewJob { return []accounts.NewJob{{Kind: "mail"}} })
		if err != nil {
			t.Fatal(err)
		}
		claim := outbox.Claim{Kinds: []outbox.Kind{"mail"}, Lease: time.Minute, N: 1}
		jobs, err := s.ClaimJobs(t.Context(), claim)
		if err != nil || len(jobs) != 1 {
			t.Fatalf("got jobs %v, error %v, want one", jobs, err)
		}
		execute(t, url, fmt.Sprintf("UPDATE personal_schema SET min_compatible = %d", store.SchemaTarget+1))
		var refused *store.SchemaError
		if _, err := s.CheckCompatible(t.Context()); !errors.As(err, &refused) {
			t.Fatalf("got %v, want a refusal", err)
		}
		if err := s.FinishJobs(t.Context(), jobs...); err != nil {
			t.Errorf("finishing the job: %v", err)
		}
		if _, err := s.ClaimJobs(t.Context(), claim); !errors.Is(err, accounts.ErrUnavailable) {
			t.Errorf("claiming more: got error %v, want a refusal", err)
		}
	})
}
