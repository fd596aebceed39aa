package personaladmin_test

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
)

// fakeSupport is an administration with one user, number 42, and the mails to them. It
// records what it was asked, and what was done with which caller's address.
type fakeSupport struct {
	personaltest.Administration
	user     personal.UserRecord
	verdicts []personal.Verdict
	err      error // of Explain and of every action
	asked    personal.ExplainRequest
	done     []string
}

func openSupport(t *testing.T, verdicts ...personal.Verdict) (*browser, *fakeSupport) {
	t.Helper()
	f := &fakeSupport{user: newUsers().user, verdicts: verdicts}
	f.ExplainFunc = func(_ context.Context, r personal.ExplainRequest) (personal.Explanation, error) {
		f.asked = r
		return personal.Explanation{User: &f.user.User, Verdicts: f.verdicts}, f.err
	}
	f.UserFunc = func(_ context.Context, id int64) (personal.UserRecord, error) {
		if id != 42 {
			return personal.UserRecord{}, personal.NewError(personal.CodeNotFound, nil)
		}
		return f.user, nil
	}
	note := func(ctx context.Context, what string, args ...any) error {
		call := personal.CallFrom(ctx)
		f.done = append(f.done, fmt.Sprintf(what, args...)+fmt.Sprintf(" by %s from %v", call.Administrator, call.Address.IsValid()))
		return f.err
	}
	f.EnableUserFunc = func(ctx context.Context, id int64) error { return note(ctx, "enable %d", id) }
	f.DisableUserFunc = func(ctx context.Context, id int64) error { return note(ctx, "disable %d", id) }
	f.LiftLimitsFunc = func(ctx context.Context, r personal.LiftLimitsRequest) error {
		return note(ctx, "lift %d %v", r.UserID, r.Addresses)
	}
	b := open(t)
	b.support.Administration = f
	b.support.Mails = &personaltest.Service{
		RecoverFunc: func(ctx context.Context, r personal.RecoverRequest) error {
			return note(ctx, "recover %q %q", r.Login, r.Email)
		},
		ResendVerificationFunc: func(ctx context.Context, r personal.ResendVerificationRequest) error {
			return note(ctx, "verify %q %q", r.Login, r.Email)
		},
	}
	return b, f
}

// every is a verdict that carries everything.
func every(reason personal.Reason, action personal.Action) personal.Verdict {
	return personal.Verdict{
		Reason: reason, Action: action, Limit: "guess", Address: "192.0.2.7", Since: second(1), Until: second(2),
		Kind: "recovery", Reply: "550 no such mailbox", Count: 1234, Providers: "op.example",
	}
}

func TestSupport_QuestionIsPassedOn(t *testing.T) {
	b, f := openSupport(t, personal.Verdict{Reason: personal.ReasonNothing})
	wantNone(t, b.page(t, "/admin/support"), `class="card verdict`)
	if f.asked.Login != "" {
		t.Errorf("without a question: got the request %v, want none", f.asked)
	}
	page := b.page(t, "/admin/support?login=+anna+&address=192.0.2.1,+2001:db8::1%0A::ffff:192.0.2.2&address=192.0.2.3")
	want := personal.ExplainRequest{Login: "anna"}
	for _, address := range []string{"192.0.2.1", "2001:db8::1", "192.0.2.2", "192.0.2.3"} {
		want.Addresses = append(want.Addresses, netip.MustParseAddr(address))
	}
	if diff := cmp.Diff(want, f.asked, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
		t.Errorf("the request (-want +got):\n%s", diff)
	}
	wantAll(t, page, `value="anna"`, `value="192.0.2.1 2001:db8::1 ::ffff:192.0.2.2 192.0.2.3"`, `href="/admin/users/42"`,
		`href="/admin/users/42/events"`,
		"anna@example.com", "Nothing prevents", `<a href="/admin/support" aria-current="page">`)
	f.user.Disabled = true
	wantAll(t, b.page(t, "/admin/support?login=42"), `<span class="badge warn">disabled</span>`)
}

func TestSupport_InvalidQuestionIsShownAtItsControl(t *testing.T) {
	b, f := openSupport(t)
	for _, address := range []string{"192.0.2", "192.0.2.1+x", "fe80::1%25eth0", "192.0.2.0/24"} {
		w := b.get("/admin/support?login=anna&address=" + address)
		if w.Code != http.StatusUnprocessableEntity || fieldError(w.Body.String(), "address") == "" || f.asked.Login != "" {
			t.Errorf("%s: got %d %s, want 422 and a field error", address, w.Code, w.Body)
		}
	}
	for field, control := range map[string]string{"login": "login", "addresses": "address"} {
		f.err = personal.FieldErrors{field: personal.FieldErrorTooLong}.Err()
		w := b.get("/admin/support?login=x")
		if w.Code != http.StatusUnprocessableEntity || fieldError(w.Body.String(), control) == "" {
			t.Errorf("the plugin refuses %s: got %d %s, want 422 and a field error", field, w.Code, w.Body)
		}
	}
}

