package personaltest

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/shared/personal"
)

// explain returns the verdicts on a user.
func (s *administrationSuite) explain(t *testing.T, text string) personal.Explanation {
	t.Helper()
	e, err := s.administration.Explain(t.Context(), personal.ExplainRequest{Login: text,
		Addresses: []netip.Addr{netip.MustParseAddr("2001:db8::7")}})
	if err != nil {
		t.Fatalf("explaining %q: %v", text, err)
	}
	if len(e.Verdicts) == 0 {
		t.Fatalf("explaining %q: got no verdict", text)
	}
	return e
}

// testExplain does what the actions say, and each time looks for the verdict that stays.
func testExplain(t *testing.T, s *administrationSuite) {
	login, email := s.newLogin()
	none := s.explain(t, login)
	if want := (personal.Verdict{Reason: personal.ReasonNoAccount, Action: personal.ActionCreate}); none.User != nil ||
		none.Verdicts[0] != want {
		t.Errorf("before the registration: got %+v, want only %+v", none, want)
	}
	in, err := s.service.Register(t.Context(), personal.RegisterRequest{
		Login: login, Password: Password, ConfirmPassword: Password, Email: email, Fields: map[string]personal.Input{"city": personal.Text("riga")},
	})
	if err != nil {
		t.Fatalf("registering: %v", err)
	}
	id := in.Credentials.UserID
	disabled := personal.Verdict{Reason: personal.ReasonDisabled, Action: personal.ActionEnable}
	for range 2 {
		if err := s.administration.DisableUser(t.Context(), id); err != nil {
			t.Fatalf("disabling: %v", err)
		}
	}
	record := s.record(t, id)
	for _, text := range []string{login, strings.ToUpper(email), strconv.FormatInt(id, 10)} {
		e := s.explain(t, text)
		if e.User == nil {
			t.Fatalf("%s: got no user", text)
		}
		if diff := cmp.Diff(record.User, *e.User) + cmp.Diff(disabled, e.Verdicts[0]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
	if err := s.administration.EnableUser(t.Context(), id); err != nil {
		t.Fatalf("enabling: %v", err)
	}
	_, err = s.service.Authorize(t.Context(), personal.AuthorizeRequest{Login: login, Password: "wrong wrong"})
	wantCode(t, err, personal.CodeInvalidCredentials)
	verdicts := s.explain(t, login).Verdicts // mails come and go in between
	i := slices.IndexFunc(verdicts, func(v personal.Verdict) bool { return v.Reason == personal.ReasonFailed })
	if i < 0 {
		t.Fatalf("got no failed attempt in %+v", verdicts)
	}
	failed := verdicts[i]
	if failed.Count != 1 || failed.Action != personal.ActionRecover || failed.Since.Before(record.Created) {
		t.Errorf("got %+v, want one failed attempt", failed)
	}
	if _, err = s.service.Authorize(t.Context(), personal.AuthorizeRequest{Login: login, Password: Password}); err != nil {
		t.Fatalf("signing in: %v", err)
	}
	for _, v := range s.explain(t, login).Verdicts {
		if v.Reason == personal.ReasonFailed || v.Reason == personal.ReasonDisabled {
			t.Errorf("after a sign-in: got %+v", v)
		}
	}
}

func testLiftLimits(t *testing.T, s *administrationSuite) {
	u := s.register(t)
	id := u.Credentials.UserID
	s.explain(t, u.login)
	ctx := personal.WithCall(t.Context(), personal.Call{Administrator: "root"})
	if err := s.administration.LiftLimits(ctx, personal.LiftLimitsRequest{UserID: id,
		Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.1")}}); err != nil {
		t.Fatalf("lifting limits: %v", err)
	}
	s.awaitEvents(t, id, personal.EventLimitsLifted)
	if !s.alive(t, u.Credentials) {
		t.Error("a session ended")
	}
	for _, unknown := range []int64{-1, 0, id + 1000} {
		wantCode(t, s.administration.LiftLimits(ctx, personal.LiftLimitsRequest{UserID: unknown}), personal.CodeNotFound)
	}
}

func testInvalidExplain(t *testing.T, s *administrationSuite) {
	u := s.register(t)
	s.explain(t, u.login)
	many := slices.Repeat([]netip.Addr{netip.MustParseAddr("192.0.2.1")}, personal.MaxExplainAddresses+1)
	explain := func(r personal.ExplainRequest) error {
		_, err := s.administration.Explain(t.Context(), r)
		return err
	}
	for name, c := range map[string]struct {
		err  error
		want personal.FieldErrors
	}{
		"all parameters": {explain(personal.ExplainRequest{Addresses: many}), personal.FieldErrors{"login": "required", "addresses": "out_of_range"}},
		"long login":     {explain(personal.ExplainRequest{Login: strings.Repeat("a", personal.MaxSearchLength+1)}), personal.FieldErrors{"login": "too_long"}},
		"control character": {
			explain(personal.ExplainRequest{Login: "a\nb"}), personal.FieldErrors{"login": "invalid_format"},
		},
		"lifting": {
			s.administration.LiftLimits(t.Context(), personal.LiftLimitsRequest{UserID: u.Credentials.UserID, Addresses: many}),
			personal.FieldErrors{"addresses": "out_of_range"},
		},
	} {
		t.Run(name, func(t *testing.T) { wantFieldErrors(t, c.err, personal.CodeValidationFailed, c.want) })
	}
}
