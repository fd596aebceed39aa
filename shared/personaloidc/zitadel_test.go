//go:build extended

package personaloidc_test

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"testing"

	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"

	"github.com/cms-personal/personal/shared/personal"
)

var loginID = regexp.MustCompile(`name="id" value="([^"]*)"`)

// The site signs users in with a provider that others have written.
func TestProvider_SignsIn(t *testing.T) {
	server := httptest.NewUnstartedServer(nil)
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	issuer := fmt.Sprintf("http://localhost:%s/", port)
	w := &world{t: t}
	w.serve(provider{name: "Example ID", issuer: issuer, client: "web", secret: "secret"})
	storage.RegisterClients(storage.WebClient("web", "secret", w.url+callbackPath))
	users := storage.NewUserStore(issuer)
	server.Config.Handler = exampleop.SetupServer(issuer, storage.NewStorage(users), slog.New(slog.DiscardHandler), false)
	server.Start()
	t.Cleanup(server.Close)

	signIn := func(b *browser) {
		t.Helper()
		b.get(startPath)
		b.want(http.StatusOK, "/login/username")
		id := loginID.FindStringSubmatch(b.page)
		if id == nil {
			t.Fatalf("got no sign-in of the provider:\n%s", b.page)
		}
		b.post(issuer+"login/username", url.Values{"username": {"test-user2"}, "password": {"verysecure"}, "id": {id[1]}})
	}
	b := w.browser()
	signIn(b)
	b.want(http.StatusOK, choosePath)
	login := name("ada")
	b.post(registerPath, url.Values{"login": {login}, "email": {login + "@example.com"}})
	b.wantSignedIn(login)
	again := w.browser()
	signIn(again)
	again.want(http.StatusOK, "/account")
	again.wantSignedIn(login)
	subject := users.GetUserByUsername("test-user2").ID
	if _, err := module.Administration().FindIdentity(t.Context(), personal.Identity{Issuer: issuer, Subject: subject}); err != nil {
		t.Errorf("the identity is not that of the provider: %v", err)
	}
}