func TestSupport_EveryReasonHasTextsForWhatItCarries(t *testing.T) {
	b, f := openSupport(t)
	carries := map[personal.Reason][]string{
		personal.ReasonDeleted:       {"until"},
		personal.ReasonUnverified:    {"until"},
		personal.ReasonLimit:         {"address", "until"}, // the title says which limit
		personal.ReasonAddressLimit:  {"limit", "address", "until"},
		personal.ReasonMailLimit:     {"kind", "address", "until"},
		personal.ReasonCodesBlocked:  {"until"},
		personal.ReasonTwoFactor:     {"count"},
		personal.ReasonPasskeys:      {"count"},
		personal.ReasonMailWaiting:   {"kind", "since", "until", "count"},
		personal.ReasonMailRefused:   {"kind", "since", "reply"},
		personal.ReasonFailed:        {"count", "since", "address"},
		personal.ReasonMissingFields: {"count"},
		personal.ReasonIdentities:    {"count", "providers"},
		personal.ReasonOnlyOtherWays: {"providers"},
		"flat_battery":               {"limit", "kind", "address", "count", "since", "reply", "until"},
	}
	shown := map[string]string{
		"address": "192.0.2.7", "since": second(1).Format("2006-01-02T15:04:05Z"), "until": second(2).Format("2006-01-02T15:04:05Z"),
		"reply": "<q><bdi>550 no such mailbox</bdi></q>", "count": "<strong>1234</strong>",
		"providers": "<strong>op.example</strong>",
	}
	inWords := map[string][2]string{"en": {"passwords for one login", "recovery"},
		"ru": {"пароли для одного логина", "восстановление доступа"}}
	reasons := append(contractConstants(t, "Reason"), "flat_battery")
	titles := map[string]string{}
	for _, locale := range []string{"en", "ru"} {
		b.locale, shown["limit"], shown["kind"] = locale, inWords[locale][0], "<strong>"+inWords[locale][1]+"</strong>"
		for _, reason := range reasons {
			f.verdicts = []personal.Verdict{every(personal.Reason(reason), "")}
			page := b.page(t, "/admin/support?login=x")
			_, page, _ = strings.Cut(page, `<section class="card verdict`)
			page, _, _ = strings.Cut(page, "</section>")
			for name, want := range shown {
				if got, want := strings.Contains(page, want), slices.Contains(carries[personal.Reason(reason)], name); got != want {
					t.Errorf("%s %s: got %s %t, want %t: %s", locale, reason, name, got, want, page)
				}
			}
			title, _, _ := strings.Cut(strings.SplitAfter(page, "<h2>")[1], "</h2>")
			if other := titles[title]; other != "" || strings.Contains(title, "flat_battery") != (reason == "flat_battery") {
				t.Errorf("%s %s: got the title %q, want one of its own", locale, reason, title)
			}
			titles[title] = reason
		}
	}
}

func TestSupport_LimitsAreSentences(t *testing.T) {
	b, f := openSupport(t)
	f.user.Login = "bob"
	for limit, want := range map[string]string{
		"guess":           "Too many wrong passwords for <bdi>bob</bdi> from <bdi>192.0.2.7</bdi>.",
		"guess_account":   "Too many wrong passwords for <bdi>bob</bdi> from unknown addresses.",
		"sign_in_account": "Too many sign-ins of <bdi>bob</bdi>.",
		"code":            "Too many wrong codes for <bdi>bob</bdi>.",
		"guess_address":   "Too many wrong passwords from <bdi>192.0.2.7</bdi>, for all logins together.",
		"sign_in_address": "Too many sign-ins from <bdi>192.0.2.7</bdi>.",
		"recover":         "Too many requests for mails from <bdi>192.0.2.7</bdi>.",
		"confirm":         "Too many codes of mails entered from <bdi>192.0.2.7</bdi>.",
		"other":           "Too many attempts for this account.",
	} {
		reason := personal.ReasonLimit
		if slices.Contains([]string{"guess_address", "sign_in_address", "recover", "confirm"}, limit) {
			reason = personal.ReasonAddressLimit
		}
		f.verdicts = []personal.Verdict{{Reason: reason, Limit: limit, Address: "192.0.2.7", Until: time.Now().Add(12 * time.Minute)}}
		page := b.page(t, "/admin/support?login=bob")
		wantAll(t, page, "<h2>"+want+"</h2>", ">12 minutes</time></strong>.")
		b.locale = "ru"
		wantAll(t, b.page(t, "/admin/support?login=bob"), "через <strong><time", "12 мин</time>")
		b.locale = "en"
	}
	for wait, want := range map[time.Duration]string{-time.Hour: "1 second", 11500 * time.Millisecond: "12 seconds",
		89 * time.Minute: "89 minutes", 60 * time.Hour: "3 days"} {
		f.verdicts = []personal.Verdict{{Reason: personal.ReasonCodesBlocked, Until: time.Now().Add(wait)}}
		wantAll(t, b.page(t, "/admin/support?login=bob"), ">"+want+"</time>")
	}
}

