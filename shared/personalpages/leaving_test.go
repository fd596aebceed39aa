package personalpages_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhttp"
)

func TestExport_IsTheFileOfTheAPI(t *testing.T) {
	m := newModule()
	m.profile.Fields = []personal.ProfileField{{Name: "city", Value: "<Kazan>"}}
	b := newBrowser(t, m)
	b.hold(first, 0)
	b.post("/account/data", "password", "wrong").shows(t, 422, `id="field-password-error">This is not your current password. Enter it again.`)
	file := b.post("/account/data", "password", "correct horse")
	file.shows(t, 200, "<Kazan>")
	for name, want := range map[string]string{
		"Content-Type": "application/json; charset=utf-8", "Content-Disposition": `attachment; filename="account.json"`, "X-Content-Type-Options": "nosniff",
	} {
		if got := file.Header.Get(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	api, err := personalhttp.New(m, personalhttp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest("POST", "/api/v1/personal/export/", strings.NewReader("password=correct+horse"))
	r.Header = http.Header{"User-Id": {"42"}, "User-Hash": {first}, "Content-Type": {"application/x-www-form-urlencoded"}}
	w := httptest.NewRecorder()
	api.ServeHTTP(w, r)
	var envelope struct{ Data struct{ Export any } }
	var got any
	if err := json.Unmarshal(w.Body.Bytes(), &envelope); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(file.body), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(envelope.Data.Export, got); diff != "" || got == nil {
		t.Errorf("the file (-export/ +got):\n%s", diff)
	}
}

func TestDelete_SignsOutAndSaysHowToUndoIt(t *testing.T) {
	m := newModule()
	b := newBrowser(t, m)
	b.hold(first, 0)
	b.jar["proof"] = &http.Cookie{Name: "proof", Value: rightProof}
	b.get("/account/delete").shows(t, 200, "erased some time later", "an e-mail that we send to anna@example.com", "danger")
	m.profile.Email = ""
	b.get("/account/delete").shows(t, 200, "only the administrator of the site can undo this")
	delete(b.jar, "proof")
	b.post("/account/delete", "password", "wrong").shows(t, 422,
		`id="field-password-error">This is not your current password. Enter it again.`)
	if b.jar["account"] == nil {
		t.Fatal("a wrong password signed out")
	}
	b.post("/account/delete", "password", "correct horse").leads(t, "/")
	if b.jar["account"] != nil {
		t.Error("the cookie was not deleted")
	}
	b.get("/").shows(t, 200, "If it has an e-mail address, our e-mail says when, and how to undo this.", "Sign in")
}

func TestUndoDelete_LeadsToTheSignIn(t *testing.T) {
	m := newModule()
	b := newBrowser(t, m)
	b.post("/account/undo-delete", "token", "bad").shows(t, 422, "ask the administrator of the site to keep the account", `value="bad"`)
	b.post("/account/undo-delete", "token", "good").leads(t, "/account/sign-in")
	b.get("/account/sign-in").shows(t, 200, "Your account will not be erased.")
	if diff := cmp.Diff([]any{personal.UndoDeleteRequest{Token: "good"}}, m.calls); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestSignIn_DisabledAccountLinksToTheUndoPage(t *testing.T) {
	m := newModule()
	m.AuthorizeFunc = func(context.Context, personal.AuthorizeRequest) (personal.SignedIn, error) {
		return personal.SignedIn{}, personal.NewError(personal.CodeAccountDisabled, nil)
	}
	newBrowser(t, m).post("/account/sign-in", "login", "anna", "password", "correct horse").
		shows(t, 403, "This account is disabled.", `href="/account/undo-delete"`)
}
