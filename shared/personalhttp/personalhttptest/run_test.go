package personalhttptest

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhttp"
)

func newAPI(s personal.Service, o personalhttp.Options) *personalhttp.Handler {
	o.Log = slog.New(slog.DiscardHandler)
	api, err := personalhttp.New(s, o)
	if err != nil {
		panic(err)
	}
	return api
}

var account = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	user, _ := personalhttp.UserFrom(r.Context())
	fmt.Fprintf(w, "Hello, %s!", user.Profile.Login)
})

// inFront is the mount that the documentation recommends.
func inFront(api *personalhttp.Handler, o ...personalhttp.RequireOption) http.Handler {
	pages := http.NewServeMux()
	pages.Handle("GET /account", api.RequireUser(account, o...))
	return dispatch(api, pages)
}

func dispatch(api *personalhttp.Handler, pages http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if api.Matches(r) {
			api.ServeHTTP(w, r)
			return
		}
		pages.ServeHTTP(w, r)
	})
}

func good(s personal.Service) http.Handler { return inFront(newAPI(s, personalhttp.Options{})) }

func TestRun_PassesCorrectMounts(t *testing.T) {
	local := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	private := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	const cookie = "session"
	fromCookie := func(r *http.Request) (personal.Credentials, bool) {
		c, err := r.Cookie(cookie)
		if err != nil {
			return personal.Credentials{}, false
		}
		id, hash, _ := strings.Cut(c.Value, ".")
		n, _ := strconv.ParseInt(id, 10, 64)
		return personal.Credentials{UserID: n, UserHash: hash}, true
	}
	toSignIn := func(w http.ResponseWriter, r *http.Request, _ error) {
		http.Redirect(w, r, "/sign-in", http.StatusSeeOther)
	}
	for name, c := range map[string]struct {
		mount   func(personal.Service) http.Handler
		options []Option
	}{
		"in front of a ServeMux": {mount: good},
		"with every option": {
			mount: func(s personal.Service) http.Handler {
				api := newAPI(s, personalhttp.Options{
					BasePath:       "/base",
					TrustedProxies: local,
					CORSOrigins:    []string{"https://app.example"},
				})
				pages := http.NewServeMux()
				pages.Handle("GET /my/page/", api.RequireUser(account, personalhttp.WithExtractor(fromCookie), personalhttp.WithErrorHandler(toSignIn)))
				return dispatch(api, pages)
			},
			options: []Option{
				WithBasePath("/base"), WithGuardedPage("/my/page/"), WithTrustedProxies(local, ""),
				WithCORSOrigin("https://app.example"),
				WithCredentials(func(r *http.Request, c personal.Credentials) {
					r.AddCookie(&http.Cookie{Name: cookie, Value: fmt.Sprintf("%d.%s", c.UserID, c.UserHash)})
				}),
			},
		},
		"behind a guard that leaves the refusal to the API": {
			mount: func(s personal.Service) http.Handler {
				site := good(s)
				guard := http.NewCrossOriginProtection()
				guard.SetDenyHandler(site)
				return guard.Handler(site)
			},
		},
		"behind a proxy that sends Forwarded": {
			mount: func(s personal.Service) http.Handler {
				return inFront(newAPI(s, personalhttp.Options{TrustedProxies: private, ForwardedHeader: "Forwarded"}))
			},
			options: []Option{WithTrustedProxies(private, "forwarded")},
		},
	} {
		t.Run(name, func(t *testing.T) { Run(t, c.mount, c.options...) })
	}
}

// around returns a mount with a middleware in front of everything.
func around(middleware func(w http.ResponseWriter, r *http.Request, site http.Handler)) func(personal.Service) http.Handler {
	return func(s personal.Service) http.Handler {
		site := good(s)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { middleware(w, r, site) })
	}
}

// cached returns a mount behind a cache that knows the URL alone.
func cached(s personal.Service) http.Handler {
	site, responses := good(s), sync.Map{}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			site.ServeHTTP(w, r)
			return
		}
		response, _ := responses.LoadOrStore(r.URL.String(), sync.OnceValue(func() *httptest.ResponseRecorder {
			first := httptest.NewRecorder()
			site.ServeHTTP(first, r)
			return first
		}))
		stored := response.(func() *httptest.ResponseRecorder)()
		maps.Copy(w.Header(), stored.Header())
		w.WriteHeader(stored.Code)
		_, _ = w.Write(stored.Body.Bytes())
	})
}

