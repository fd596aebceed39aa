package personaladmin_test

import (
	"context"
	"strings"
	"testing"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/plugins/manager"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

func TestOverview_ShowsWhatVisitorsDid(t *testing.T) {
	b := open(t)
	for _, call := range []struct {
		operation personal.OperationName
		code      personal.Code
	}{
		{personal.OpRegister, ""}, {personal.OpRegister, personal.CodeValidationFailed},
		{personal.OpAuthorize, ""}, {personal.OpAuthorizePasskey, ""}, {personal.OpSignIn, ""},
		{personal.OpAuthorize, personal.CodeInvalidCredentials}, {personal.OpAuthorize, personal.CodeTooManyAttempts},
		{personal.OpAuthorize, personal.CodeCodeRequired}, {personal.OpAuthorize, personal.CodeUnavailable}, {personal.OpProfile, personal.CodeUnauthenticated},
	} {
		b.counts.Count(call.operation, call.code, 0)
	}
	b.overviewUsers.FindUsersFunc = func(_ context.Context, r personal.FindUsersRequest) (personal.UserPage, error) {
		if r.Limit != personal.MaxUserLimit {
			t.Errorf("got the limit %d, want one page", r.Limit)
		}
		return personal.UserPage{Users: []personal.User{{ID: 42, Login: script}, {ID: 41, Login: "boris"}}}, nil
	}
	page := b.page(t, "/admin/overview")
	wantAll(t, page,
		"<dt>Registrations</dt><dd>1</dd>", "<dt>Sign-ins</dt><dd>3</dd>", "<dt>Failed or refused sign-ins</dt><dd>2</dd>",
		`<p class="figure">2</p>`, `href="/admin/users/42"`, `<p class="figure">7</p>`, "1.2.3", "serving", `href="/admin/plugin"`,
		`href="/admin/mail"`)
	wantNoMarkup(t, page)
}

func TestOverviewAndPlugin_NameUnknownSettings(t *testing.T) {
	b := open(t)
	b.manager.status.UnknownSettings = []manager.UnknownSetting{
		{UnknownSetting: rpc.UnknownSetting{Key: script}}, {UnknownSetting: rpc.UnknownSetting{Key: "two_moons"}, KnownBy: "1.3.0"},
	}
	for _, path := range []string{"/admin/overview", "/admin/plugin"} {
		page := b.page(t, path)
		wantAll(t, page, `<span class="badge bad">Settings file</span>`, "unknown key: ", `<span class="badge warn">Settings file</span>`,
			"two_moons is ignored: version 1.3.0 knows it, this one does not")
		wantNoMarkup(t, page)
	}
}

func TestOverview_CountsManyUsersByOnePage(t *testing.T) {
	b := open(t)
	calls := 0
	b.overviewUsers.FindUsersFunc = func(context.Context, personal.FindUsersRequest) (personal.UserPage, error) {
		calls++
		return personal.UserPage{Users: make([]personal.User, personal.MaxUserLimit), Next: 9_000}, nil
	}
	if page := b.page(t, "/admin/overview"); !strings.Contains(page, "more than 100") || calls != 1 {
		t.Errorf("got %d calls, want 1 and more than 100 users", calls)
	}
}

func TestOverview_WorksWithoutThePlugin(t *testing.T) {
	b := open(t)
	b.manager.notReady = context.DeadlineExceeded
	page := b.page(t, "/admin/overview")
	wantAll(t, page, "deadline exceeded", `<p class="figure">—</p>`)
}
