package accounts_test

import (
	"log/slog"
	"testing"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/internal/password"
	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/plugins/rpc/rpctest"
)

// TestService_Contract runs on PostgreSQL. [TestService_ContractOverGRPC] has SQLite, through a client.
func TestService_Contract(t *testing.T) {
	t.Parallel()
	url := testdb.Postgres(t)
	personaltest.Run(t, func(t *testing.T, host personal.Host) personal.Service {
		return newDomain(t, url, host)
	})
}

// The client remembers profiles for as long as it may, as a host's does.
func TestService_ContractOverGRPC(t *testing.T) {
	t.Parallel()
	connect := func(t *testing.T, host personal.Host) personaltest.Contract {
		build := func(host personal.Host) personal.Service { return newDomain(t, testdb.SQLite(t), host) }
		return rpctest.Remembering(t, rpctest.NewConn(t, build, host), host)
	}
	personaltest.Run(t, func(t *testing.T, host personal.Host) personal.Service { return connect(t, host) })
	personaltest.RunAdministration(t, func(t *testing.T, host personal.Host) (personal.Service, personal.Administration) {
		client := connect(t, host)
		return client, client
	})
}

func TestService_ContractOfRequiredVerification(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		personaltest.RunRequiredVerification(t, func(t *testing.T, host personal.Host) personal.Service {
			domain := newDomain(t, url, host, func(s *accounts.Settings) { s.EmailVerification = personal.VerificationRequired })
			domain.RequireVerification(true)
			return domain
		})
	})
}

// On SQLite, through a client: [TestService_ContractOverGRPC].
func TestAdministration_Contract(t *testing.T) {
	t.Parallel()
	url := testdb.Postgres(t)
	personaltest.RunAdministration(t, func(t *testing.T, host personal.Host) (personal.Service, personal.Administration) {
		domain := newDomain(t, url, host)
		return domain, domain
	})
}

// newDomain returns the domain with the database's clock and a running worker.
func newDomain(t *testing.T, url string, host personal.Host, adjust ...func(*accounts.Settings)) *accounts.Service {
	return newDomainOn(t, url, store.Options{}, host, adjust...)
}

// newDomainOn is newDomain with options of the store.
func newDomainOn(
	t *testing.T, url string, o store.Options, host personal.Host, adjust ...func(*accounts.Settings),
) *accounts.Service {
	log := slog.New(slog.DiscardHandler)
	o.Log = log
	db, err := store.Open(t.Context(), url, o)
	if err != nil {
		t.Fatalf("opening the store: %v", err)
	}
	t.Cleanup(func() { db.Close() })
	if err := db.Migrate(t.Context()); err != nil {
		t.Fatalf("migrating: %v", err)
	}
	hasher, err := password.New(password.Params{MemoryKiB: 8, Time: 1, Threads: 1}, 0)
	if err != nil {
		t.Fatalf("making a hasher: %v", err)
	}
	f := &fixture{worker: &outbox.Worker{Store: db, Log: log}}
	settings := testSettings()
	optional(&settings)
	twoFactors(t)(&settings)
	passkeys(&settings)
	mailedCodes(&settings)
	for _, change := range adjust {
		change(&settings)
	}
	service := accounts.New(settings, db, hasher, host, log, f.worker.Wake)
	service.OfferTwoFactor(true)
	f.worker.Handlers = service.Jobs()
	f.work(t)
	return service
}
