package cli

import (
	"cmp"
	"context"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/cms-personal/personal/host-sample/admin"
	"github.com/cms-personal/personal/host-sample/site"
	"github.com/cms-personal/personal/shared/durable"
	"github.com/cms-personal/personal/shared/idle"
	"github.com/cms-personal/personal/shared/personaladmin"
	"github.com/cms-personal/personal/shared/personalhost"
	"github.com/cms-personal/personal/shared/personalhost/fieldstore"
	"github.com/cms-personal/personal/shared/personalhost/mailer"
	"github.com/cms-personal/personal/shared/personaloidc"
	"github.com/cms-personal/personal/shared/personalpages"
	"github.com/cms-personal/personal/shared/plugins/manager"
)

// sampleFields are the user fields of a new data folder.
//
//go:embed user-fields.json
var sampleFields []byte

// host is a CMS that listens. It is made by openHost, and run once.
type host struct {
	config    config
	log       *slog.Logger
	folder    *dataFolder
	token     string // for the admin API
	callbacks *personalhost.Host
	listener  net.Listener
	url       string // of the listener
	siteURL   string // at which browsers on this machine open the site
	module    *personalhost.Module
	sessions  *admin.Sessions // of administrators
	server    *http.Server
	served    bool
	profiles  *profileServer // nil: none are served
	closers   []func() error // in the order of opening
}

// openHost takes the data folder and listens. It starts neither the plugin nor the
// server. It prints to stdout with --debug-plugin only.
func openHost(ctx context.Context, c config, log *slog.Logger, stdout io.Writer) (_ *host, err error) {
	h := &host{config: c, log: log, sessions: admin.NewSessions()}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.close())
		}
	}()
	if err := h.openFolder(); err != nil {
		return nil, err
	}
	catalogue, err := openCatalogue(c.pluginsDir, log, c.pluginTrust...)
	if err != nil {
		return nil, &flagError{"plugins", err}
	}
	if err := choosePlugin(ctx, catalogue, c.flags.Plugin, log); err != nil {
		return nil, err
	}
	if err := h.listen(ctx); err != nil {
		return nil, err
	}
	metrics := newMetrics()
	c.api.Observe = metrics.observer()
	h.module, err = personalhost.New(ctx, personalhost.Config{
		Data:        c.dataDir,
		Catalogue:   catalogue,
		DatabaseURL: c.databaseURL,
		URL:         accountURL(c.flags.URL, h.siteURL, c.relay == nil),
		Settings:    settingsSource(c.flags.Settings),
		SecretKeys:  c.secretKeys(),
		Host:        &callbacks{h.callbacks},
		Admission:   c.admission,
		Drain:       c.flags.Drain,
		API:         c.api,
		Manager: manager.Options{
			MemoryLimit: int64(c.flags.PluginMemory),
			MinAge:      c.flags.PluginMinAge,
			Rehearse:    manager.RehearsePolicy(c.flags.Rehearse),
			Bake:        cmp.Or(c.flags.Bake, -1), // 0 means none
			OnEvent:     announceDebugged(stdout, c.flags.DebugPlugin),
			Debug:       c.flags.DebugPlugin,
			Profiles:    c.flags.Pprof != "",
		},
		Log: log,
	})
	if err != nil {
		return nil, err
	}
	h.closers = append(h.closers, func() error {
		if h.served { // and closed, whose error is known
			return nil
		}
		return h.module.Close()
	})
	if err := h.listenForProfiles(ctx); err != nil {
		return nil, err
	}
	handler, err := h.newHandler(metrics)
	if err != nil {
		return nil, err
	}
	h.server = &http.Server{Handler: handler}
	if c.flags.DebugPlugin {
		log.Warn("--debug-plugin is for development: the plugin gets no health checks, and calls have no time limits")
	}
	return h, nil
}

// callbacks are the ready parts, and a [personal.Eraser].
type callbacks struct{ *personalhost.Host }

