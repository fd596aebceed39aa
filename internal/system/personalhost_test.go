package system

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"aead.dev/minisign"

	"github.com/cms-personal/personal/internal/store/dbconn"
	"github.com/cms-personal/personal/internal/testkit"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhost"
	"github.com/cms-personal/personal/shared/personalhttp"
	"github.com/cms-personal/personal/shared/plugins/catalogue"
	"github.com/cms-personal/personal/shared/plugins/manager"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

// moduleConfig returns the config of a module with its own data folder.
func moduleConfig(t *testing.T) personalhost.Config {
	t.Helper()
	data := t.TempDir()
	linkPlugin(t, data)
	return personalhost.Config{
		Data:     data,
		Plugin:   testkit.Binaries(t).Plugin,
		Settings: func() ([]byte, error) { return []byte(cheap), nil },
		Log:      slog.New(slog.NewTextHandler(t.Output(), nil)),
		Manager:  manager.Options{Rehearse: manager.RehearseOff}, // TestSwap_RehearsesOnPostgreSQL has it on
	}
}

// openModule opens a module that the test closes at its end.
func openModule(t *testing.T, c personalhost.Config) *personalhost.Module {
	t.Helper()
	m, err := personalhost.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Errorf("closing the module: %v", err)
		}
	})
	return m
}

// pluginsOf returns the plugin processes of the module in a data folder.
func pluginsOf(t *testing.T, data string) []string {
	t.Helper()
	processes, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil || len(processes) == 0 {
		t.Fatalf("got %d processes, error %v", len(processes), err)
	}
	var found []string
	for _, process := range processes {
		program, _ := os.Readlink(process) // an error: it has ended, or belongs to another user
		// A [testkit.Script] has become another program, and says so in its environment.
		environment, _ := os.ReadFile(filepath.Join(filepath.Dir(process), "environ"))
		run := filepath.Join(data, "run") + "/"
		if strings.HasPrefix(program, run) || strings.Contains(string(environment), testkit.ScriptVariable+"="+run) {
			found = append(found, process)
		}
	}
	return found
}

func wantPlugins(t *testing.T, data string, want int) {
	t.Helper()
	if got := pluginsOf(t, data); len(got) != want {
		t.Errorf("got plugin processes %v, want %d", got, want)
	}
}

// watchedLog calls a function when a line contains a text, unless that is empty.
type watchedLog struct {
	text string
	seen func()
}

func (w *watchedLog) Write(line []byte) (int, error) {
	if w.text != "" && bytes.Contains(line, []byte(w.text)) {
		w.seen()
	}
	return len(line), nil
}

// receivedEvents are plugin events that a CMS received.
type receivedEvents struct {
	mu    sync.Mutex
	types []manager.EventType
}

func (r *receivedEvents) add(e manager.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.types = append(r.types, e.Type)
}

func (r *receivedEvents) has(want manager.EventType) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Contains(r.types, want)
}

