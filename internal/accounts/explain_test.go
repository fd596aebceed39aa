package accounts_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/password"
	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/internal/throttle"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
)

// stuck is a user who cannot sign in. Each has their own login and addresses.
type stuck struct {
	*fixture
	hasher      *password.Hasher
	id          int64
	login       string
	home, hotel string
	typed       string   // by the administrator; "": the login
	entered     []string // addresses
	factor      *factor
}

func (s *stuck) email() string { return s.login + "@example.com" }

// explain returns the verdicts on the user.
func (s *stuck) explain(t *testing.T) []personal.Verdict {
	t.Helper()
	r := personal.ExplainRequest{Login: s.typed}
	if r.Login == "" {
		r.Login = s.login
	}
	for _, address := range s.entered {
		r.Addresses = append(r.Addresses, netip.MustParseAddr(address))
	}
	e, err := s.service.Explain(t.Context(), r)
	if err != nil {
		t.Fatalf("explaining: %v", err)
	}
	if len(e.Verdicts) == 0 || (e.User == nil) != (e.Verdicts[0].Reason == personal.ReasonNoAccount) {
		t.Fatalf("got user %v and verdicts %v", e.User, e.Verdicts)
	}
	if e.User != nil && s.id != 0 && e.User.ID != s.id {
		t.Fatalf("got user %d, want %d", e.User.ID, s.id)
	}
	return e.Verdicts
}

// joins registers the user, at home.
func (s *stuck) joins(t *testing.T) {
	t.Helper()
	in, err := s.service.Register(at(t, s.home), personal.RegisterRequest{
		Login: s.login, Password: goodPassword, ConfirmPassword: goodPassword, Email: s.email(),
	})
	if err != nil {
		t.Fatal(err)
	}
	s.id = in.Credentials.UserID
	s.factor = &factor{f: s.fixture, in: in.Credentials, login: s.login}
	s.drain(t)
}

// enrols switches the user's second factor on; they sign in at home once.
func (s *stuck) enrols(t *testing.T) {
	t.Helper()
	s.joins(t)
	s.factor.confirm(t, at(t, s.home))
	s.factor.wantTry(t, at(t, s.home), s.factor.next(), "")
	s.clock.Advance(personaltest.CodePeriod)
	s.drain(t)
}

// guesses enters wrong passwords until they are refused.
func (s *stuck) guesses(t *testing.T, address func(i int) string, login string) {
	t.Helper()
	for i := range 200 {
		if s.try(t, address(i), login, otherPassword) == personal.CodeTooManyAttempts {
			return
		}
	}
	t.Fatal("got no refusal")
}

func (s *stuck) inHotel(int) string { return s.hotel }