// EraseUser shows where a CMS erases what it keeps under a user's id: orders, comments,
// pictures. The sample keeps nothing under it, only the log, which then says that the
// user was erased. Captured mails name addresses, and are deleted on the page Mailbox.
func (c *callbacks) EraseUser(ctx context.Context, userID int64) error {
	c.Log.InfoContext(ctx, "user erased", "user_id", userID)
	return nil
}

// openFolder locks the data folder and opens what the host itself needs of it.
func (h *host) openFolder() (err error) {
	if h.folder, err = openDataFolder(h.config.dataDir, h.log); err != nil {
		return &flagError{"data", err}
	}
	h.closers = append(h.closers, h.folder.close)
	if h.token, err = h.folder.adminToken(); err != nil {
		return err
	}
	h.callbacks = &personalhost.Host{Log: h.log}
	if h.callbacks.Fields, err = fieldstore.Open(h.folder.path("user-fields.json"), sampleFields); err != nil {
		return err
	}
	if h.config.relay != nil {
		h.callbacks.Mail = h.config.relay
		if h.config.flags.URL == "" && h.config.flags.Settings == "" {
			h.log.Warn("mails contain a code but no link: name the site's public URL with --url")
		}
		return nil
	}
	if h.callbacks.Mail, err = mailer.NewCapture(h.folder.path("mail"), h.config.mailFrom); err != nil {
		return err
	}
	return nil
}

// newHandler connects the parts of the host to its routes.
func (h *host) newHandler(metrics *hostMetrics) (http.Handler, error) {
	c, m := h.config, h.module
	access := personaladmin.NewAccessLog(h.log)
	client := m.Client() // for administrators: the admission does not judge them
	o := handlerOptions{
		api:    m.API(),
		module: m,
		plugin: m.Manager(),
		adminAPI: &adminAPI{
			token: sha256.Sum256([]byte(h.token)), fields: h.callbacks.Fields, users: client, plugin: m.Admin(), link: h.adminLink, record: access, log: h.log,
		},
		guard: admin.NewGuard(h.sessions, m.API(), access, c.flags.AdminHost...),
		adminPages: func(entry *admin.Entry) (http.Handler, error) {
			return personaladmin.New(m, personaladmin.Config{
				Guard: entry.Admit, Refuse: http.HandlerFunc(entry.Refuse), Versions: true, Texts: site.Texts(m.API()), Nav: entry.Nav, Access: access, Log: h.log,
			})
		},
		metrics: metrics,
		apiURL:  h.siteURL + c.api.BasePath,
		siteURL: h.siteURL,
		log:     h.log,
	}
	if len(c.providers) > 0 {
		o.addProviders = func(account *personalpages.Pages) error {
			if err := personaloidc.New(m, account, personaloidc.Config{Providers: c.providers}); err != nil {
				return &flagError{"oidc", err}
			}
			return nil
		}
	}
	return newHandler(o)
}

// listen opens the listener and writes its address into the data folder.
func (h *host) listen(ctx context.Context) error {
	listener, err := personalhost.Listen(ctx, h.config.flags.Addr)
	if err == nil { // systemd may have passed another one
		if _, ok := listener.Addr().(*net.TCPAddr); !ok {
			err = fmt.Errorf("systemd has passed the socket %s: name an address and a port in ListenStream=", listener.Addr())
		} else {
			err = h.config.flags.checkAddr(listener.Addr().String())
		}
		if err != nil {
			err = errors.Join(err, listener.Close())
		}
	}
	if err != nil {
		return &flagError{"addr", err}
	}
	h.listener, h.url = listener, listenURL(listener.Addr())
	h.siteURL = h.url
	if c := h.config; c.flags.URL == "" && c.relay == nil { // it is tried out on this machine
		h.siteURL = nameLoopback(h.url)
	}
	h.closers = append(h.closers, func() error {
		if err := listener.Close(); !errors.Is(err, net.ErrClosed) { // the server may have closed it
			return err
		}
		return nil
	})
	return h.folder.announce(h.url)
}