// TestRun_FindsBrokenMounts breaks every promise, except that of
// TestRun_FindsReusedMemory, at least once.
func TestRun_FindsBrokenMounts(t *testing.T) {
	unbroken := map[string]bool{}
	for _, c := range promises() {
		unbroken[c.name] = true
	}
	broken := map[string]struct {
		mount   func(personal.Service) http.Handler
		options []Option
		found   []string
	}{
		"a ServeMux that redirects": {
			mount: func(s personal.Service) http.Handler {
				api := newAPI(s, personalhttp.Options{})
				mux := http.NewServeMux()
				mux.Handle("/api/v1/personal/", api)
				mux.Handle("/account", api.RequireUser(account))
				return mux
			},
			found: []string{"unknown paths"},
		},
		"a stripped prefix": {
			mount: func(s personal.Service) http.Handler {
				api := newAPI(s, personalhttp.Options{})
				mux := http.NewServeMux()
				mux.Handle("/api/v1/personal/", http.StripPrefix("/api", api))
				mux.Handle("/account", api.RequireUser(account))
				return mux
			},
			found: []string{"the API responds", "operations with and without a final slash", "bodies", "cancellation"},
		},
		"HEAD served as GET": {
			mount: around(func(w http.ResponseWriter, r *http.Request, site http.Handler) {
				if r.Method == http.MethodHead {
					r.Method = http.MethodGet
				}
				site.ServeHTTP(w, r)
			}),
			found: []string{"methods"},
		},
		"a list of methods": {
			mount: around(func(w http.ResponseWriter, r *http.Request, site http.Handler) {
				if r.Method == "BREW" {
					http.Error(w, "not implemented", http.StatusNotImplemented)
					return
				}
				site.ServeHTTP(w, r)
			}),
			found: []string{"unknown methods"},
		},
		"an overridden method": {
			mount: around(func(w http.ResponseWriter, r *http.Request, site http.Handler) {
				if method := r.Header.Get("X-Http-Method-Override"); method != "" {
					r.Method = method
				}
				site.ServeHTTP(w, r)
			}),
			found: []string{"methods"},
		},
		"a form that is parsed first": {
			mount: around(func(w http.ResponseWriter, r *http.Request, site http.Handler) {
				_ = r.ParseForm()
				site.ServeHTTP(w, r)
			}),
			found: []string{"bodies", "limits of bodies", "early refusal of large bodies", "deadline of bodies"},
		},
		"an overwritten client address": {
			mount: around(func(w http.ResponseWriter, r *http.Request, site http.Handler) {
				if ip := r.Header.Get("X-Real-Ip"); ip != "" {
					r.RemoteAddr = ip + ":0"
				}
				site.ServeHTTP(w, r)
			}),
			found: []string{"client address"},
		},
		"a declared proxy that is not trusted": {
			mount:   good,
			options: []Option{WithTrustedProxies([]netip.Prefix{netip.MustParsePrefix("10.0.0.1/32")}, "")},
			found:   []string{"client address"},
		},
		"dropped request headers": {
			mount: around(func(w http.ResponseWriter, r *http.Request, site http.Handler) {
				r.Header.Del("X-Request-Id")
				site.ServeHTTP(w, r)
			}),
			found: []string{"request headers"},
		},
		"headers reduced to one": {
			mount: around(func(w http.ResponseWriter, r *http.Request, site http.Handler) {
				for name, values := range r.Header {
					r.Header[name] = values[len(values)-1:]
				}
				site.ServeHTTP(w, r)
			}),
			found: []string{"repeated headers"},
		},
		"a detached context": {
			mount: around(func(w http.ResponseWriter, r *http.Request, site http.Handler) {
				site.ServeHTTP(w, r.WithContext(context.WithoutCancel(r.Context())))
			}),
			found: []string{"cancellation"},
		},
		"a detached context that times out": {
			mount: func(s personal.Service) http.Handler {
				site := inFront(newAPI(s, personalhttp.Options{Timeout: 100 * time.Millisecond}))
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					site.ServeHTTP(w, r.WithContext(context.WithoutCancel(r.Context())))
				})
			},
			found: []string{"cancellation"},
		},
		"error pages": {
			mount: around(func(w http.ResponseWriter, r *http.Request, site http.Handler) {
				site.ServeHTTP(&errorPages{ResponseWriter: w}, r)
			}),
			found: []string{"panics", "errors"},
		},
		"a repeated call": {
			mount: around(func(w http.ResponseWriter, r *http.Request, site http.Handler) {
				first := httptest.NewRecorder()
				site.ServeHTTP(first, r)
				if first.Code == http.StatusServiceUnavailable {
					site.ServeHTTP(w, r)
					return
				}
				for name, values := range first.Header() {
					w.Header()[name] = values
				}
				w.WriteHeader(first.Code)
				_, _ = w.Write(first.Body.Bytes())
			}),
			found: []string{"errors"},
		},
		"a CORS middleware": {
			mount: around(func(w http.ResponseWriter, r *http.Request, site http.Handler) {
				w.Header().Set("Access-Control-Allow-Origin", "*")
				if r.Method == http.MethodOptions {
					w.WriteHeader(http.StatusNoContent)
					return
				}
				site.ServeHTTP(w, r)
			}),
			found: []string{"methods", "cross-origin requests"},
		},
		"a CORS middleware beside a listed origin": {
			mount: func(s personal.Service) http.Handler {
				site := inFront(newAPI(s, personalhttp.Options{CORSOrigins: []string{"https://app.example"}}))
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.Header.Get("Origin") == "https://app.example" {
						w.Header().Set("Access-Control-Allow-Credentials", "true")
					}
					site.ServeHTTP(w, r)
				})
			},
			options: []Option{WithCORSOrigin("https://app.example")},
			found:   []string{"cross-origin requests"},
		},
		"a declared origin that is not listed": {
			mount:   good,
			options: []Option{WithCORSOrigin("https://app.example")},
			found:   []string{"cross-origin requests"},
		},
		"a guard without the envelope": {
			mount: func(s personal.Service) http.Handler { return http.NewCrossOriginProtection().Handler(good(s)) },
			found: []string{"cross-origin requests"},
		},
		"a guard that refuses more than the API": {
			mount: around(func(w http.ResponseWriter, r *http.Request, site http.Handler) {
				if site := r.Header.Get("Sec-Fetch-Site"); site == "none" {
					r.Header.Set("Sec-Fetch-Site", "cross-site")
				}
				site.ServeHTTP(w, r)
			}),
			found: []string{"cross-origin requests"},
		},
		"a changed Host": {
			mount: around(func(w http.ResponseWriter, r *http.Request, site http.Handler) {
				r.Host = "backend"
				site.ServeHTTP(w, r)
			}),
			found: []string{"cross-origin requests"},
		},
		"a cache by URL": {
			mount: cached,
			found: []string{"responses for two users", "guarded page"},
		},
		"dropped response headers": {
			mount: around(func(w http.ResponseWriter, r *http.Request, site http.Handler) {
				site.ServeHTTP(&dropping{ResponseWriter: w, names: []string{"Content-Security-Policy", "X-Request-Id"}}, r)
			}),
			found: []string{"request headers", "response headers"},
		},
		"a dropped Retry-After": {
			mount: around(func(w http.ResponseWriter, r *http.Request, site http.Handler) {
				site.ServeHTTP(&dropping{ResponseWriter: w, names: []string{"Retry-After"}}, r)
			}),
			found: []string{"errors"},
		},
		"headers for pages": {
			mount: around(func(w http.ResponseWriter, r *http.Request, site http.Handler) {
				w.Header().Add("X-Content-Type-Options", "nosniff")
				site.ServeHTTP(&dropping{ResponseWriter: w, add: http.Header{"Cache-Control": {"max-age=60"}}}, r)
			}),
			found: []string{"response headers"},
		},
		"compressed responses": {
			mount: around(func(w http.ResponseWriter, r *http.Request, site http.Handler) {
				if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
					site.ServeHTTP(w, r)
					return
				}
				w.Header().Set("Content-Encoding", "gzip")
				z := gzip.NewWriter(w)
				site.ServeHTTP(altering{w, z}, r)
				_ = z.Close()
			}),
			found: []string{"response bodies"},
		},
		"altered responses": {
			mount: around(func(w http.ResponseWriter, r *http.Request, site http.Handler) {
				site.ServeHTTP(altering{w, prefixing{w}}, r)
			}),
			found: []string{"bodies", "panics", "response bodies"},
		},
		"a response that is cut": {
			mount: around(func(w http.ResponseWriter, r *http.Request, site http.Handler) {
				site.ServeHTTP(altering{w, cutting{w}}, r)
			}),
			found: []string{"response bodies"},
		},
		"a page without a guard": {
			mount: func(s personal.Service) http.Handler {
				pages := http.NewServeMux()
				pages.HandleFunc("GET /account", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, login) })
				return dispatch(newAPI(s, personalhttp.Options{}), pages)
			},
			found: []string{"guarded page"},
		},
		"a guard that lets pass what it rejects": {
			mount: func(s personal.Service) http.Handler {
				return inFront(newAPI(s, personalhttp.Options{}), personalhttp.WithErrorHandler(func(w http.ResponseWriter, _ *http.Request, _ error) {
					fmt.Fprint(w, "Welcome")
				}))
			},
			found: []string{"guarded page"},
		},
		"no page": {
			mount: func(s personal.Service) http.Handler { return newAPI(s, personalhttp.Options{}) },
			found: []string{"guarded page"},
		},
	}
	for name, c := range broken {
		for _, check := range c.found {
			delete(unbroken, check)
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := allFailures(c.mount, only(c.found...), c.options...)
			for _, name := range c.found {
				if len(found[name]) == 0 {
					t.Errorf("got no failure of %q, want one", name)
					continue
				}
				t.Log(name + ": " + found[name][0])
				for _, message := range found[name] {
					if _, advice, _ := strings.Cut(message, "\n"); advice == "" {
						t.Errorf("%s: a failure does not say what to do: %s", name, message)
					}
				}
			}
		})
	}
	delete(unbroken, reusedMemory)
	if len(unbroken) > 0 {
		t.Errorf("no mount breaks %v", unbroken)
	}
}

