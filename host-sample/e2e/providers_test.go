//go:build extended

package e2e

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// openIDProvider is one that others have written.
type openIDProvider struct {
	issuer string
	server *httptest.Server
}

// signedOutAt is a client that may lead back to the site after a sign-out.
type signedOutAt struct {
	op.Client
	uri string
}

func (c signedOutAt) PostLogoutRedirectURIs() []string { return []string{c.uri} }

// provided is the provider's storage.
type provided struct {
	*storage.Storage
	site string
}

func (p provided) GetClientByClientID(ctx context.Context, id string) (op.Client, error) {
	c, err := p.Storage.GetClientByClientID(ctx, id)
	return signedOutAt{c, p.site + "/"}, err
}

func startProvider(t *testing.T) *openIDProvider {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	return &openIDProvider{fmt.Sprintf("http://localhost:%s/", port), server}
}

// flag is that of the sample.
func (p *openIDProvider) flag(t *testing.T) string {
	t.Helper()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return "--oidc=zitadel=" + p.issuer + ",web," + secret
}

// serve serves the provider for a site.
func (p *openIDProvider) serve(site string) {
	storage.RegisterClients(storage.WebClient("web", "secret", site+"/account/providers/zitadel/callback"))
	p.server.Config.Handler = exampleop.SetupServer(p.issuer, provided{storage.NewStorage(storage.NewUserStore(p.issuer)), site}, slog.New(slog.DiscardHandler), false)
	p.server.Start()
}

// nodes starts hosts of one site behind a proxy that gives each request to the next one.
func nodes(t *testing.T, n int, flags ...string) string {
	t.Helper()
	var next atomic.Int64
	var hosts []*httputil.ReverseProxy
	proxied := atLocalhost(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hosts[int(next.Add(1))%len(hosts)].ServeHTTP(w, r)
	}))
	key := make([]byte, 32)
	_, _ = rand.Read(key)
	for range n {
		data := filepath.Join(t.TempDir(), "data")
		if err := os.Mkdir(data, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(data, "secret.key"), []byte(base64.StdEncoding.EncodeToString(key)+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		s := start(t, append([]string{"--data", data, "--url", proxied, "--trusted-proxy", "127.0.0.1/32"}, flags...)...)
		to, err := url.Parse(s.url)
		if err != nil {
			t.Fatal(err)
		}
		hosts = append(hosts, &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.SetXForwarded()
			r.Out.Host = r.In.Host
		}})
	}
	return proxied
}

// reach waits for a page of the site.
func (p *tab) reach(path string) {
	p.t.Helper()
	p.await("the page "+path, fmt.Sprintf(`location.origin + location.pathname === %q && document.readyState === "complete" ? "yes" : ""`, p.base+path))
}

// atProvider signs in at the provider, and comes back to a page.
func (p *tab) atProvider(user, path string) {
	p.t.Helper()
	p.await("the provider's page", `document.querySelector("#username") ? "yes" : ""`)
	p.do(chromedp.SendKeys(chromedp.CSS("#username"), user), chromedp.SendKeys(chromedp.CSS("#password"), "verysecure"))
	p.do(chromedp.Click(chromedp.CSS("button[type=submit]")))
	p.reach(path)
}

// A user does everything with a provider that others have written, and without a password: on one node, and on
// three that share a database, each request on another one.
func TestProvider_FromRegistrationToDeletion(t *testing.T) {
	for name, n := range map[string]int{"one node": 1, "three nodes": 3} {
		t.Run(name, func(t *testing.T) {
			provider := startProvider(t)
			flags := []string{provider.flag(t)}
			if n > 1 {
				database := os.Getenv("PERSONAL_TEST_POSTGRES")
				if database == "" {
					t.Skip("PERSONAL_TEST_POSTGRES is not set")
				}
				flags = append(flags, "--database", database)
			}
			settings := filepath.Join(t.TempDir(), "settings.toml")
			if err := os.WriteFile(settings, []byte(testSettings+"[registration]\nemail_verification = \"off\"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			at := nodes(t, n, append(flags, "--settings", settings)...)
			provider.serve(at)
			p := newTab(t, at, desktop)
			p.expect("request to " + provider.issuer)

			p.open("/account/register")
			p.wantAccessible()
			p.press("Continue with localhost")
			p.atProvider("test-user2", "/account/sign-in/choose")
			p.see("You signed in at localhost as")
			p.wantAccessible()
			p.fill("Login", "ada")
			p.fill("E-mail", "ada@example.com")
			p.press("Create an account")
			p.reach("/account")
			p.open("/account/linked")
			p.see("Last used")
			p.wantAccessible()

			p.press("Sign out")
			p.see("You are still signed in at localhost in this browser")
			p.wantAccessible()
			p.press("Sign out at localhost, too")
			p.reach("/")
			p.open("/account/sign-in?next=/account/sessions")
			p.wantAccessible()
			p.press("Continue with localhost")
			p.atProvider("test-user2", "/account/sessions")
			p.see("localhost")

			// Another user links, and unlinks.
			q := newTab(t, at, desktop)
			q.expect("request to " + provider.issuer)
			q.open("/account/register")
			q.submit(registration("grace"))
			q.open("/account/linked")
			q.press("Link localhost")
			q.atProvider("test-user@localhost", "/account/linked/confirm")
			q.see("can sign in here as grace")
			q.wantAccessible()
			q.press("Link")
			q.reach("/account/linked")
			q.see("Your account is now linked.")
			q.press("Remove link: localhost")
			q.reach("/account/linked/remove")
			q.press("Remove the link")
			q.see("The link is removed.")

			p.forgetProof()
			p.open("/account/delete")
			p.reach("/account/confirm")
			p.wantAccessible()
			p.press("Confirm at localhost")
			p.atProvider("test-user2", "/account/delete")
			p.press("Delete the account")
			p.reach("/")
			p.see("Your account is disabled and will be erased.")
		})
	}
}