// listenURL returns the URL under which this machine reaches a listener.
func listenURL(addr net.Addr) string {
	host, port, err := net.SplitHostPort(addr.String())
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port)
}

// nameLoopback returns a URL with localhost in place of a loopback address: passkeys need a name.
func nameLoopback(address string) string {
	u, err := url.Parse(address)
	if err != nil || !net.ParseIP(u.Hostname()).IsLoopback() {
		return address
	}
	u.Host = net.JoinHostPort("localhost", u.Port())
	return u.String()
}

// accountURL returns the URL of the account pages, for links in mails; "" for no links. Without
// --url, mails that are kept on this machine link to the pages at the configured listener. The
// host name of a request must not be used for that: a caller of the recovery would choose
// where the token goes. Mails that are sent get no link without --url, because the site's
// public address is not known: a listener on loopback is usually behind a proxy.
func accountURL(site, listener string, captured bool) string {
	if site == "" && captured {
		site = listener
	}
	if site == "" {
		return ""
	}
	return strings.TrimRight(site, "/") + "/account"
}

// settingsSource returns the function that gives the plugin its settings at every start: the
// current content of the file, if there is one.
func settingsSource(file string) func() ([]byte, error) {
	if file == "" {
		return nil
	}
	return func() ([]byte, error) {
		data, err := durable.ReadTrusted(file)
		if err != nil {
			return nil, fmt.Errorf("reading the plugin's settings: %w", err)
		}
		return data, nil
	}
}

// adminLink returns a single-use link to the admin pages.
func (h *host) adminLink() string { return h.siteURL + "/admin/enter#code=" + h.sessions.NewCode() }

// printAddresses prints where everything is. The link to the admin pages is for a terminal
// only: other output ends in a journal or a container's log, whose readers are not all
// administrators.
func (h *host) printAddresses(w io.Writer, terminal bool) {
	command := fmt.Sprintf("%s admin-link --data %s", os.Args[0], h.config.dataDir)
	link := "run " + command + " for a link"
	if terminal {
		link = h.adminLink() + "\n            single use, valid for ten minutes; to get another: " + command
	}
	fmt.Fprintf(w, `
The site    %[1]s/
Admin       %[4]s
The API     %[2]s/api/v1/personal/, described at %[1]s/reference
Admin API   %[1]s/admin/api/plugin, /admin/api/user-fields; bearer token in %[3]s/admin-token
Health      %[1]s/readyz, /healthz, /metrics

Try it:
  curl %[2]s/api/v1/personal/register/ -d login=anna -d email=anna@example.com -d password='correct horse' -d confirm_password='correct horse'

`, h.siteURL, h.siteURL+h.config.api.BasePath, h.config.dataDir, link)
}

// run serves until ctx ends, then stops in an orderly way and returns nil. It calls
// ready once the plugin serves. An error ends it earlier: if the plugin cannot be
// started and waiting would not help. It waits for a database that is unavailable.
func (h *host) run(ctx context.Context, ready func()) (err error) {
	defer func() { err = errors.Join(err, h.close()) }()
	if err := h.module.Manager().Start(); err != nil {
		return err
	}
	h.served = true
	parts, ctx := errgroup.WithContext(ctx)
	parts.Go(func() error { return h.module.ServeOn(ctx, h.listener, h.server) })
	parts.Go(func() error {
		err := h.module.Manager().WaitReady(ctx)
		switch {
		case err == nil:
			ready()
			if h.config.flags.Plugin == "" {
				warnOfNewer(ctx, h.module.Catalogue(), besideProgram(), h.log)
			}
			idle.Release()
		case ctx.Err() == nil:
			return fmt.Errorf("the plugin cannot be started: %w", err)
		}
		return nil
	})
	if h.profiles != nil {
		parts.Go(func() error { return h.profiles.serve(ctx) })
	}
	return parts.Wait()
}

// close releases what was opened, in reverse order.
func (h *host) close() error {
	var errs []error
	for _, c := range slices.Backward(h.closers) {
		errs = append(errs, c())
	}
	return errors.Join(errs...)
}