// lifts lifts the limits; the correct password then signs in at once.
func lifts(t *testing.T, s *stuck) {
	t.Helper()
	r := personal.LiftLimitsRequest{UserID: s.id}
	for _, address := range s.entered {
		r.Addresses = append(r.Addresses, netip.MustParseAddr(address))
	}
	if err := s.service.LiftLimits(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	for _, address := range append(s.entered, s.home) {
		r := personal.AuthorizeRequest{Login: s.login, Password: goodPassword}
		if s.factor.secret != "" {
			r.Code = s.factor.next()
		}
		if _, err := s.service.Authorize(at(t, address), r); err != nil {
			t.Errorf("signing in from %s after the limits were lifted: %v", address, err)
		}
	}
}

func enables(t *testing.T, s *stuck) { must(t, s.service.EnableUser(t.Context(), s.id)) }

func setsEmail(email func(s *stuck) string) func(*testing.T, *stuck) {
	return func(t *testing.T, s *stuck) {
		must(t, s.service.SetEmail(t.Context(), personal.SetEmailRequest{UserID: s.id, Email: email(s)}))
	}
}

func another(s *stuck) string { return "new-" + s.email() }

// recovers recovers the account as its user, by the mail.
func recovers(t *testing.T, s *stuck) {
	t.Helper()
	s.recoverNow(t, personal.RecoverRequest{Login: s.login})
	tokens := s.tokens()
	must(t, s.confirm(t, tokens[len(tokens)-1]))
}

func waits(t *testing.T, s *stuck) { s.clock.Advance(24 * time.Hour) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// situations are users who cannot sign in. Each returns the first verdict that is wanted.
var situations = map[string]struct {
	is    func(t *testing.T, s *stuck) personal.Verdict
	helps func(t *testing.T, s *stuck) // does what the verdict's action says, or waits
}{
	"a login that no account has": {func(_ *testing.T, _ *stuck) personal.Verdict {
		return personal.Verdict{Reason: personal.ReasonNoAccount, Action: personal.ActionCreate}
	}, func(t *testing.T, s *stuck) {
		_, err := s.service.CreateUser(t.Context(), personal.CreateUserRequest{Login: s.login})
		must(t, err)
	}},
	"created by an administrator": {func(t *testing.T, s *stuck) personal.Verdict {
		id, err := s.service.CreateUser(t.Context(), personal.CreateUserRequest{Login: s.login, Email: s.email()})
		must(t, err)
		s.id = id
		return personal.Verdict{Reason: personal.ReasonNoPassword, Action: personal.ActionRecover}
	}, recovers},
	"invited by an administrator": {func(t *testing.T, s *stuck) personal.Verdict {
		id, err := s.service.CreateUser(t.Context(), personal.CreateUserRequest{Login: s.login, Email: s.email(), Invite: true})
		must(t, err)
		s.id = id
		now := s.clock.Now()
		want := personal.Verdict{Reason: personal.ReasonMailWaiting, Kind: "invitation", Since: now, Until: now}
		if got := s.explain(t); len(got) < 2 || got[1] != want {
			t.Errorf("got %+v, want %+v second", got, want)
		}
		s.drain(t)
		return personal.Verdict{Reason: personal.ReasonNoPassword, Action: personal.ActionRecover}
	}, func(t *testing.T, s *stuck) {
		tokens := s.tokens()
		must(t, s.confirm(t, tokens[len(tokens)-1]))
	}},
	"an e-mail with which the site lets no one sign in": {func(t *testing.T, s *stuck) personal.Verdict {
		s.joins(t)
		s.change(func(set *accounts.Settings) { set.LoginWithEmail = false })
		s.wantTry(t, s.home, s.email(), goodPassword, personal.CodeInvalidCredentials)
		s.typed = strings.ToUpper(s.email())
		return personal.Verdict{Reason: personal.ReasonEmailSignInOff}
	}, func(_ *testing.T, s *stuck) { s.typed = s.login }},
	"disabled by an administrator": {func(t *testing.T, s *stuck) personal.Verdict {
		s.joins(t)
		must(t, s.service.DisableUser(t.Context(), s.id))
		s.wantTry(t, s.home, s.login, goodPassword, personal.CodeAccountDisabled)
		return personal.Verdict{Reason: personal.ReasonDisabled, Action: personal.ActionEnable}
	}, enables},
	"deleted by the user": {func(t *testing.T, s *stuck) personal.Verdict {
		s.joins(t)
		until, err := s.service.Delete(t.Context(), personal.DeleteRequest{Credentials: s.factor.in, Password: goodPassword})
		must(t, err)
		s.typed = fmt.Sprint(s.id)
		return personal.Verdict{Reason: personal.ReasonDeleted, Action: personal.ActionEnable, Until: until}
	}, enables},
	"an e-mail that is not verified": {func(t *testing.T, s *stuck) personal.Verdict {
		s.requires()
		s.id = s.applied(t, s.login, s.email())
		s.typed = s.email()
		until := s.clock.Now().Add(s.settings.UnverifiedLifetime)
		s.drain(t)
		s.clock.Advance(time.Minute)
		return personal.Verdict{Reason: personal.ReasonUnverified, Action: personal.ActionVerify, Until: until}
	}, func(t *testing.T, s *stuck) {
		s.resend(t, s.login, "")
		tokens := s.tokens()
		must(t, s.verifyAs(t, tokens[len(tokens)-1], s.login))
	}},
	"an e-mail to verify that is another account's": {func(t *testing.T, s *stuck) personal.Verdict {
		s.joins(t)
		s.requires()
		address := s.email()
		s.login += "again"
		s.id = s.applied(t, s.login, address)
		return personal.Verdict{Reason: personal.ReasonUnverified, Action: personal.ActionSetEmail,
			Until: s.clock.Now().Add(s.settings.UnverifiedLifetime)}
	}, setsEmail(another)},
	"without a password and an e-mail": {func(t *testing.T, s *stuck) personal.Verdict {
		id, err := s.service.CreateUser(t.Context(), personal.CreateUserRequest{Login: s.login})
		must(t, err)
		s.id = id
		return personal.Verdict{Reason: personal.ReasonNoPassword, Action: personal.ActionSetEmail}
	}, setsEmail(another)},
	"only a provider signs them in": {func(t *testing.T, s *stuck) personal.Verdict {
		id, err := s.service.CreateUser(t.Context(), personal.CreateUserRequest{Login: s.login, Email: s.email()})
		must(t, err)
		s.id = id
		must(t, s.service.LinkIdentity(t.Context(), personal.LinkIdentityRequest{Identity: subject(s.login), UserID: id}))
		s.wantTry(t, s.home, s.login, goodPassword, personal.CodeInvalidCredentials)
		s.drain(t)
		return personal.Verdict{Reason: personal.ReasonOnlyOtherWays, Providers: "op.example"}
	}, recovers},
	"a code is needed": {func(t *testing.T, s *stuck) personal.Verdict {
		s.enrols(t)
		s.factor.wantTry(t, at(t, s.home), s.factor.recoveryCode(), "")
		s.factor.wantTry(t, at(t, s.home), "", personal.CodeCodeRequired)
		return personal.Verdict{Reason: personal.ReasonTwoFactor, Action: personal.ActionRemoveTwoFactor, Count: 9}
	}, func(t *testing.T, s *stuck) {
		must(t, s.service.RemoveTwoFactor(t.Context(), personal.RemoveTwoFactorRequest{UserID: s.id}))
	}},
	"the secret key of the factor is missing": {func(t *testing.T, s *stuck) personal.Verdict {
		s.enrols(t)
		s.change(func(set *accounts.Settings) { set.Keys = keyring(t) })
		s.factor.wantTry(t, at(t, s.home), s.factor.code(), personal.CodeUnavailable)
		return personal.Verdict{Reason: personal.ReasonTwoFactorKey, Action: personal.ActionOperator}
	}, func(_ *testing.T, s *stuck) { s.change(func(*accounts.Settings) {}) }},
	"too many guesses at an entered address": {func(t *testing.T, s *stuck) personal.Verdict {
		s.joins(t)
		s.guesses(t, s.inHotel, s.login)
		s.entered = []string{s.hotel}
		return personal.Verdict{
			Reason: personal.ReasonLimit, Action: personal.ActionLiftLimits, Limit: "guess", Address: s.hotel, Until: s.clock.Now().Add(time.Minute),
		}
	}, lifts},
	"too many guesses for the e-mail, at an address of the audit log": {func(t *testing.T, s *stuck) personal.Verdict {
		s.joins(t)
		s.guesses(t, s.inHotel, s.email())
		return personal.Verdict{
			Reason: personal.ReasonLimit, Action: personal.ActionLiftLimits, Limit: "guess", Address: s.hotel, Until: s.clock.Now().Add(time.Minute),
		}
	}, lifts},
	"too many guesses for the login, and later for the e-mail": {func(t *testing.T, s *stuck) personal.Verdict {
		s.joins(t)
		s.entered = []string{s.hotel}
		s.guesses(t, s.inHotel, s.login)
		s.clock.Advance(30 * time.Second)
		s.guesses(t, s.inHotel, s.email())
		return personal.Verdict{
			Reason: personal.ReasonLimit, Action: personal.ActionLiftLimits, Limit: "guess", Address: s.hotel, Until: s.clock.Now().Add(time.Minute),
		}
	}, lifts},
	"too many guesses at a known IPv6 network": {func(t *testing.T, s *stuck) personal.Verdict {
		s.home = "2001:db8:77:1::5"
		s.joins(t)
		s.wantTry(t, s.home, s.login, goodPassword, "")
		s.guesses(t, func(int) string { return "2001:db8:77:1::6" }, s.login)
		s.clock.Advance(20 * time.Second)
		return personal.Verdict{
			Reason: personal.ReasonLimit, Action: personal.ActionLiftLimits, Limit: "guess", Address: "2001:db8:77:1::/64", Until: s.clock.Now().Add(40 * time.Second),
		}
	}, lifts},
	"too many guesses from everywhere": {func(t *testing.T, s *stuck) personal.Verdict {
		s.joins(t)
		s.guesses(t, func(i int) string { return fmt.Sprintf("198.51.100.%d", i) }, s.login)
		s.wantTry(t, s.hotel, s.login, goodPassword, personal.CodeTooManyAttempts)
		s.entered = []string{s.hotel}
		return personal.Verdict{
			Reason: personal.ReasonLimit, Action: personal.ActionLiftLimits, Limit: "guess_account", Until: s.clock.Now().Add(15 * time.Minute),
		}
	}, lifts},
	"too many correct passwords": {func(t *testing.T, s *stuck) personal.Verdict {
		s.joins(t)
		for i := range 60 {
			s.wantTry(t, fmt.Sprintf("198.51.100.%d", i), s.login, goodPassword, "")
		}
		s.wantTry(t, s.home, s.login, goodPassword, personal.CodeTooManyAttempts)
		return personal.Verdict{
			Reason: personal.ReasonLimit, Action: personal.ActionLiftLimits, Limit: "sign_in_account", Until: s.clock.Now().Add(5 * time.Second),
		}
	}, lifts},
	"too many codes": {func(t *testing.T, s *stuck) personal.Verdict {
		s.enrols(t)
		for i := range 10 {
			s.factor.wantTry(t, at(t, fmt.Sprintf("198.51.100.%d", i)), s.factor.wrong(), personal.CodeInvalidCode)
		}
		s.factor.wantTry(t, at(t, s.hotel), s.factor.code(), personal.CodeTooManyAttempts)
		s.entered = []string{s.hotel}
		return personal.Verdict{
			Reason: personal.ReasonLimit, Action: personal.ActionLiftLimits, Limit: "code", Until: s.clock.Now().Add(15 * time.Minute),
		}
	}, lifts},
	"too many codes at a known address": {func(t *testing.T, s *stuck) personal.Verdict {
		s.enrols(t)
		for range 10 {
			s.factor.wantTry(t, at(t, s.home), s.factor.wrong(), personal.CodeInvalidCode)
		}
		return personal.Verdict{
			Reason: personal.ReasonLimit, Action: personal.ActionLiftLimits, Limit: "code", Address: s.home, Until: s.clock.Now().Add(15 * time.Minute),
		}
	}, lifts},
	"others guess at the address": {func(t *testing.T, s *stuck) personal.Verdict {
		s.joins(t)
		for i := range 30 {
			s.wantTry(t, s.hotel, fmt.Sprintf("stranger%d", i), otherPassword, personal.CodeInvalidCredentials)
		}
		s.wantTry(t, s.hotel, s.login, goodPassword, personal.CodeTooManyAttempts)
		s.entered = []string{s.hotel}
		return personal.Verdict{Reason: personal.ReasonAddressLimit, Limit: "guess_address", Address: s.hotel,
			Until: s.clock.Now().Add(5 * time.Second)}
	}, waits},
	"others sign in at the address": {func(t *testing.T, s *stuck) personal.Verdict {
		s.joins(t)
		bob := s.login + "bob"
		s.register(t, bob)
		for range 40 {
			s.wantTry(t, s.hotel, bob, goodPassword, "")
		}
		s.wantTry(t, s.hotel, s.login, goodPassword, personal.CodeTooManyAttempts)
		s.entered = []string{s.hotel}
		return personal.Verdict{Reason: personal.ReasonAddressLimit, Limit: "sign_in_address", Address: s.hotel,
			Until: s.clock.Now().Add(time.Second)}
	}, waits},
	"others recover at the address": {func(t *testing.T, s *stuck) personal.Verdict {
		s.joins(t)
		for range 2 {
			s.ask(t, personal.RecoverRequest{Login: "stranger"}, s.hotel)
		}
		s.entered = []string{s.hotel}
		return personal.Verdict{Reason: personal.ReasonAddressLimit, Limit: "recover", Address: s.hotel, Until: s.clock.Now().Add(time.Minute)}
	}, waits},
	"too many tokens at the address": {func(t *testing.T, s *stuck) personal.Verdict {
		s.joins(t)
		for range 2 {
			_, err := s.service.ConfirmEmail(at(t, s.hotel), personal.ConfirmEmailRequest{Token: "x"})
			wantCode(t, err, personal.CodeInvalidToken)
		}
		s.entered = []string{s.hotel}
		return personal.Verdict{Reason: personal.ReasonAddressLimit, Limit: "confirm", Address: s.hotel, Until: s.clock.Now().Add(time.Minute)}
	}, waits},
	"the mail relay is down": {func(t *testing.T, s *stuck) personal.Verdict {
		s.joins(t)
		s.host.SendMailFunc = func(context.Context, personal.Mail) error { return errors.New("no connection") }
		s.recoverNow(t, personal.RecoverRequest{Email: s.email()})
		now := s.clock.Now()
		return personal.Verdict{Reason: personal.ReasonMailWaiting, Kind: "recovery", Since: now, Until: now.Add(time.Second), Count: 1}
	}, func(t *testing.T, s *stuck) { s.host.SendMailFunc = nil; waits(t, s); s.drain(t) }},
	"a notice waits": {func(t *testing.T, s *stuck) personal.Verdict {
		s.joins(t)
		setsEmail(another)(t, s)
		now := s.clock.Now()
		return personal.Verdict{Reason: personal.ReasonMailWaiting, Kind: "email_changed", Since: now, Until: now}
	}, func(t *testing.T, s *stuck) { s.drain(t) }},
	"the relay refuses mails to the address": {func(t *testing.T, s *stuck) personal.Verdict {
		s.joins(t)
		s.host.SendMailFunc = func(context.Context, personal.Mail) error {
			return personal.NewMailRefusedError("550 no such\r\nmailbox")
		}
		s.recoverNow(t, personal.RecoverRequest{Login: s.login})
		s.host.SendMailFunc = nil
		return personal.Verdict{
			Reason: personal.ReasonMailRefused, Action: personal.ActionSetEmail, Kind: "recovery", Since: s.clock.Now(), Reply: "550 no such mailbox",
		}
	}, setsEmail(another)},
	"the relay refuses the mail that verifies the address": {func(t *testing.T, s *stuck) personal.Verdict {
		s.requires()
		s.id = s.applied(t, s.login, s.email())
		until := s.clock.Now().Add(s.settings.UnverifiedLifetime)
		s.host.SendMailFunc = func(context.Context, personal.Mail) error { return personal.NewMailRefusedError("550") }
		s.drain(t)
		s.host.SendMailFunc = nil
		want := personal.Verdict{Reason: personal.ReasonMailRefused, Action: personal.ActionSetEmail, Kind: "verification", Since: s.clock.Now(),
			Reply: "550"}
		if got := s.explain(t); len(got) < 2 || got[1] != want {
			t.Errorf("got %+v, want %+v second", got, want)
		}
		return personal.Verdict{Reason: personal.ReasonUnverified, Action: personal.ActionVerify, Until: until}
	}, setsEmail(another)},
	"too many mails": {func(t *testing.T, s *stuck) personal.Verdict {
		s.joins(t)
		until := s.clock.Now().Add(15 * time.Minute)
		for range 5 {
			s.recoverNow(t, personal.RecoverRequest{Login: s.login})
			s.clock.Advance(time.Minute)
		}
		return personal.Verdict{Reason: personal.ReasonMailLimit, Kind: "recovery", Until: until}
	}, waits},
	"too many mails of a network": {func(t *testing.T, s *stuck) personal.Verdict {
		s.joins(t)
		s.entered = []string{s.hotel}
		until := s.clock.Now().Add(time.Hour)
		for range 2 {
			s.recoverFrom(t, s.hotel, s.login)
		}
		s.clock.Advance(20 * time.Minute)
		return personal.Verdict{Reason: personal.ReasonMailLimit, Kind: "recovery", Address: "192.0.2.0/24", Until: until}
	}, waits},
	"wrong passwords": {func(t *testing.T, s *stuck) personal.Verdict {
		s.joins(t)
		s.wantTry(t, s.hotel, s.login, otherPassword, personal.CodeInvalidCredentials)
		s.wantTry(t, s.home, s.login, goodPassword, "") // the earlier ones explain nothing any more
		s.clock.Advance(time.Second)
		s.wantTry(t, s.hotel, s.login, otherPassword, personal.CodeInvalidCredentials)
		s.wantTry(t, s.home, s.email(), otherPassword, personal.CodeInvalidCredentials)
		s.drain(t)
		return personal.Verdict{Reason: personal.ReasonFailed, Action: personal.ActionRecover, Count: 2, Since: s.clock.Now(), Address: s.home}
	}, func(t *testing.T, s *stuck) { s.clock.Advance(time.Second); recovers(t, s) }},
	"no e-mail": {func(t *testing.T, s *stuck) personal.Verdict {
		s.joins(t)
		setsEmail(func(*stuck) string { return "" })(t, s)
		s.drain(t)
		return personal.Verdict{Reason: personal.ReasonNoEmail, Action: personal.ActionSetEmail}
	}, setsEmail(another)},
	"nothing": {func(t *testing.T, s *stuck) personal.Verdict {
		s.joins(t)
		return personal.Verdict{Reason: personal.ReasonNothing}
	}, func(t *testing.T, s *stuck) { must(t, s.service.DisableUser(t.Context(), s.id)) }},
}

// change replaces the service by one with other settings, on the same store.
func (s *stuck) change(f func(*accounts.Settings)) {
	before := s.settings
	f(&s.settings)
	s.service = s.serve(s.store, s.hasher)
	s.settings = before
	s.service.OfferTwoFactor(true)
	s.worker.Handlers = s.service.Jobs()
}

// requires makes new users verify their e-mail.
func (s *stuck) requires() {
	s.change(func(set *accounts.Settings) {
		optional(set)
		set.EmailVerification = personal.VerificationRequired
	})
	s.service.RequireVerification(true)
}

func TestExplain_NamesTheReasonAndWhatHelps(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		first := stuckUser(t, url)
		number := 0
		for name, situation := range situations {
			t.Run(name, func(t *testing.T) {
				first.clock.Advance(24 * time.Hour) // all limits are regained
				number++
				own := *first.fixture
				s := &stuck{
					fixture: &own, hasher: first.hasher, login: fmt.Sprintf("anna%d", number),
					home: fmt.Sprintf("203.0.113.%d", number), hotel: fmt.Sprintf("192.0.2.%d", number),
				}
				s.change(func(*accounts.Settings) {})
				want := situation.is(t, s)
				got := s.explain(t)
				if diff := cmp.Diff(want, got[0]); diff != "" {
					t.Fatalf("first of %d verdicts (-want +got):\n%s", len(got), diff)
				}
				situation.helps(t, s)
				if after := s.explain(t); slices.ContainsFunc(after, func(v personal.Verdict) bool {
					return v.Reason == want.Reason && v.Action == want.Action && v.Limit == want.Limit && v.Address == want.Address && v.Kind == want.Kind
				}) {
					t.Errorf("after the action: got %+v, want no such verdict", after)
				}
			})
		}
	})
}

