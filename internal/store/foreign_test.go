package store_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/password"
	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/internal/transfer"
	"github.com/cms-personal/personal/shared/personal"
)

// What version 0.1.0 does is done here by its statements.
func TestForeignHash_CountsUntilAnOlderVersionReplacesThePlaceholder(t *testing.T) {
	const bcrypt = "$2y$05$32NViFI06tEIA85AKhLuI.oKKe.Pz.nndt.Dl8nJiju5UIxRBJkRy"
	const waiting = "$waits$$P$BfEAVu23ObjBkUbr6.1RaiASnSr9u9/"
	const own = "$argon2id$v=19$m=64,t=1,p=1$c2FsdHNhbHRzYWx0c2FsdA$MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY"
	testdb.Databases(t, func(t *testing.T, url string) {
		s := migrated(t, url, store.Options{Costs: password.Params{MemoryKiB: 72, Time: 3, Threads: 1}})
		add := func(login, hash string) int64 {
			t.Helper()
			batch := []accounts.Account{{Login: login, LoginKey: login, PasswordHash: hash, CredentialVersion: 1}}
			added, err := s.AddAccounts(t.Context(), batch, func([]transfer.Outcome) transfer.FollowUp { return transfer.FollowUp{} })
			if err != nil {
				t.Fatal(err)
			}
			return added[0].ID
		}
		hash := func(login string) string {
			t.Helper()
			a, err := s.FindAccount(t.Context(), accounts.AccountQuery{LoginKey: login})
			if err != nil {
				t.Fatal(err)
			}
			page, err := s.AccountsAfter(t.Context(), a.ID-1, 1)
			if err != nil || page[0].PasswordHash != a.PasswordHash {
				t.Errorf("got %q in an export (%v), want %q", page[0].PasswordHash, err, a.PasswordHash)
			}
			return a.PasswordHash
		}
		column := func(login string) string {
			t.Helper()
			return value[string](t, url, "SELECT password_hash FROM personal_accounts WHERE login = '"+login+"'")
		}
		var ids []int64
		for login, encoded := range map[string]string{"ada": bcrypt, "bob": waiting, "eve": password.Unusable, "kim": own} {
			ids = append(ids, add(login, encoded))
			if got := hash(login); got != encoded {
				t.Errorf("%s: got %q, want %q", login, got, encoded)
			}
			if got := column(login); got != encoded && !strings.HasPrefix(got, "$argon2id$v=19$m=72,t=3,p=1$") {
				t.Errorf("%s: got %q for an older version, want an Argon2id with the costs of new hashes", login, got)
			}
		}
		if one, other := column("ada"), column("eve"); one == other {
			t.Error("got the same placeholder twice")
		}
		if all, left, err := s.CountAccounts(t.Context()); err != nil || all != 4 || left != 1 {
			t.Errorf("got %d of %d waiting, %v, want 1 of 4", left, all, err)
		}
		var listed []string
		if err := s.ScanFormats(t.Context(), "$argon2id$v=19$", func(hash string) string {
			listed = append(listed, hash)
			return password.Format(hash)
		}); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(listed, " "); !strings.Contains(got, bcrypt) || !strings.Contains(got, waiting) ||
			strings.Contains(got, "$argon2id$") {
			t.Errorf("got %q to be listed, want the hashes that count", listed)
		}
		execute(t, url, "UPDATE personal_accounts SET password_hash = '"+own+"', credential_version = credential_version + 1")
		for _, login := range []string{"ada", "bob", "eve", "kim"} {
			if got := hash(login); got != own {
				t.Errorf("%s: got %q after an older version, want its hash", login, got)
			}
		}
		const wrapped = "$argon2id-of$v=19$m=64,t=1,p=1$c2FsdHNhbHRzYWx0c2FsdA$MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY$$P$BfEAVu23O"
		bob, err := s.FindAccount(t.Context(), accounts.AccountQuery{LoginKey: "bob"})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.ReplaceHash(t.Context(), bob.ID, waiting, wrapped); err != nil {
			t.Fatal(err)
		}
		if got := hash("bob"); got != own {
			t.Errorf("wrapped after an older version set a password: got %q, want that password's hash", got)
		}
		bare, err := s.BareHashes(t.Context(), ids)
		if err != nil || len(bare) > 0 {
			t.Errorf("got %v to wrap, %v, want none", bare, err)
		}
	})
}

func TestForeignHash_EndsWithANewPassword(t *testing.T) {
	const bcrypt = "$2y$05$32NViFI06tEIA85AKhLuI.oKKe.Pz.nndt.Dl8nJiju5UIxRBJkRy"
	const own = "$argon2id$v=19$m=64,t=1,p=1$c2FsdHNhbHRzYWx0c2FsdA$MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY"
	for name, set := range map[string]func(ctx context.Context, s *store.Store, a accounts.Account) error{
		"changed": func(ctx context.Context, s *store.Store, a accounts.Account) error {
			session := accounts.Session{
				AccountID: a.ID, Current: [32]byte{1}, Created: s.Now(), Rotated: s.Now(), LastSeen: s.Now(), Method: personal.MethodPassword,
				Marks: []accounts.RotationMark{{Time: s.Now()}},
			}
			if _, err := s.OpenSession(ctx, accounts.OpenSession{Session: session, CredentialVersion: 1, MaxSessions: 100}); err != nil {
				return err
			}
			session, _, err := s.FindSession(ctx, session.Selector, accounts.AccountState)
			if err != nil {
				return err
			}
			return s.ReplacePassword(ctx, a, own, accounts.KeptSession{Session: session}, accounts.CodeUse{}, false,
				func(int, int) []accounts.NewJob { return nil })
		},
		"recovered": func(ctx context.Context, s *store.Store, a accounts.Account) error {
			token := accounts.MailToken{
				AccountID: a.ID, Purpose: accounts.PurposeRecovery, Digest: [32]byte{1}, CredentialVersion: a.CredentialVersion, AccountEmailKey: a.Email.Key,
				Expires: s.Now().Add(time.Hour),
			}
			if err := s.AddMailToken(ctx, token); err != nil {
				return err
			}
			return s.RedeemRecovery(ctx, token.Digest, own, accounts.KnownAt{}, func(accounts.Removed) []accounts.NewJob { return nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			testdb.Databases(t, func(t *testing.T, url string) {
				s := migrated(t, url, store.Options{})
				a := accounts.Account{Login: "ada", LoginKey: "ada", PasswordHash: bcrypt, CredentialVersion: 1}
				a.Email, _ = accounts.ParseEmail("ada@example.org")
				added, err := s.AddAccounts(t.Context(), []accounts.Account{a}, func([]transfer.Outcome) transfer.FollowUp {
					return transfer.FollowUp{}
				})
				if err != nil {
					t.Fatal(err)
				}
				a.ID = added[0].ID
				if err := set(t.Context(), s, a); err != nil {
					t.Fatal(err)
				}
				if left := value[int](t, url, "SELECT count(*) FROM personal_accounts WHERE foreign_hash IS NOT NULL OR password_hash <> '"+own+"'"); left != 0 {
					t.Error("got the imported hash beside the new password's")
				}
			})
		})
	}
}
