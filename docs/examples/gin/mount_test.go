package main

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/personalhttp"
	"github.com/cms-personal/personal/shared/personalhttp/personalhttptest"
	"github.com/cms-personal/personal/shared/personalpages"
)

func TestMount(t *testing.T) {
	personalhttptest.Run(t, func(service personal.Service) http.Handler {
		api, err := personalhttp.New(service, personalhttp.Options{Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		return site(api)
	})
}

// parts are a module without a plugin.
type parts struct {
	api     *personalhttp.Handler
	service personal.Service
}

func (p parts) API() *personalhttp.Handler            { return p.api }
func (p parts) Service() personal.Service             { return p.service }
func (parts) Administration() personal.Administration { return &personaltest.Administration{} }

// TestMount_AccountPagesAreForHTTPS signs in on account pages that gin routes, behind a proxy that
// terminates TLS: the cookies are for HTTPS alone.
func TestMount_AccountPagesAreForHTTPS(t *testing.T) {
	service := &personaltest.Service{
		AuthorizeFunc: func(context.Context, personal.AuthorizeRequest) (personal.SignedIn, error) {
			return personal.SignedIn{Credentials: personal.Credentials{UserID: 1, UserHash: strings.Repeat("a", 43)}}, nil
		},
	}
	api, err := personalhttp.New(service, personalhttp.Options{
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/32")}, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	account, err := personalpages.New(parts{api, service}, personalpages.Config{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	router := gin.New()
	router.Any("/account/*page", gin.WrapH(account))
	r := httptest.NewRequest(http.MethodPost, "/account/sign-in", strings.NewReader("login=anna&password=correct+horse"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("X-Forwarded-Proto", "https")
	w := httptest.NewRecorder()
	inFront(api, router).ServeHTTP(w, r)
	cookies := w.Result().Cookies()
	if len(cookies) == 0 {
		t.Fatalf("got %d and no cookies", w.Code)
	}
	for _, c := range cookies {
		if !c.Secure || !strings.HasPrefix(c.Name, "__Host-") {
			t.Errorf("got the cookie %v, want one for HTTPS", c)
		}
	}
}

// TestMount_RoutedAPIFails makes sure that the test finds what gin breaks when the API
// is one of its routes: it runs itself with such a mount.
func TestMount_RoutedAPIFails(t *testing.T) {
	const routed, check = "ROUTED_API", "unknown_paths"
	if os.Getenv(routed) != "" {
		personalhttptest.Run(t, func(service personal.Service) http.Handler {
			api, err := personalhttp.New(service, personalhttp.Options{Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			router := gin.New()
			router.Any("/api/v1/personal/*path", gin.WrapH(api))
			return router
		})
		return
	}
	again := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$/^"+check+"$")
	again.Env = append(os.Environ(), routed+"=yes")
	if out, err := again.CombinedOutput(); err == nil || !strings.Contains(string(out), "--- FAIL: "+t.Name()+"/"+check) {
		t.Errorf("got %v, want that the check fails, from\n%s", err, out)
	}
}