// named returns limits with names, narrower at addresses.
func named(l accounts.Throttle) accounts.Throttle {
	l.GuessAddress, l.SignInAddress = throttle.Limit{Burst: 30, Every: 5 * time.Second}, throttle.Limit{Burst: 40, Every: time.Second}
	for name, limit := range map[string]*throttle.Limit{
		"guess": &l.Guess, "guess_address": &l.GuessAddress, "guess_account": &l.GuessAccount, "sign_in_address": &l.SignInAddress,
		"sign_in_account": &l.SignInAccount, "recover": &l.Recover, "confirm": &l.Confirm,
	} {
		limit.Name = name
	}
	return l
}

// stuckUser returns a user on limits like the defaults.
func stuckUser(t *testing.T, url string) *stuck {
	t.Helper()
	f, _ := guarded(t, url)
	f.settings.Throttle = named(f.settings.Throttle)
	h := mustHasher(t, cheap)
	f.offer(t, f.store, h)
	return &stuck{fixture: f, hasher: h, login: "anna", home: "203.0.113.1", hotel: "192.0.2.1"}
}

func reasons(verdicts []personal.Verdict) (all []personal.Reason) {
	for _, v := range verdicts {
		all = append(all, v.Reason)
	}
	return all
}

func TestExplain_LastingReasonsComeFirstThenLimitsThenMailsThenHints(t *testing.T) {
	s := stuckUser(t, testdb.SQLite(t))
	s.enrols(t)
	s.entered = []string{s.hotel}
	s.guesses(t, s.inHotel, s.login)
	s.host.SendMailFunc = func(context.Context, personal.Mail) error { return personal.NewMailRefusedError("550") }
	s.recoverNow(t, personal.RecoverRequest{Login: s.login})
	must(t, s.service.DisableUser(t.Context(), s.id))
	want := []personal.Reason{
		personal.ReasonDisabled, personal.ReasonLimit, personal.ReasonTwoFactor,
		personal.ReasonMailRefused, personal.ReasonFailed,
	}
	if diff := cmp.Diff(want, reasons(s.explain(t))); diff != "" {
		t.Errorf("reasons (-want +got):\n%s", diff)
	}
}

