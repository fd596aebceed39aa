package accounts_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/testkit"
	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/internal/throttle"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
)

// These tests record what callers of two nodes see while connections to the database fail, and
// look for an order of the operations that explains all responses (linearizability). An
// operation that failed for the network may have taken effect or not, at any later time. Each
// model has a wrong twin, which must not explain a history without such failures.

// outcome is what a caller saw.
type outcome string

const (
	done     outcome = "done"
	declined outcome = "declined"
	unclear  outcome = "unclear"
)

func outcomeOf(err error) outcome {
	switch code := personal.CodeOf(err); {
	case err == nil:
		return done
	case code == personal.CodeUnavailable || code == personal.CodeInternal:
		return unclear
	}
	return declined
}

// history records operations.
type history struct {
	began time.Time

	mu         sync.Mutex
	operations []porcupine.Operation
	accepted   int
	unclear    int
}

func newHistory() *history { return &history{began: time.Now()} }

// do records one operation. The result of call is what the model compares.
func do[In, Out any](h *history, client int, in In, call func() (Out, outcome)) Out {
	start := time.Since(h.began)
	out, seen := call()
	end := time.Since(h.began)
	if seen == unclear { // it may take effect until the end
		end = 1 << 60
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch seen {
	case done:
		h.accepted++
	case unclear:
		h.unclear++
	}
	h.operations = append(h.operations, porcupine.Operation{ClientId: client, Input: in, Output: out, Call: int64(start), Return: int64(end)})
	return out
}

// check compares the history with a model, and with a wrong one.
func (h *history) check(t *testing.T, right, wrong porcupine.NondeterministicModel) {
	t.Helper()
	const patience = time.Minute
	if got := porcupine.CheckOperationsTimeout(right.ToModel(), h.operations, patience); got != porcupine.Ok {
		for _, o := range h.operations {
			t.Logf("%d: %+v -> %+v [%d, %d]", o.ClientId, o.Input, o.Output, o.Call, o.Return)
		}
		t.Fatalf("got %s, want that an order of the operations explains the %d responses", got, len(h.operations))
	}
	if h.unclear > 0 || h.accepted == 0 {
		return // a history that says little may suit both
	}
	if got := porcupine.CheckOperationsTimeout(wrong.ToModel(), h.operations, patience); got != porcupine.Illegal {
		t.Errorf("got %s with the wrong model, want that it explains nothing", got)
	}
}

// single is a model with one initial state.
func single[S comparable, In, Out any](initial S, step func(S, In, Out) []S) porcupine.NondeterministicModel {
	return porcupine.NondeterministicModel{
		Init: func() []any { return []any{initial} },
		Step: func(state, in, out any) (next []any) {
			for _, s := range step(state.(S), in.(In), out.(Out)) {
				next = append(next, s)
			}
			return next
		},
	}
}

// nodes are two processes on one database.
type nodes struct {
	*testing.T
	services [2]*accounts.Service
	host     *personaltest.Host
	proxies  []*testkit.FaultProxy // one for each process; none on SQLite
	seed     uint64
}

// lose has the proxies inject faults at a rate, which is 0.03 when a test begins.
func (n nodes) lose(rate float64) {
	for i, proxy := range n.proxies {
		proxy.Random(n.seed+uint64(i), rate)
	}
}

func onTwoNodes(t *testing.T, adjust func(*accounts.Settings), test func(t *testing.T, n nodes)) {
	t.Helper()
	testdb.Databases(t, func(t *testing.T, url string) {
		n := nodes{T: t, host: hostWithoutFields(), seed: rand.Uint64()}
		t.Logf("seed %d", n.seed)
		for i := range n.services {
			if strings.HasPrefix(url, "sqlite:") {
				n.services[i] = newDomain(t, url, n.host, adjust)
				continue
			}
			proxy, through := testkit.NewFaultProxy(t, url)
			n.services[i] = newDomain(t, through, n.host, adjust)
			n.proxies = append(n.proxies, proxy)
		}
		n.lose(0.03)
		test(t, n)
	})
}

func withoutVerification(s *accounts.Settings) { s.EmailVerification = personal.VerificationOff }

// insist repeats what prepares a test until it succeeds.
func insist[T any](t *testing.T, try func() (T, error)) T {
	t.Helper()
	for {
		result, err := try()
		if err == nil {
			return result
		}
		if outcomeOf(err) != unclear || t.Context().Err() != nil {
			t.Fatal(err)
		}
	}
}

const firstPassword = "the first password"

func (n nodes) register(login string) personal.Credentials {
	n.Helper()
	for try := 0; ; try++ {
		name := fmt.Sprint(login, "-", try) // an earlier try may have taken the login
		in, err := n.services[0].Register(n.Context(), personal.RegisterRequest{
			Login: name, Email: name + "@example.com", Password: firstPassword, ConfirmPassword: firstPassword,
		})
		if err == nil {
			return in.Credentials
		}
		if outcomeOf(err) != unclear {
			n.Fatal(err)
		}
	}
}

// loginOf returns the login of a user of register.
func (n nodes) loginOf(c personal.Credentials) string {
	n.Helper()
	return insist(n.T, func() (personal.UserRecord, error) { return n.services[0].User(n.Context(), c.UserID) }).Login
}

// state is that of an account.
type state struct {
	password string
	disabled bool
}

// change is an operation on an account: a sign-in, a new password in place of another one, or
// the switch of an administrator.
type change struct {
	signIn, from, to string
	disable, enable  bool
}

func accountStep(ignoreDisabled bool) func(state, change, outcome) []state {
	return func(s state, c change, out outcome) []state {
		next := s
		possible := true
		switch {
		case c.signIn != "":
			possible = s.password == c.signIn && (ignoreDisabled || !s.disabled)
			if out == declined && possible {
				return nil
			}
		case c.to != "":
			possible = s.password == c.from && (ignoreDisabled || !s.disabled)
			next.password = c.to
		case c.disable:
			next.disabled = true
		case c.enable:
			next.disabled = false
		}
		switch {
		case out == done && !possible:
			return nil
		case out == done:
			return []state{next}
		case out == unclear && possible:
			return []state{s, next}
		}
		return []state{s} // a change may be declined because its session has ended
	}
}

func TestLinearizable_PasswordAndStateOfAnAccount(t *testing.T) {
	onTwoNodes(t, withoutVerification, func(t *testing.T, n nodes) {
		h := newHistory()
		user := n.register("anna")
		login := n.loginOf(user)
		passwords := []string{firstPassword, "the second password", "the third password"}
		var all sync.WaitGroup
		for client := range 4 {
			service := n.services[client%2]
			all.Go(func() {
				random := rand.New(rand.NewPCG(uint64(client), 1))
				for range 12 {
					password := passwords[random.IntN(len(passwords))]
					var credentials personal.Credentials
					signedIn := do(h, client, change{signIn: password}, func() (outcome, outcome) {
						in, err := service.Authorize(t.Context(), personal.AuthorizeRequest{Login: login, Password: password})
						credentials = in.Credentials
						return outcomeOf(err), outcomeOf(err)
					})
					if signedIn == done && random.IntN(2) == 0 {
						next := passwords[(slices.Index(passwords, password)+1+random.IntN(len(passwords)-1))%len(passwords)]
						do(h, client, change{from: password, to: next}, func() (outcome, outcome) {
							_, err := service.ChangePassword(t.Context(), personal.ChangePasswordRequest{
								Credentials: credentials, OldPassword: password, Password: next, ConfirmPassword: next,
							})
							return outcomeOf(err), outcomeOf(err)
						})
					}
				}
			})
		}
		all.Go(func() {
			for i := range 6 {
				c := change{disable: i%2 == 0, enable: i%2 == 1}
				do(h, 9, c, func() (outcome, outcome) {
					var err error
					if c.disable {
						err = n.services[i/2%2].DisableUser(t.Context(), user.UserID)
					} else {
						err = n.services[i/2%2].EnableUser(t.Context(), user.UserID)
					}
					return outcomeOf(err), outcomeOf(err)
				})
				// A sign-in by the same caller sees the switch.
				do(h, 9, change{signIn: firstPassword}, func() (outcome, outcome) {
					_, err := n.services[(i/2+1)%2].Authorize(t.Context(), personal.AuthorizeRequest{Login: login, Password: firstPassword})
					return outcomeOf(err), outcomeOf(err)
				})
			}
		})
		all.Wait()
		initial := state{password: firstPassword}
		h.check(t, single(initial, accountStep(false)), single(state{password: "another password"}, accountStep(false)))
	})
}

// redeemed is the model of a secret that works once.
func redeemedStep(used bool, _ string, out outcome) []bool {
	switch {
	case out == done && !used:
		return []bool{true}
	case out == declined && used:
		return []bool{used}
	case out == unclear:
		return []bool{used, true}
	}
	return nil
}

// reusableStep is a wrong model: the secret works twice.
func reusableStep(used bool, _ string, out outcome) []bool {
	if out == declined {
		return nil
	}
	return []bool{used}
}

func TestLinearizable_RecoveryCodeAndMailedTokenWorkOnce(t *testing.T) {
	onTwoNodes(t, withoutVerification, func(t *testing.T, n nodes) {
		n.lose(0) // a mail whose claim is lost waits for the end of its lease, a minute
		user := n.register("bert")
		login := n.loginOf(user)
		insist(t, func() (int, error) {
			return 0, n.services[0].Recover(t.Context(), personal.RecoverRequest{Login: login})
		})
		recovery := func(m personal.Mail) bool { return strings.Contains(m.Text, "recover#token=") }
		var token string
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for known := 0; token == ""; {
			mails, err := n.host.AwaitMails(ctx, known+1)
			if err != nil {
				t.Fatal(err)
			}
			known = len(mails)
			if i := slices.IndexFunc(mails, recovery); i >= 0 {
				_, token, _ = strings.Cut(mails[i].Text, "recover#token=")
				token = strings.Fields(token)[0]
			}
		}
		n.lose(0.03)
		n.redeem(func(s *accounts.Service, i int) error {
			next := fmt.Sprintf("password of caller %d", i)
			_, err := s.RecoverConfirm(t.Context(), personal.RecoverConfirmRequest{Token: token, Password: next, ConfirmPassword: next})
			return err
		})

		other := n.register("carl")
		secret := insist(t, func() (personal.TwoFactorSecret, error) {
			return n.services[0].BeginTwoFactor(t.Context(), personal.BeginTwoFactorRequest{Credentials: other, Password: firstPassword})
		})
		confirmed, err := n.services[0].ConfirmTwoFactor(t.Context(), personal.ConfirmTwoFactorRequest{
			Credentials: other, Code: personaltest.Code(secret.Secret, time.Now()),
		})
		if outcomeOf(err) == unclear {
			return // nobody has seen the codes
		}
		if err != nil {
			t.Fatal(err)
		}
		name := n.loginOf(other)
		n.redeem(func(s *accounts.Service, _ int) error {
			_, err := s.Authorize(t.Context(), personal.AuthorizeRequest{Login: name, Password: firstPassword, Code: confirmed.RecoveryCodes[0]})
			return err
		})
	})
}

// redeem has eight callers use one secret at the same time, and one more afterwards.
func (n nodes) redeem(use func(s *accounts.Service, caller int) error) {
	n.Helper()
	h := newHistory()
	call := func(i int) {
		do(h, i, "use", func() (outcome, outcome) {
			err := use(n.services[i%2], i)
			return outcomeOf(err), outcomeOf(err)
		})
	}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() { call(i) })
	}
	all.Wait()
	call(8)
	h.check(n.T, single(false, redeemedStep), single(false, reusableStep))
}

