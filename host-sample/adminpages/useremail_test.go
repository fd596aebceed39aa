package adminpages_test

import (
	"context"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/host-sample/adminpages"
	"github.com/cms-personal/personal/shared/personal"
)

// recovery notes who was to be mailed, and from where it was asked for.
type recovery struct {
	asked []personal.RecoverRequest
	from  netip.Addr
	err   error
}

func (r *recovery) Recover(ctx context.Context, request personal.RecoverRequest) error {
	r.asked, r.from = append(r.asked, request), personal.CallFrom(ctx).Address
	return r.err
}

func TestAnEmailIsSetOnlyWhereItWasChangedOnThePage(t *testing.T) {
	p := newPlugin()
	b := openUsers(t, p)
	values := shownValues(t, b.page(t, "/admin/users/42"))
	p.user.Email = "changed@by.its.user.example"
	b.do(t, "/admin/users/42/email", values)
	for _, email := range []string{"anna@example.org", ""} {
		values.Set("email", email)
		b.do(t, "/admin/users/42/email", values)
	}
	want := []personal.SetEmailRequest{{UserID: 42, Email: "anna@example.org"}, {UserID: 42}}
	if diff := cmp.Diff(want, p.emails); diff != "" {
		t.Error(diff)
	}
}

func TestWhatIsWrongWithAnEmailIsSaidBesideIt(t *testing.T) {
	for name, test := range map[string]struct {
		err    error
		status int
		fault  string
	}{
		"no address": {personal.FieldErrors{"email": personal.FieldErrorInvalidFormat}.Err(), 422, "expected form"},
		"taken":      {&personal.Error{Code: personal.CodeAlreadyExists, FieldErrors: personal.FieldErrors{"email": personal.FieldErrorTaken}}, 409, "taken"},
		"the login":  {personal.FieldErrors{"email": personal.FieldErrorRequired}.Err(), 422, "fill"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlugin()
			p.SetEmailFunc = func(context.Context, personal.SetEmailRequest) error { return test.err }
			b := openUsers(t, p)
			values := shownValues(t, b.page(t, "/admin/users/42"))
			values.Set("email", script)
			w := b.post("/admin/users/42/email", values)
			page := w.Body.String()
			if w.Code != test.status || !strings.Contains(faultAt(page, "email"), test.fault) || hidden(page, "shown:email") != "anna@example.com" {
				t.Errorf("%d %s", w.Code, page)
			}
			wantNoMarkup(t, page)
		})
	}
}

func TestAVersionThatCannotSetAnEmailIsToldFromAUserWhoIsGone(t *testing.T) {
	p := newPlugin()
	b := openUsers(t, p)
	change := url.Values{"email": {"anna@example.org"}}
	if w := b.post("/admin/users/41/email", change); w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), "no such user") {
		t.Errorf("nobody: %d %s", w.Code, w.Body)
	}
	p.SetEmailFunc = func(context.Context, personal.SetEmailRequest) error {
		return personal.NewError(personal.CodeNotFound, nil)
	}
	if w := b.post("/admin/users/42/email", change); w.Code != http.StatusNotImplemented || !strings.Contains(w.Body.String(), "cannot set an e-mail") {
		t.Errorf("an older version: %d %s", w.Code, w.Body)
	}
	p.SetEmailFunc = func(context.Context, personal.SetEmailRequest) error {
		return personal.NewError(personal.CodeUnavailable, nil)
	}
	if w := b.post("/admin/users/42/email", change); w.Code != http.StatusServiceUnavailable {
		t.Errorf("no plugin: %d", w.Code)
	}
}

func TestARecoveryMailIsAskedForByTheUsersEmailAndFromNowhere(t *testing.T) {
	p, mails := newPlugin(), &recovery{}
	b := open(t, func(o *adminpages.Options) { o.Users, o.Recovery = p, mails })
	const button = `action="/admin/users/42/recovery"`
	if page := b.page(t, "/admin/users/42"); !strings.Contains(page, button) {
		t.Error("the page offers no recovery mail")
	}
	b.do(t, "/admin/users/42/recovery", nil)
	if diff := cmp.Diff([]personal.RecoverRequest{{Email: "anna@example.com"}}, mails.asked); diff != "" || mails.from.IsValid() {
		t.Errorf("from %v: %s", mails.from, diff)
	}
	mails.err = &personal.Error{Code: personal.CodeTooManyAttempts}
	if w := b.post("/admin/users/42/recovery", nil); w.Code != http.StatusTooManyRequests {
		t.Errorf("too many: %d", w.Code)
	}
	if w := b.post("/admin/users/41/recovery", nil); w.Code != http.StatusNotFound {
		t.Errorf("of nobody: %d", w.Code)
	}

	mails.asked = nil
	for name, change := range map[string]func(*personal.User){
		"disabled":       func(u *personal.User) { u.Disabled = true },
		"without e-mail": func(u *personal.User) { u.Email = "" },
	} {
		user := p.user
		change(&p.user.User)
		if strings.Contains(b.page(t, "/admin/users/42"), button) {
			t.Errorf("who is %s is offered a recovery mail", name)
		}
		b.do(t, "/admin/users/42/recovery", nil)
		p.user = user
	}
	if len(mails.asked) > 0 {
		t.Errorf("asked for %v", mails.asked)
	}
}