func TestExplain_MailOfTheLastMinuteIsNoReason(t *testing.T) {
	s := stuckUser(t, testdb.SQLite(t))
	s.joins(t)
	s.recoverNow(t, personal.RecoverRequest{Login: s.login})
	s.clock.Advance(time.Second)
	if diff := cmp.Diff([]personal.Reason{personal.ReasonNothing}, reasons(s.explain(t))); diff != "" {
		t.Errorf("reasons (-want +got):\n%s", diff)
	}
}

func TestExplain_DisabledAndUnverifiedAreBothNamed(t *testing.T) {
	s := stuckUser(t, testdb.SQLite(t))
	s.requires()
	s.id = s.applied(t, s.login, s.email())
	s.drain(t)
	s.clock.Advance(time.Minute)
	must(t, s.service.DisableUser(t.Context(), s.id))
	s.wantTry(t, s.home, s.login, otherPassword, personal.CodeInvalidCredentials)
	got := s.explain(t)
	want := []personal.Reason{personal.ReasonDisabled, personal.ReasonUnverified, personal.ReasonFailed}
	if diff := cmp.Diff(want, reasons(got)); diff != "" {
		t.Fatalf("reasons (-want +got):\n%s", diff)
	}
	if failed := got[2]; failed.Action != "" {
		t.Errorf("got %+v, want no action: a new password would not help", failed)
	}
}