// post sends a form and returns the status and the body.
func post(t *testing.T, url string, form string) (int, string) {
	t.Helper()
	response, err := http.Post(url, "application/x-www-form-urlencoded", strings.NewReader(form))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

const registration = "login=anna&email=anna@example.com&password=correct+horse&confirm_password=correct+horse"

func TestPersonalhost_ServesInFrontOfARouterUntilClosed(t *testing.T) {
	t.Parallel()
	var events receivedEvents
	c := moduleConfig(t)
	c.Data = t.TempDir() // where Config.Plugin is not installed yet
	c.Manager.OnEvent = events.add
	c.API.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
	ctx, cancel := context.WithCancel(t.Context())
	m, err := personalhost.Open(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	cancel() // it limits Open only
	pages := http.NewServeMux()
	pages.Handle("GET /hello", m.RequireUser(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, _ := personalhttp.UserFrom(r.Context())
		fmt.Fprintf(w, "Hello, %s!", user.Profile.Login)
	})))
	pages.Handle("/versions/", http.StripPrefix("/versions", m.Admin()))
	server := httptest.NewServer(m.Front(pages))
	defer server.Close()

	if status, body := post(t, server.URL+"/api/v1/personal/register/", registration); status != http.StatusOK {
		t.Fatalf("register: got %d %s, want 200", status, body)
	}
	testHTTPS(t, servePages(t, m), "https", "anna", "correct horse")
	for path, want := range map[string]int{"/hello": http.StatusUnauthorized, "/versions/": http.StatusOK, "/versions/events": http.StatusOK,
		"/nothing": http.StatusNotFound} {
		response, err := http.Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("%s: got %d, want %d", path, response.StatusCode, want)
		}
	}

	// A swap reaches the log of events and the config's receiver.
	if err := m.Manager().Use(t.Context(), m.Manager().Status().Version); err != nil {
		t.Fatal(err)
	}
	response, err := http.Get(server.URL + "/versions/events")
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err != nil || !bytes.Contains(body, []byte(manager.EventSwitched)) || !events.has(manager.EventSwitched) {
		t.Errorf("got events %s, %v, want the switch there and in the config's receiver", body, err)
	}

	wantPlugins(t, c.Data, 2) // the old one is warm
	for range 2 {
		if err := m.Close(); err != nil {
			t.Errorf("closing: %v", err)
		}
	}
	wantPlugins(t, c.Data, 0)
	if status, body := post(t, server.URL+"/api/v1/personal/register/", registration); status != http.StatusServiceUnavailable {
		t.Errorf("after Close: got %d %s, want 503", status, body)
	}

	c.Plugin = "" // the version is installed
	c.URL = "https://site.example/account"
	again := openModule(t, c)
	pagesURL := servePages(t, again)
	testHTTPS(t, pagesURL, "", "anna", "correct horse") // the proxy does not send it
	for method, want := range map[string]int{http.MethodGet: http.StatusSeeOther, http.MethodPost: http.StatusForbidden} {
		plain := page(t, method, pagesURL+"/account/sign-in?next=%2F", "", "http", "")
		if to := plain.Header.Get("Location"); plain.StatusCode != want || want == http.StatusSeeOther && to != "https://site.example/account/sign-in?next=%2F" {
			t.Errorf("%s over plain HTTP: got %d to %q, want %d", method, plain.StatusCode, to, want)
		}
	}
	rest := httptest.NewServer(again.Front(nil))
	defer rest.Close()
	if status, body := post(t, rest.URL+"/api/v1/personal/auth/", "login=anna&password=correct+horse"); status != http.StatusOK {
		t.Errorf("sign-in after opening again: got %d %s, want 200", status, body)
	}
	if status, _ := post(t, rest.URL+"/elsewhere", ""); status != http.StatusNotFound {
		t.Errorf("another path without a router: got %d, want 404", status)
	}
}

func TestPersonalhost_FailedOpenLeavesNothing(t *testing.T) {
	t.Parallel()
	key, _, err := minisign.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		spoil func(*personalhost.Config)
		until string // the line of the log after which ctx ends; empty for never
		check func(error) bool
		want  string
	}{
		"bad setting": {
			func(c *personalhost.Config) {
				c.Settings = func() ([]byte, error) { return []byte("[session]\nidle = \"soon\"\n"), nil }
			},
			"",
			func(err error) bool {
				return errors.As(err, new(*rpc.PermanentError)) && strings.Contains(err.Error(), "session")
			},
			"a permanent error that names the section",
		},
		"unsigned plugin": {
			func(c *personalhost.Config) {
				_ = os.RemoveAll(filepath.Join(c.Data, "plugins")) // so that Config.Plugin is to be installed
				c.Accept = []catalogue.Option{catalogue.WithKeys([]minisign.PublicKey{key})}
			},
			"",
			func(err error) bool { return errors.Is(err, catalogue.ErrUnsigned) },
			"that the plugin is not signed",
		},
		"unreachable database until ctx ends": {
			func(c *personalhost.Config) { c.DatabaseURL = "postgres://u:hunter2@127.0.0.1:1/none?sslmode=disable" },
			"plugin does not run",
			func(err error) bool {
				return errors.Is(err, context.Canceled) && strings.Contains(err.Error(), "database") && !strings.Contains(err.Error(), "hunter2")
			},
			"the end of the context, and that the database is unavailable, without the password",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			good := moduleConfig(t)
			bad := good
			test.spoil(&bad)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			bad.Log = slog.New(slog.NewTextHandler(&watchedLog{text: test.until, seen: cancel}, nil))
			m, err := personalhost.Open(ctx, bad)
			if m != nil || err == nil || !test.check(err) {
				t.Errorf("got module %v, error %v, want %s", m, err, test.want)
			}
			wantPlugins(t, good.Data, 0)
			openModule(t, good)
		})
	}
}

// openWith opens and closes a module on a database.
func openWith(t *testing.T, database string) error {
	t.Helper()
	c := moduleConfig(t)
	c.DatabaseURL = database
	m, err := personalhost.Open(t.Context(), c)
	if err == nil {
		err = m.Close()
	}
	wantPlugins(t, c.Data, 0)
	return err
}

func wantSetupError(t *testing.T, err error, want string) {
	t.Helper()
	if !errors.As(err, new(*rpc.PermanentError)) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("got %v, want a permanent error with %q, without the password", err, want)
	}
}

