// Package storetest is the contract suite of the store, which runs on each database.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/internal/password"
	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/userfields"
)

// Store is the store under test.
type Store interface {
	accounts.Store
	outbox.Store
	transferStore
	Prune(ctx context.Context, o store.PruneOptions) error
	SecretKeys(ctx context.Context) ([]string, error)
	Classes(ctx context.Context) ([]password.Interval, error)
	UpdateClasses(ctx context.Context, h *password.Hasher, imported bool) error
}

// Open returns a store on an empty database with the schema in place, closed
// when the test ends, for which the given clock is the database's.
type Open func(t *testing.T, clock func() time.Time) Store

// Run runs the suite.
func Run(t *testing.T, open Open) {
	for _, g := range []group{
		{"accounts", accountCases},
		{"administration", administrationCases},
		{"sessions", sessionCases},
		{"mails", mailCases},
		{"verification", verificationCases},
		{"deletion", deletionCases},
		{"two factors", twoFactorCases},
		{"proofs", proofCases},
		{"passkeys", passkeyCases},
		{"mailed codes", mailedCodeCases},
		{"identities", identityCases},
		{"other ways in", wayInCases},
		{"attempts", attemptCases},
		{"jobs", jobCases},
		{"exports", exportCases},
		{"explanations", explainCases},
		{"user fields", fieldsCases},
		{"transfer", transferCases},
		{"classes", classCases},
		{"pruning", pruneCases},
		{"times", timeCases},
		{"races", slices.Concat(raceCases, attemptRaces, deletionRaces, explainRaces, fieldsRaces, identityRaces, jobRaces,
			twoFactorRaces, verificationRaces)},
	} {
		t.Run(g.name, func(t *testing.T) {
			for _, c := range g.cases {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel() // no other one uses its database
					c.test(t, newWorld(t, open))
				})
			}
		})
	}
}

type group struct {
	name  string
	cases []testCase
}

type testCase struct {
	name string // a condition and its outcome
	test func(t *testing.T, w *world)
}

// nobody is an id that no account has: ids only grow, also where a test database is used again.
const nobody int64 = 1 << 40

// world is a store with a clock and the means to fill it.
type world struct {
	Store
	t    *testing.T
	mu   sync.Mutex
	time time.Time
	made int
}

func newWorld(t *testing.T, open Open) *world {
	w := &world{t: t, time: time.Date(2026, 3, 1, 12, 0, 0, 123456000, time.UTC)}
	w.Store = open(t, w.now)
	return w
}

func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.time
}

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.time = w.time.Add(d)
}

// number returns a different number at each call.
func (w *world) number() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.made++
	return w.made
}

func (w *world) newAccount() accounts.Account {
	login := fmt.Sprintf("User%d", w.number())
	return accounts.Account{
		Login: login, LoginKey: "key of " + login,
		Email:        accounts.Email{Address: login + "@Example.org", Key: login + "@example.org"},
		PasswordHash: "first hash", CredentialVersion: 1,
		Fields:  userfields.Values{"city": "Omsk"},
		Created: w.Now(), Updated: w.Now(),
	}
}

func (w *world) newSession(account int64) accounts.Session {
	s := accounts.Session{
		AccountID: account, Current: digest("newest", w.number()),
		Created: w.Now(), Rotated: w.Now(), LastSeen: w.Now(),
		Address: "192.0.2.1", Agent: "a browser", Method: personal.MethodPassword,
		Marks: []accounts.RotationMark{{Time: w.Now()}},
	}
	key, selector := digest("chain", w.number()), digest("selector", w.number())
	copy(s.ChainKey[:], key[:])
	copy(s.Selector[:], selector[:])
	return s
}

// renewed returns a session with other secrets.
func (w *world) renewed(s accounts.Session) accounts.Session {
	fresh := w.newSession(s.AccountID)
	fresh.ID, fresh.Created = s.ID, s.Created
	return fresh
}

// create stores a new account with a first session and returns both as stored.
func (w *world) create(a accounts.Account) (accounts.Account, accounts.Session) {
	w.t.Helper()
	first := w.newSession(0)
	_, err := w.CreateAccount(w.t.Context(), a, first, noJobs)
	w.must(err)
	session, account, err := w.FindSession(w.t.Context(), first.Selector, accounts.WholeAccount)
	w.must(err)
	return account, session
}

func (w *world) createAny() (accounts.Account, accounts.Session) {
	w.t.Helper()
	return w.create(w.newAccount())
}

// passwordHash is a hash that some password matches.
const passwordHash = "$argon2id$v=19$m=8,t=1,p=1$MDEyMzQ1Njc$SXQgaXMgbm90IGEgcGFzcw"

// createWithPassword creates an account that keeps a way in.
func (w *world) createWithPassword() (accounts.Account, accounts.Session) {
	w.t.Helper()
	a := w.newAccount()
	a.PasswordHash = passwordHash
	return w.create(a)
}

func (w *world) account(id int64) accounts.Account {
	w.t.Helper()
	a, err := w.UpdateProfile(w.t.Context(), id, func(*accounts.Account) []accounts.NewJob { return nil })
	w.must(err)
	return a
}

// always are the lifetimes with which every session is alive.
var always = accounts.Lifetimes{}

func (w *world) sessions(account int64) []accounts.Session {
	w.t.Helper()
	s, err := w.Sessions(w.t.Context(), account, always)
	w.must(err)
	return s
}