func TestExplain_WithoutThrottlingNoLimitHolds(t *testing.T) {
	s := stuckUser(t, testdb.SQLite(t))
	s.joins(t)
	s.guesses(t, s.inHotel, s.login)
	s.change(func(set *accounts.Settings) { set.Throttle.Enabled = false })
	if diff := cmp.Diff([]personal.Reason{personal.ReasonFailed}, reasons(s.explain(t))); diff != "" {
		t.Errorf("reasons (-want +got):\n%s", diff)
	}
}

// A command has neither the host nor its keys.
func TestExplain_WithoutHostAndKeysSaysNothingAboutThem(t *testing.T) {
	s := stuckUser(t, testdb.SQLite(t))
	s.enrols(t)
	s.settings.Keys = nil
	s.service = accounts.New(s.settings, s.store, nil, nil, slog.New(slog.DiscardHandler), func() {})
	if diff := cmp.Diff([]personal.Reason{personal.ReasonTwoFactor}, reasons(s.explain(t))); diff != "" {
		t.Errorf("reasons (-want +got):\n%s", diff)
	}
}

func TestExplain_TwoNetworksOfASiteShareItsLimit(t *testing.T) {
	s := stuckUser(t, testdb.SQLite(t))
	s.joins(t)
	s.settings.Throttle.GuessAddress.Every = time.Hour // so that the wider one is used up as well
	s.change(func(*accounts.Settings) {})
	for i := range 301 {
		s.try(t, fmt.Sprintf("2001:db8:1:%x::1", i/29), fmt.Sprintf("stranger%d", i), otherPassword)
	}
	s.entered = []string{"2001:db8:1:ffff::1"}
	got := s.explain(t)[0]
	want := personal.Verdict{Reason: personal.ReasonAddressLimit, Limit: "guess_address", Address: "2001:db8:1::/48", Until: got.Until}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestExplain_LoginOfDigitsIsNotAnId(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		s := stuckUser(t, url)
		s.joins(t)
		digits := s.register(t, fmt.Sprintf("%03d", s.id)).Credentials.UserID
		for text, want := range map[string]int64{
			fmt.Sprint(s.id): s.id, fmt.Sprintf("%03d", s.id): digits, fmt.Sprint(digits): digits, " ANNA ": s.id, "Anna@Example.COM": s.id,
		} {
			e, err := s.service.Explain(t.Context(), personal.ExplainRequest{Login: text})
			if err != nil || e.User == nil || e.User.ID != want {
				t.Errorf("%q: got %+v, error %v, want user %d", text, e.User, err, want)
			}
		}
		for _, text := range []string{"-1", "0", "9007199254740993", "999999", "x y", "@", "a@b@c"} {
			e, err := s.service.Explain(t.Context(), personal.ExplainRequest{Login: text})
			if err != nil || e.User != nil || e.Verdicts[0].Reason != personal.ReasonNoAccount {
				t.Errorf("%q: got %+v, error %v, want no account", text, e, err)
			}
		}
	})
}