// only selects checks by name.
func only(names ...string) func(check) bool {
	return func(c check) bool { return slices.Contains(names, c.name) }
}

// allFailures returns the failures of a mount by check.
func allFailures(mount func(personal.Service) http.Handler, selected func(check) bool, options ...Option) map[string][]string {
	return serverFailures(func(s personal.Service) func(net.Listener) error { return serveHTTP(mount(s)) }, selected, options...)
}

// serverFailures returns the failures of a mount with its own server. Checks that must pass need
// more patience.
func serverFailures(mount mount, selected func(check) bool, options ...Option) map[string][]string {
	found := map[string][]string{}
	for _, c := range newChecks(append([]Option{patience(time.Second)}, options...)) {
		if selected(c) {
			found[c.name] = failures(func(r reporter) { c.evaluate(r, mount) })
		}
	}
	return found
}

func patience(d time.Duration) Option { return func(c *config) { c.patience = d } }

// errorPages replaces responses with a status from 500.
type errorPages struct {
	http.ResponseWriter
	replaced bool
}

func (w *errorPages) WriteHeader(status int) {
	if w.replaced = status >= http.StatusInternalServerError; w.replaced {
		http.Error(w.ResponseWriter, "Something went wrong.", status)
		return
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *errorPages) Write(p []byte) (int, error) {
	if w.replaced {
		return len(p), nil
	}
	return w.ResponseWriter.Write(p)
}

func (w *errorPages) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// dropping removes and adds headers of the response.
type dropping struct {
	http.ResponseWriter
	names []string
	add   http.Header
}

func (w *dropping) WriteHeader(status int) {
	for _, name := range w.names {
		w.Header().Del(name)
	}
	for name, values := range w.add {
		w.Header()[name] = append(w.Header()[name], values...)
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *dropping) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// altering writes the body elsewhere.
type altering struct {
	http.ResponseWriter
	to io.Writer
}

func (w altering) Write(p []byte) (int, error) { return w.to.Write(p) }
func (w altering) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// prefixing adds a prefix that many proxies of JSON add.
type prefixing struct{ w io.Writer }

func (p prefixing) Write(data []byte) (int, error) {
	_, _ = io.WriteString(p.w, ")]}',\n")
	return p.w.Write(data)
}

// cutting writes no more than a buffer.
type cutting struct{ w io.Writer }

func (c cutting) Write(data []byte) (int, error) { return c.w.Write(data[:min(len(data), 8<<10)]) }

const reusedMemory = "values after the request"

// TestRun_FindsReusedMemory serves requests whose texts change after the response, as a
// server does that reuses its memory. Requests come one after another.
func TestRun_FindsReusedMemory(t *testing.T) {
	buffer := make([]byte, 1<<10)
	mount := around(func(w http.ResponseWriter, r *http.Request, site http.Handler) {
		n := copy(buffer, r.UserAgent())
		r.Header.Set("User-Agent", unsafe.String(&buffer[0], n))
		site.ServeHTTP(w, r)
	})
	if found := allFailures(mount, only(reusedMemory)); len(found[reusedMemory]) == 0 {
		t.Errorf("got no failure of %q, want one", reusedMemory)
	}
}

// TestRunServer_BodyDeadlineIsThatOfTheBody has servers whose handler cannot set a
// deadline: that of the header is over when the body is read.
func TestRunServer_BodyDeadlineIsThatOfTheBody(t *testing.T) {
	noUnwrap := around(func(w http.ResponseWriter, r *http.Request, site http.Handler) {
		site.ServeHTTP(struct{ http.ResponseWriter }{w}, r)
	})
	for name, test := range map[string]struct {
		server *http.Server
		want   int
	}{
		"limit for the header":      {&http.Server{ReadHeaderTimeout: time.Minute}, 1},
		"limit for the whole":       {&http.Server{ReadTimeout: time.Minute}, 0},
		"limits for header and all": {&http.Server{ReadHeaderTimeout: time.Minute, ReadTimeout: time.Minute}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			found := serverFailures(func(s personal.Service) func(net.Listener) error {
				test.server.Handler = noUnwrap(s)
				return test.server.Serve
			}, only(checkBodyDeadline), patience(time.Minute))
			if len(found[checkBodyDeadline]) != test.want {
				t.Errorf("got the failures %q, want %d", found[checkBodyDeadline], test.want)
			}
		})
	}
}

func TestRun_TellsOneCauseOnce(t *testing.T) {
	const panicked = "the site panicked: no template"
	for name, c := range map[string]struct {
		mount func(personal.Service) http.Handler
		cause string // told once
		shown string
		alone bool // the first check fails, and no other is run
	}{
		"every request panics": {
			mount: around(func(http.ResponseWriter, *http.Request, http.Handler) { panic("no template") }),
			cause: panicked, shown: "run_test.go:", alone: true,
		},
		"GET panics": {
			mount: around(func(w http.ResponseWriter, r *http.Request, site http.Handler) {
				if r.Method == http.MethodGet {
					panic("no template")
				}
				site.ServeHTTP(w, r)
			}),
			cause: panicked, shown: "run_test.go:",
		},
		"no API": {
			mount: func(personal.Service) http.Handler { return http.NotFoundHandler() },
			cause: "got 404", alone: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var told []string
			ran := 0
			runChecks(newChecks(nil), func(check check) bool {
				ran++
				found := failures(func(r reporter) {
					check.evaluate(r, func(s personal.Service) func(net.Listener) error { return serveHTTP(c.mount(s)) })
				})
				told = append(told, found...)
				return len(found) == 0
			})
			all := strings.Join(told, "\n")
			if strings.Count(all, c.cause) != 1 || !strings.Contains(all, c.shown) {
				t.Errorf("got the failures %q, want %q once, with %q", told, c.cause, c.shown)
			}
			if (ran == 1) != c.alone || c.alone && len(told) != 1 {
				t.Errorf("got %d failures of %d checks, want one alone: %t", len(told), ran, c.alone)
			}
		})
	}
}

func TestRun_DeclaredGap(t *testing.T) {
	detached := around(func(w http.ResponseWriter, r *http.Request, site http.Handler) {
		site.ServeHTTP(w, r.WithContext(context.WithoutCancel(r.Context())))
	})
	gap := WithoutCancellation("the server cannot")
	if found := allFailures(detached, only(checkCancellation), gap); len(found[checkCancellation]) > 0 {
		t.Errorf("got the failures %q of a mount that has the declared gap, want none", found[checkCancellation])
	}
	// Without the gap, the check waits for an event: a slow machine must not look like one.
	if found := allFailures(good, only(checkCancellation), gap, patience(time.Minute)); len(found[checkCancellation]) != 1 {
		t.Errorf("got the failures %q of a mount that lacks the declared gap, want one", found[checkCancellation])
	}
}