// OpenSession is the store's, without the account.
func (w *world) OpenSession(ctx context.Context, o accounts.OpenSession) error {
	_, err := w.Store.OpenSession(ctx, o)
	return err
}

// TouchSession is the store's, without marks.
func (w *world) TouchSession(ctx context.Context, id int64, current [32]byte, used bool) error {
	return w.Store.TouchSession(ctx, accounts.SessionTouch{ID: id, Current: current, Used: used})
}

// FindMailToken is the store's, for tokens that live for 30 minutes at most.
func (w *world) FindMailToken(ctx context.Context, p accounts.MailPurpose, digest [32]byte) (accounts.Account, error) {
	return w.Store.FindMailToken(ctx, p, digest, 30*time.Minute)
}

// open opens one more session of the account, with a high limit.
func (w *world) open(a accounts.Account) accounts.Session {
	w.t.Helper()
	s := w.newSession(a.ID)
	w.must(w.OpenSession(w.t.Context(), accounts.OpenSession{Session: s, CredentialVersion: a.CredentialVersion, MaxSessions: 100}))
	return w.session(s)
}

// session returns the stored session with the selector of s. It checks that the parts
// of an account agree.
func (w *world) session(s accounts.Session) accounts.Session {
	w.t.Helper()
	found, account, err := w.FindSession(w.t.Context(), s.Selector, accounts.WholeAccount)
	w.must(err)
	slim, state := found, accounts.Account{ID: account.ID, Disabled: account.Disabled}
	slim.Address, slim.Agent, slim.Method, slim.Proof = "", "", "", accounts.Proof{}
	profile := state
	profile.Login, profile.Name, profile.Email.Address, profile.Fields = account.Login, account.Name, account.Email.Address, account.Fields
	profile.TwoFactor.Secret.Key, profile.PasswordHash = account.TwoFactor.Secret.Key, account.PasswordHash
	for part, want := range []accounts.Account{accounts.AccountState: state, accounts.AccountProfile: profile} {
		gotSession, got, err := w.FindSession(w.t.Context(), s.Selector, accounts.AccountPart(part))
		w.must(err)
		if diff := cmp.Diff(slim, gotSession) + cmp.Diff(want, got); diff != "" || gotSession.ChainKey != slim.ChainKey {
			w.t.Errorf("found with part %d of the account: %s", part, diff)
		}
	}
	return found
}

// kindsDue claims all due jobs and returns their kinds, the oldest first.
func (w *world) kindsDue() []outbox.Kind {
	w.t.Helper()
	jobs, err := w.ClaimJobs(w.t.Context(), outbox.Claim{Kinds: []outbox.Kind{"mail", "event"}, N: 1000, Lease: time.Minute})
	w.must(err)
	kinds := []outbox.Kind{}
	for _, j := range jobs {
		kinds = append(kinds, j.Kind)
	}
	return kinds
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) wantError(got, want error) {
	w.t.Helper()
	if !errors.Is(got, want) {
		w.t.Fatalf("got error %v, want %v", got, want)
	}
}

func (w *world) wantTaken(got error, want accounts.TakenError) {
	w.t.Helper()
	var taken *accounts.TakenError
	if !errors.As(got, &taken) || *taken != want {
		w.t.Fatalf("got error %v, want %v", got, &want)
	}
}

// removing returns the jobs of a recovery, or of the removal of a second factor by its user, whatever
// they remove and leave.
func removing(jobs ...accounts.NewJob) func(accounts.OtherWays) []accounts.NewJob {
	return func(accounts.OtherWays) []accounts.NewJob { return jobs }
}

func noJobs(int64) []accounts.NewJob { return nil }

func job(kind outbox.Kind) accounts.NewJob {
	return accounts.NewJob{Kind: kind, Payload: []byte(`{"a": 1}`)}
}

// digest is a made-up digest.
func digest(what string, n int) (d [32]byte) {
	copy(d[:], fmt.Sprintf("%08d %s", n, what))
	return d
}

// atOnce runs f n times concurrently and returns the errors.
func atOnce(n int, f func(i int) error) []error {
	start := make(chan struct{})
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			<-start
			errs[i] = f(i)
		})
	}
	close(start)
	all.Wait()
	return errs
}

// count counts the errors that are the target; nil counts the successes.
func count(errs []error, target error) (n int) {
	for _, err := range errs {
		if errors.Is(err, target) {
			n++
		}
	}
	return n
}

// removed removes the account's jobs, and keeps those of no account.
func removed(_ accounts.Account, j outbox.Job) []byte {
	if j.AccountID == 0 {
		return j.Payload
	}
	return nil
}

// recovered and changed return the jobs of a recovery and of a change of the password, whatever
// becomes of passkeys.

func changed(jobs ...accounts.NewJob) func(removed, left accounts.OtherWays) []accounts.NewJob {
	return func(accounts.OtherWays, accounts.OtherWays) []accounts.NewJob { return jobs }
}

// ended returns the jobs of an administrator's removal of a second factor, whatever it removes.
func ended(jobs ...accounts.NewJob) func(before accounts.Account, removed, left accounts.OtherWays) []accounts.NewJob {
	return func(accounts.Account, accounts.OtherWays, accounts.OtherWays) []accounts.NewJob { return jobs }
}