// The other invalid requests are in the contract suite.
func TestExplain_AddressesAreWhole(t *testing.T) {
	s := stuckUser(t, testdb.SQLite(t))
	for _, address := range []netip.Addr{{}, netip.MustParseAddr("fe80::1%eth0")} {
		_, err := s.service.Explain(t.Context(), personal.ExplainRequest{Login: " ", Addresses: []netip.Addr{address}})
		wantFields(t, err, personal.FieldErrors{"login": "required", "addresses": "invalid_format"})
		err = s.service.LiftLimits(t.Context(), personal.LiftLimitsRequest{UserID: 1, Addresses: []netip.Addr{address}})
		wantFields(t, err, personal.FieldErrors{"addresses": "invalid_format"})
	}
}

func wantFields(t *testing.T, err error, want personal.FieldErrors) {
	t.Helper()
	var e *personal.Error
	if !errors.As(err, &e) || e.Code != personal.CodeValidationFailed || !cmp.Equal(e.FieldErrors, want) {
		t.Errorf("got error %v, want the field errors %v", err, want)
	}
}

// Strangers enter marked texts in every operation that takes texts.
func TestExplain_TellsNothingThatOthersTyped(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		s := stuckUser(t, url)
		s.joins(t)
		const marked = "strangermarker"
		stranger := func(n int) context.Context {
			return personal.WithCall(t.Context(), personal.Call{
				RequestID: marked, Agent: marked, Locale: "en-x-marker", Languages: marked, Address: netip.MustParseAddr(fmt.Sprintf("198.51.100.%d", n)),
			})
		}
		s.host.SendMailFunc = func(_ context.Context, m personal.Mail) error {
			if strings.Contains(m.To, marked) {
				return personal.NewMailRefusedError("550 " + m.To)
			}
			return errors.New("later")
		}
		other, err := s.service.Register(stranger(1), personal.RegisterRequest{
			Login: marked, Password: goodPassword, ConfirmPassword: goodPassword, Email: marked + "@example.com",
			Fields: map[string]personal.Input{"name": personal.Text(marked)},
		})
		must(t, err)
		mine := s.factor.in
		for i, err := range []error{
			func() error {
				_, err := s.service.Authorize(stranger(2), personal.AuthorizeRequest{Login: "anna", Password: marked, Code: marked})
				return err
			}(),
			func() error {
				_, err := s.service.Authorize(stranger(2), personal.AuthorizeRequest{Login: marked + "2", Password: marked})
				return err
			}(),
			func() error {
				_, err := s.service.Register(stranger(3), personal.RegisterRequest{
					Login: marked + "3", Password: goodPassword, ConfirmPassword: goodPassword, Email: s.email(),
				})
				return err
			}(),
			func() error {
				_, err := s.service.Register(stranger(3), personal.RegisterRequest{
					Login: s.login, Password: goodPassword, ConfirmPassword: goodPassword, Email: marked + "3@example.com",
				})
				return err
			}(),
			s.service.Recover(stranger(4), personal.RecoverRequest{Login: "anna", Email: marked + "4@example.com"}),
			s.service.Recover(stranger(4), personal.RecoverRequest{Login: marked, Email: s.email()}),
			s.service.Recover(stranger(5), personal.RecoverRequest{Login: "anna"}),
			s.service.ResendVerification(stranger(5), personal.ResendVerificationRequest{Login: "anna", Email: marked + "5@example.com"}),
			func() error {
				_, err := s.service.RecoverConfirm(stranger(6), personal.RecoverConfirmRequest{Token: marked, Password: marked,
					ConfirmPassword: marked})
				return err
			}(),
			func() error {
				_, err := s.service.ConfirmEmail(stranger(6), personal.ConfirmEmailRequest{Token: marked})
				return err
			}(),
			s.service.ChangeEmail(stranger(7), personal.ChangeEmailRequest{Credentials: other.Credentials, Password: goodPassword, Email: s.email()}),
			s.service.ChangeEmail(stranger(7), personal.ChangeEmailRequest{Credentials: other.Credentials, Password: goodPassword, Email: marked + "7@example.com"}),
			// A thief who knows Anna's password.
			s.service.ChangeEmail(stranger(8), personal.ChangeEmailRequest{Credentials: mine, Password: goodPassword, Email: marked + "8@example.com"}),
		} {
			if personal.CodeOf(err) == personal.CodeInternal {
				t.Fatalf("operation %d: %v", i, err)
			}
		}
		for range 2 { // before and after the jobs have run
			answer, err := s.service.Explain(t.Context(), personal.ExplainRequest{Login: s.login,
				Addresses: []netip.Addr{netip.MustParseAddr("198.51.100.2")}})
			must(t, err)
			text, err := json.Marshal(answer)
			must(t, err)
			if strings.Contains(string(text), "marker") {
				t.Errorf("got %s", text)
			}
			kinds := map[string]bool{}
			for _, v := range answer.Verdicts {
				kinds[v.Kind] = true
			}
			if !kinds["recovery"] {
				t.Errorf("got %s, want Anna's recovery, which waits", text)
			}
			s.drain(t)
		}
	})
}