func TestPersonalhost_UnusableSQLiteFileEndsOpen(t *testing.T) {
	t.Parallel()
	text := filepath.Join(t.TempDir(), "letter.txt")
	if err := os.WriteFile(text, bytes.Repeat([]byte("Dear Anna, "), 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	wantSetupError(t, openWith(t, "sqlite://"+text), "the file is not a SQLite database")
	wantSetupError(t, openWith(t, "sqlite://"+filepath.Join(t.TempDir(), "none", "personal.db")),
		"the folder of the database file does not exist: create it")
	folder := t.TempDir()
	if err := os.Chmod(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	wantSetupError(t, openWith(t, "sqlite://"+folder), "it names a folder, not a file")
	if info, err := os.Stat(folder); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("got mode %v of the folder (%v), want that it stays 0755", info.Mode(), err)
	}
}

func TestPersonalhost_UnusablePostgresEndsOpen(t *testing.T) {
	t.Parallel()
	database := testkit.Postgres(t)
	administer := func(database string, statements ...string) {
		t.Helper()
		pools, err := dbconn.Open(database, dbconn.RequestLimits)
		if err != nil {
			t.Fatal(err)
		}
		defer pools.Close()
		for _, statement := range statements {
			if _, err := pools.Write.ExecContext(context.Background(), statement); err != nil {
				t.Fatalf("%s: %v", statement, err)
			}
		}
	}
	role := "personal_test_" + strings.ToLower(rand.Text())
	administer(database, "CREATE ROLE "+role+" LOGIN")
	t.Cleanup(func() { administer(database, "DROP OWNED BY "+role+" CASCADE", "DROP ROLE "+role) })
	withRole := func(database string) string {
		u, err := url.Parse(database)
		if err != nil {
			t.Fatal(err)
		}
		u.User = url.UserPassword(role, "hunter2")
		return u.String()
	}
	asRole := withRole(database)
	const grants = "GRANT USAGE, CREATE ON SCHEMA"
	wantSetupError(t, openWith(t, asRole), grants) // of PostgreSQL 3F000: there is no schema for the role
	administer(database, "GRANT USAGE ON SCHEMA public TO "+role)
	wantSetupError(t, openWith(t, asRole), grants) // 42501
	// docs/postgresql.md, Rights in PostgreSQL: a separate role migrates.
	if err := openWith(t, database); err != nil {
		t.Fatal(err)
	}
	wantSetupError(t, openWith(t, asRole), grants)
	administer(database, "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO "+role)
	c := moduleConfig(t)
	c.DatabaseURL = asRole
	server := httptest.NewServer(openModule(t, c).Front(nil))
	defer server.Close()
	if status, body := post(t, server.URL+"/api/v1/personal/register/", registration); status != http.StatusOK {
		t.Errorf("register with a role that cannot create tables: got %d %s, want 200", status, body)
	}
	// The role migrates itself.
	own := testkit.Postgres(t)
	administer(own, "GRANT USAGE, CREATE ON SCHEMA public TO "+role)
	t.Cleanup(func() { administer(own, "DROP OWNED BY "+role+" CASCADE") })
	if err := openWith(t, withRole(own)); err != nil {
		t.Errorf("with a role that may create tables: got %v, want success", err)
	}
}

func TestPersonalhost_DataFolderInUseIsRefused(t *testing.T) {
	t.Parallel()
	c := moduleConfig(t)
	first := openModule(t, c)
	pid := first.Manager().Status().PID
	if _, err := personalhost.Open(t.Context(), c); err == nil ||
		!strings.Contains(err.Error(), filepath.Join(c.Data, "run")+" is in use by another process") {
		t.Errorf("got error %v, want that the folder is in use", err)
	}
	if status := first.Manager().Status(); status.PID != pid || !status.State.Serves() {
		t.Errorf("got status %v of the first module, want that it serves", status)
	}
}

// The Admission of a config judges callers of the API and of the CMS, but not administrators.
func TestPersonalhost_AdmissionJudgesAllButAdministrators(t *testing.T) {
	t.Parallel()
	c := moduleConfig(t)
	c.API.Transient = []string{"captcha"}
	c.Admission = &personal.Admission{Judge: func(ctx context.Context, _ personal.AdmissionRequest) error {
		if personal.TransientFrom(ctx)["captcha"] == "solved" {
			return nil
		}
		return personal.Refuse(personal.LocalText{"en": "No."})
	}}
	m := openModule(t, c)
	server := httptest.NewServer(m.Front(nil))
	defer server.Close()
	for form, want := range map[string]int{registration: http.StatusForbidden, registration + "&captcha=solved": http.StatusOK} {
		if status, body := post(t, server.URL+"/api/v1/personal/register/", form); status != want {
			t.Errorf("register with %s: got %d %s, want %d", form, status, body, want)
		}
	}
	authorize := personal.AuthorizeRequest{Login: "anna", Password: "correct horse"}
	_, byCMS := m.Service().Authorize(t.Context(), authorize)
	_, byProvider := m.Administration().SignIn(t.Context(), personal.SignInRequest{
		Identity: personal.Identity{Issuer: "https://provider.example", Subject: "anna"}, Method: "oidc",
	})
	_, byAdministrator := m.Client().Authorize(t.Context(), authorize)
	if personal.CodeOf(byCMS) != personal.CodeRefused || personal.CodeOf(byProvider) != personal.CodeRefused || byAdministrator != nil {
		t.Errorf("sign-ins: got %v of the CMS, %v of a provider and %v of an administrator, want that the last one alone is not judged",
			byCMS, byProvider, byAdministrator)
	}
}

// serve has a module serve by a server, and returns the server's URL, the function that
// stops it, and what Serve returns then.
func serve(t *testing.T, m *personalhost.Module, log *journal, server *http.Server) (url string, stop context.CancelFunc,
	served chan error) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	served = make(chan error, 1)
	go func() { served <- m.Serve(ctx, server) }()
	eventually(t, "the server listens", func() bool {
		_, rest, ok := strings.Cut(log.String(), "msg=listening address=")
		address, _, complete := strings.Cut(rest, "\n")
		url = "http://" + address
		return ok && complete
	})
	return url, stop, served
}

func TestPersonalhost_ServeWithoutHandlerServesTheAPI(t *testing.T) {
	t.Parallel()
	var log journal
	c := moduleConfig(t)
	c.Log = slog.New(slog.NewTextHandler(&log, nil))
	url, stop, served := serve(t, openModule(t, c), &log, &http.Server{Addr: "127.0.0.1:0"})
	for path, want := range map[string]int{"/api/v1/personal/fields/": http.StatusOK, "/": http.StatusNotFound} {
		response, err := http.Get(url + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("%s: got %d, want %d", path, response.StatusCode, want)
		}
	}
	stop()
	if err := <-served; err != nil {
		t.Errorf("Serve returned %v, want nil", err)
	}
}

func TestPersonalhost_ServeStopsInOrder(t *testing.T) {
	t.Parallel()
	for name, stopBy := range map[string]func(server *http.Server, cancel context.CancelFunc) error{
		"when its context ends": func(_ *http.Server, cancel context.CancelFunc) error { cancel(); return nil },
		"when the CMS shuts its server down": func(server *http.Server, _ context.CancelFunc) error {
			return server.Shutdown(context.Background())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log journal
			c := moduleConfig(t)
			c.Log = slog.New(slog.NewTextHandler(&log, nil))
			m := openModule(t, c)
			wantPlugins(t, c.Data, 1)
			if n := len(log.linesWith("mails are captured in the data folder")); n != 1 {
				t.Errorf("got %d warnings about captured mails, want 1", n)
			}
			entered, finish := make(chan struct{}), make(chan struct{})
			pages := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				close(entered)
				<-finish
				if err := m.Manager().Ready(r.Context()); err != nil {
					http.Error(w, err.Error(), http.StatusInternalServerError)
				}
			})
			server := &http.Server{Addr: "127.0.0.1:0", Handler: m.Front(pages)}
			url, cancel, served := serve(t, m, &log, server)
			response := make(chan int, 1)
			go func() {
				r, err := http.Get(url + "/slow")
				if err != nil {
					response <- 0
					return
				}
				_ = r.Body.Close()
				response <- r.StatusCode
			}()
			<-entered
			stopped := make(chan error, 1)
			go func() { stopped <- stopBy(server, cancel) }()
			eventually(t, "the module stops", func() bool { return len(log.linesWith("msg=stopping")) == 1 })
			eventually(t, "the server stops listening", func() bool {
				r, err := http.Get(url + "/api/v1/personal/fields/")
				if err == nil {
					_ = r.Body.Close()
				}
				return err != nil
			})
			close(finish)
			if status := <-response; status != http.StatusOK {
				t.Errorf("request under way at the stop: got status %d, want 200 from a plugin that still served", status)
			}
			if err := errors.Join(<-served, <-stopped); err != nil {
				t.Errorf("got %v from Serve and the stop, want nil", err)
			}
			wantPlugins(t, c.Data, 0)
		})
	}
}

func TestPersonalhost_ServeClosesTheModuleIfItCannotListen(t *testing.T) {
	t.Parallel()
	c := moduleConfig(t)
	m := openModule(t, c)
	wantPlugins(t, c.Data, 1)
	taken := httptest.NewServer(nil)
	defer taken.Close()
	err := m.Serve(t.Context(), &http.Server{Addr: taken.Listener.Addr().String()})
	if !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("got %v, want that the address is in use", err)
	}
	wantPlugins(t, c.Data, 0)
}