func TestSupport_ActionIsAButtonBesideItsVerdict(t *testing.T) {
	b, f := openSupport(t)
	const question = `<input type="hidden" name="login" value="anna"><input type="hidden" name="address" value="192.0.2.1">`
	wants := map[string]string{
		"create":            `href="/admin/users/new?login=anna"`,
		"enable":            `action="/admin/support/enable"`,
		"verify":            `action="/admin/support/verify"`,
		"recover":           `action="/admin/support/recover"`,
		"set_email":         `href="/admin/users/42#field-email"`,
		"lift_limits":       `action="/admin/support/lift-limits"`,
		"remove_two_factor": `href="/admin/users/42/two-factor"`,
		"operator":          "Only the operator of the site can help",
		"new_battery":       "new_battery",
	}
	for _, action := range append(contractConstants(t, "Action"), "new_battery") {
		want, ok := wants[action]
		if !ok {
			t.Errorf("the action %s has no button", action)
		}
		f.verdicts = []personal.Verdict{{Reason: personal.ReasonLimit, Action: personal.Action(action)}, {Reason: personal.ReasonFailed}}
		page := b.page(t, "/admin/support?login=anna&address=192.0.2.1")
		_, decisive, _ := strings.Cut(page, `<section class="card verdict`)
		decisive, others, _ := strings.Cut(decisive, "</section>")
		wantAll(t, decisive, want)
		wantNone(t, others, want)
		if strings.HasPrefix(want, "action") {
			wantAll(t, strings.ReplaceAll(decisive, "\n  ", ""), question, `<input type="hidden" name="user" value="42">`)
		}
		b.locale = "ru"
		b.page(t, "/admin/support?login=anna")
		b.locale = "en"
	}
	f.verdicts = []personal.Verdict{{Reason: personal.ReasonNoAccount, Action: personal.ActionCreate}}
	wantAll(t, b.page(t, "/admin/support?login=anna@example.com"), `href="/admin/users/new?login=anna%40example.com"`)
}

func TestSupport_HintAloneSaysThatNothingRefusesASignIn(t *testing.T) {
	const nothing = "Nothing refuses the correct password now"
	b, f := openSupport(t, personal.Verdict{Reason: personal.ReasonFailed}, personal.Verdict{Reason: personal.ReasonMailLimit})
	if page := b.page(t, "/admin/support?login=anna"); strings.Count(page, nothing) != 1 {
		t.Errorf("hints only: got %d times that nothing refuses a sign-in, want once", strings.Count(page, nothing))
	}
	for _, reason := range []personal.Reason{personal.ReasonDisabled, personal.ReasonTwoFactor, "flat_battery"} {
		f.verdicts = []personal.Verdict{{Reason: reason}, {Reason: personal.ReasonFailed}}
		wantNone(t, b.page(t, "/admin/support?login=anna"), nothing)
	}
}