// A request that names the account but finds nothing mails nothing.
func TestExplain_CountsOnlyRequestsThatFindTheAccount(t *testing.T) {
	s := stuckUser(t, testdb.SQLite(t))
	s.joins(t)
	for text, r := range map[string]personal.RecoverRequest{
		"another e-mail": {Login: s.login, Email: "bob@example.com"}, "another login": {Login: "bob", Email: s.email()}, "another account": {Login: "bob"},
	} {
		s.ask(t, r, "198.51.100.1")
		if diff := cmp.Diff([]personal.Reason{personal.ReasonNothing}, reasons(s.explain(t))); diff != "" {
			t.Errorf("%s: reasons (-want +got):\n%s", text, diff)
		}
		s.clock.Advance(time.Minute)
	}
	s.resend(t, s.login, "")
	must(t, s.service.ResendVerification(at(t, s.home), personal.ResendVerificationRequest{Email: s.email()}))
	if got := s.explain(t); got[0].Reason != personal.ReasonMailWaiting || got[0].Kind != "verification" {
		t.Errorf("got %+v, want the waiting request for a verification mail", got)
	}
}

// The addresses of administrators are not those of the user.
func TestExplain_LeavesOutAddressesOfAdministrators(t *testing.T) {
	s := stuckUser(t, testdb.SQLite(t))
	s.joins(t)
	must(t, s.service.DisableUser(at(t, "198.51.100.1"), s.id))
	enables(t, s)
	for i := range 31 {
		s.try(t, "198.51.100.1", fmt.Sprintf("stranger%d", i), otherPassword)
	}
	if diff := cmp.Diff([]personal.Reason{personal.ReasonNothing}, reasons(s.explain(t))); diff != "" {
		t.Errorf("reasons (-want +got):\n%s", diff)
	}
	s.entered = []string{"198.51.100.1"}
	if got := s.explain(t); got[0].Reason != personal.ReasonAddressLimit {
		t.Errorf("got %+v, want the limit of the entered address", got)
	}
}