// session is the state of a session: the hash that is current, and "" while nobody has seen it.
type session struct {
	ended   bool
	current string
}

// sessionUse is a refresh with a hash, or the end of the session.
type sessionUse struct {
	hash string
	end  bool
}

type sessionUsed struct {
	outcome outcome
	hash    string // the new or current one
}

// sessionStep allows a superseded hash for as long as the test takes, which is less than the
// grace period: it returns the current hash.
func sessionStep(afterEnd bool) func(session, sessionUse, sessionUsed) []session {
	return func(s session, u sessionUse, out sessionUsed) []session {
		switch {
		case out.outcome == declined:
			if s.ended || afterEnd {
				return []session{s}
			}
			return nil
		case out.outcome == unclear && u.end:
			return []session{s, {ended: true}}
		case out.outcome == unclear:
			if s.ended || s.current != u.hash {
				return []session{s}
			}
			return []session{s, {current: ""}} // rotated, but nobody has seen it
		case s.ended:
			return nil
		case u.end:
			return []session{{ended: true}}
		case s.current == "" && out.hash != u.hash, s.current == u.hash && out.hash != u.hash:
			return []session{{current: out.hash}}
		case s.current != u.hash && out.hash == s.current:
			return []session{s}
		}
		return nil
	}
}

func TestLinearizable_SessionChainAndItsEnd(t *testing.T) {
	onTwoNodes(t, withoutVerification, func(t *testing.T, n nodes) {
		for i := range 4 {
			first := n.register(fmt.Sprint("dora", i))
			h := newHistory()
			var all sync.WaitGroup
			for client := range 3 { // tabs of one browser
				all.Go(func() {
					service, mine := n.services[client%2], first
					for step := range 8 {
						last := client == 0 && step == 5
						do(h, client, sessionUse{mine.UserHash, last}, func() (sessionUsed, outcome) {
							if last {
								err := service.Logout(t.Context(), personal.LogoutRequest{Credentials: mine})
								return sessionUsed{outcome: outcomeOf(err)}, outcomeOf(err)
							}
							next, err := service.Refresh(t.Context(), mine)
							if err == nil {
								mine = next
							}
							return sessionUsed{outcomeOf(err), next.UserHash}, outcomeOf(err)
						})
					}
				})
			}
			all.Wait()
			h.check(t, single(session{current: first.UserHash}, sessionStep(false)), single(session{current: "another"}, sessionStep(false)))
		}
	})
}

func TestLinearizable_LimitOfWrongPasswordsHoldsOnTwoNodes(t *testing.T) {
	const burst, callers = 5, 40
	limit := func(s *accounts.Settings) {
		withoutVerification(s)
		s.Throttle = accounts.Throttle{Enabled: true, Guess: throttle.Limit{Burst: burst, Every: time.Hour}}
		s.Keys = secretKeys(t, "a") // so that both nodes count under one login key
	}
	onTwoNodes(t, limit, func(t *testing.T, n nodes) {
		for _, s := range n.services {
			insist(t, func() (struct{}, error) { return struct{}{}, s.ReadKeys(t.Context(), true) })
		}
		login := n.loginOf(n.register("emil"))
		var judged atomic.Int64
		var all sync.WaitGroup
		for i := range callers {
			all.Go(func() {
				_, err := n.services[i%2].Authorize(t.Context(), personal.AuthorizeRequest{Login: login, Password: "wrong"})
				var e *personal.Error
				if errors.As(err, &e) && e.Code == personal.CodeInvalidCredentials {
					judged.Add(1)
				}
			})
		}
		all.Wait()
		if got := judged.Load(); got > burst {
			t.Errorf("got %d wrong passwords judged, want %d at most", got, burst)
		}
	})
}