func TestSupport_ActionsLeadBackToTheQuestion(t *testing.T) {
	for name, test := range map[string]struct {
		change       func(*personal.User)
		action       string
		done, notice string
		undo         bool
	}{
		"enable":                 {change: func(u *personal.User) { u.Disabled = true }, action: "enable", done: "enable 42 by administrator from true", notice: "The user has been enabled.", undo: true},
		"enable an enabled user": {action: "enable", done: "enable 42 by administrator from true", notice: "The user has been enabled."},
		"enable a deleted user": {
			change: func(u *personal.User) { u.Disabled, u.EraseAt = true, second(9) },
			action: "enable", done: "enable 42 by administrator from true", notice: "not erased any more",
		},
		"undo":   {action: "disable", done: "disable 42 by administrator from true", notice: "disabled again"},
		"verify": {action: "verify", done: `verify "anna" "anna@example.com" by administrator from false`, notice: "confirm the address"},
		"verify a waiting address": {
			change: func(u *personal.User) { u.Email, u.UnverifiedEmail = "", "new@example.com" },
			action: "verify", done: `verify "anna" "new@example.com" by administrator from false`, notice: "confirm the address",
		},
		"recover":                 {action: "recover", done: `recover "" "anna@example.com" by administrator from false`, notice: "A recovery mail"},
		"recover a disabled user": {change: func(u *personal.User) { u.Disabled = true }, action: "recover", notice: "No mail was sent"},
		"lift limits":             {action: "lift-limits", done: "lift 42 [192.0.2.1 2001:db8::1] by administrator from true", notice: "limits of the account have been lifted"},
	} {
		t.Run(name, func(t *testing.T) {
			b, f := openSupport(t, personal.Verdict{Reason: personal.ReasonNothing})
			if test.change != nil {
				test.change(&f.user.User)
			}
			values := url.Values{"user": {"42"}, "login": {"Anna&"}, "address": {"192.0.2.1 2001:db8::1"}}
			w := b.post("/admin/support/"+test.action, values)
			if want := "/admin/support?address=192.0.2.1+2001%3Adb8%3A%3A1&login=Anna%26"; w.Code != http.StatusSeeOther ||
				w.Header().Get("Location") != want {
				t.Fatalf("got %d to %s, want 303 to %s", w.Code, w.Header().Get("Location"), want)
			}
			if got := strings.Join(f.done, "\n"); got != test.done {
				t.Errorf("got the calls %s, want %s", got, test.done)
			}
			page := b.page(t, w.Header().Get("Location"))
			wantAll(t, page, test.notice)
			if got := strings.Contains(page, `action="/admin/support/disable"`); got != test.undo {
				t.Errorf("got a button to undo it: %t, want %t", got, test.undo)
			}
		})
	}
}

func TestSupport_FailuresAreShown(t *testing.T) {
	b, f := openSupport(t)
	values := url.Values{"user": {"42"}, "login": {"anna"}}
	for code, status := range map[personal.Code]int{
		personal.CodeNotFound: http.StatusNotFound, personal.CodeUnavailable: http.StatusServiceUnavailable,
		personal.CodeTooManyAttempts: http.StatusTooManyRequests,
	} {
		f.err = personal.NewError(code, nil)
		if w := b.get("/admin/support?login=anna"); w.Code != status {
			t.Errorf("%s: got status %d for the question, want %d", code, w.Code, status)
		}
		if w := b.post("/admin/support/recover", values); w.Code != status {
			t.Errorf("%s: got status %d for an action, want %d", code, w.Code, status)
		}
	}
	f.err, f.done = nil, nil
	for status, values := range map[int]url.Values{
		http.StatusNotFound:   {"user": {"41"}},
		http.StatusBadRequest: {"user": {"42"}, "address": {"nonsense"}},
	} {
		if w := b.post("/admin/support/lift-limits", values); w.Code != status {
			t.Errorf("%v: got status %d, want %d", values, w.Code, status)
		}
	}
	if w := b.get("/admin/support/enable"); w.Code != http.StatusMethodNotAllowed {
		t.Errorf("GET of an action: got status %d, want 405", w.Code)
	}
	r := form("/admin/support/enable", values)
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	if w := b.send(r); w.Code != http.StatusForbidden || len(f.done) > 0 {
		t.Errorf("from a foreign origin: got status %d and the calls %v, want 403 and none", w.Code, f.done)
	}
}

func TestSupport_TextsAreEscaped(t *testing.T) {
	b, f := openSupport(t)
	name := script
	f.user.Login, f.user.Name, f.user.Email = script, &name, script
	for _, reason := range []personal.Reason{personal.ReasonMailRefused, personal.ReasonLimit, personal.Reason(script)} {
		f.verdicts = []personal.Verdict{
			{Reason: reason, Action: personal.Action(script), Limit: script, Kind: script, Address: script, Reply: script},
			{Reason: reason, Action: personal.ActionLiftLimits, Limit: script, Kind: script, Address: script, Reply: script},
		}
		wantNoMarkup(t, b.page(t, "/admin/support?"+url.Values{"login": {script}}.Encode()))
	}
	w := b.get("/admin/support?" + url.Values{"login": {script}, "address": {script}}.Encode())
	wantNoMarkup(t, w.Body.String())
}

// contractConstants reads the constants of a type of package personal.
func contractConstants(t *testing.T, name string) []string {
	t.Helper()
	return constantsOf(t, filepath.Join("..", "..", "shared", "personal", "administration.go"), name)
}