func TestLiftLimits_IsReportedAndLeavesTheRest(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		s := stuckUser(t, url)
		s.enrols(t)
		other := s.register(t, "bob").Credentials.UserID
		s.entered = []string{s.hotel}
		used := s.factor.code()
		s.factor.wantTry(t, at(t, s.hotel), used, "")
		s.guesses(t, s.inHotel, s.login)
		s.guesses(t, s.inHotel, "bob")
		for i := range 20 { // the limit of the address
			s.try(t, s.hotel, fmt.Sprintf("stranger%d", i), otherPassword)
		}
		ctx := personal.WithCall(t.Context(), personal.Call{Administrator: "root"})
		request := personal.LiftLimitsRequest{UserID: s.id, Addresses: []netip.Addr{netip.MustParseAddr(s.hotel)}}
		must(t, s.service.LiftLimits(ctx, request))
		s.wantTry(t, s.hotel, s.login, goodPassword, personal.CodeTooManyAttempts) // by the limit of the address
		s.clock.Advance(5 * time.Second)
		s.factor.wantTry(t, at(t, s.hotel), used, personal.CodeInvalidCode) // it stays used
		s.wantTry(t, s.hotel, "bob", goodPassword, personal.CodeTooManyAttempts)
		page, err := s.service.AuditEntries(t.Context(), personal.AuditEntriesRequest{Type: personal.EventLimitsLifted})
		must(t, err)
		if len(page.Entries) != 1 || page.Entries[0].UserID != s.id || page.Entries[0].Actor != personal.ActorAdministrator ||
			page.Entries[0].ActorName != "root" {
			t.Errorf("got %+v, want one entry about user %d, none about %d", page.Entries, s.id, other)
		}
	})
}

func TestMailRefusal_IsKeptUntilAMailIsAccepted(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		s := stuckUser(t, url)
		s.joins(t)
		var log bytes.Buffer
		s.service = accounts.New(s.settings, s.store, s.hasher, s.host, slog.New(slog.NewTextHandler(&log, nil)), s.worker.Wake)
		s.worker.Handlers = s.service.Jobs()
		s.host.SendMailFunc = func(context.Context, personal.Mail) error {
			return fmt.Errorf("relay: %w", personal.NewMailRefusedError("550 replymarker"))
		}
		refused := func() bool { return slices.Contains(reasons(s.explain(t)), personal.ReasonMailRefused) }
		s.recoverNow(t, personal.RecoverRequest{Login: s.login})
		if !refused() {
			t.Error("got no refusal")
		}
		s.clock.Advance(time.Minute)
		s.host.SendMailFunc = nil
		s.recoverNow(t, personal.RecoverRequest{Login: s.login})
		if refused() {
			t.Error("got a refusal after a mail was accepted")
		}
		// The mail to a new address says nothing about the present one.
		s.host.SendMailFunc = func(context.Context, personal.Mail) error { return personal.NewMailRefusedError("550 replymarker") }
		must(t, s.service.ChangeEmail(t.Context(), personal.ChangeEmailRequest{Credentials: s.factor.in, Password: goodPassword,
			Email: "typo@example.com"}))
		s.drain(t)
		if refused() {
			t.Error("got the refusal of a mail to another address")
		}
		s.drain(t)
		events := fmt.Sprint(s.host.Events())
		if !strings.Contains(events, string(personal.EventMailRefused)) || strings.Contains(events+log.String(), "replymarker") {
			t.Errorf("got the events %s and the log %s, want them without the relay's words", events, log.String())
		}
	})
}
