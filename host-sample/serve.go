package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/cms-personal/personal/host-sample/adminentry"
	"github.com/cms-personal/personal/host-sample/adminpages"
	"github.com/cms-personal/personal/host-sample/eventlog"
	"github.com/cms-personal/personal/host-sample/fieldstore"
	"github.com/cms-personal/personal/host-sample/mailbox"
	"github.com/cms-personal/personal/host-sample/mailer"
	"github.com/cms-personal/personal/host-sample/traffic"
	"github.com/cms-personal/personal/shared/pluginadmin"
	"github.com/cms-personal/personal/shared/plugincatalogue"
	"github.com/cms-personal/personal/shared/pluginmanager"
	"github.com/cms-personal/personal/shared/pluginrpc"
)

// pluginStopTime is how long the plugin may take to end before it is killed. By
// then no request is under way, and the manager's other limits are shorter.
const pluginStopTime = 20 * time.Second

// serve runs the CMS until the context ends.
func serve(ctx context.Context, c config, out output) error {
	log := slog.New(slog.NewTextHandler(out.stderr, &slog.HandlerOptions{Level: c.logLevel}))
	h, err := openHost(ctx, c, log)
	if err != nil {
		return err
	}
	fmt.Fprintf(out.stdout, "listening on %s\n", h.url)
	return h.run(ctx, func() { h.introduce(out.stdout, h.url+c.shim.BasePath, c.dataDir) })
}

// adminLink returns a link to the admin pages that is good once.
func (h *host) adminLink() string { return h.url + "/admin/enter?code=" + h.entry.NewCode() }

// introduce tells whoever started the host where everything is.
func (h *host) introduce(w io.Writer, base, dataDir string) {
	fmt.Fprintf(w, `
The site    %[1]s/
Admin       %[4]s
            good once, for ten minutes; another: host-sample admin-link --data %[3]s
The API     %[2]s/api/v1/personal/
Admin API   %[1]s/admin/api/plugin, /admin/api/user-fields; bearer token in %[3]s/admin-token
Health      %[1]s/readyz, /healthz, /metrics

Try it:
  curl %[2]s/api/v1/personal/register/ -d login=anna -d email=anna@example.com -d password='correct horse' -d confirm_password='correct horse'

`, h.url, base, dataDir, h.adminLink())
}

// host is a CMS that listens.
type host struct {
	url      string // of the listener
	drain    time.Duration
	log      *slog.Logger
	manager  *pluginmanager.Manager
	entry    *adminentry.Entry
	listener net.Listener
	server   *http.Server
	closers  []func() error // of what was opened, in order
}

// openHost takes possession of the data folder and listens. It starts nothing.
func openHost(ctx context.Context, c config, log *slog.Logger) (_ *host, err error) {
	h := &host{drain: c.drain, log: log}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.close())
		}
	}()

	folder, err := openDataFolder(c.dataDir, log)
	if err != nil {
		return nil, &settingError{key: "data", err: err}
	}
	h.closers = append(h.closers, folder.close)
	token, err := folder.adminToken()
	if err != nil {
		return nil, err
	}
	callbacks, err := h.openCallbacks(c, folder)
	if err != nil {
		return nil, err
	}
	catalogue, err := openCatalogue(c.pluginsDir, c.pluginTrust...)
	if err != nil {
		return nil, &settingError{key: "plugins", err: err}
	}
	if err := choosePlugin(ctx, catalogue, c.plugin, log); err != nil {
		return nil, err
	}
	if err := h.listen(ctx, c.addr, folder); err != nil {
		return nil, err
	}
	journal, err := h.openJournal(folder)
	if err != nil {
		return nil, err
	}
	mails, err := h.openMailbox(c, folder)
	if err != nil {
		return nil, err
	}
	h.entry = adminentry.New()
	h.manager, err = newManager(c, folder, callbacks, catalogue, journal, h.url, log)
	if err != nil {
		return nil, err
	}
	bundles := uploads(catalogue, log)
	plugin := pluginadmin.New(h.manager, catalogue, pluginadmin.Options{Uploads: bundles, History: journal, Log: log})
	recorder := traffic.NewRecorder()
	shim := c.shim
	shim.Log = log
	handler, err := newSite(siteParts{
		service: notingFailures{pluginrpc.NewService(h.manager, callbacks), callbacks.events, log},
		shim:    shim,
		admin:   newAdminAPI(token, callbacks.fields, plugin, h.adminLink, log),
		pages: adminpages.Options{
			Guard: adminentry.NewGuard(h.entry, c.adminHosts...),
			Plugin: adminpages.Plugin{
				Manager: h.manager, Catalogue: catalogue, History: journal, Uploads: bundles, Traffic: recorder, Bake: c.bake,
			},
			Users:  pluginrpc.NewAdministration(h.manager, callbacks),
			Fields: callbacks.fields, Mails: mails, Events: callbacks.events, Log: log,
		},
		traffic: recorder,
		ready:   h.manager.Ready,
		status:  h.manager.Status,
		url:     h.url + c.shim.BasePath,
		secure:  c.secure,
	})
	if err != nil {
		return nil, err
	}
	h.server = newServer(handler, log)
	return h, nil
}

// openCallbacks opens what the plugin may ask for.
func (h *host) openCallbacks(c config, folder *dataFolder) (*callbacks, error) {
	fields, err := fieldstore.Open(folder.path("user-fields.json"))
	if err != nil {
		return nil, err
	}
	events, err := eventlog.Open(folder.path("events.ndjson"))
	if err != nil {
		return nil, err
	}
	h.closers = append(h.closers, events.Close)
	sender, err := newSender(c, folder)
	if err != nil {
		return nil, err
	}
	return &callbacks{fields: fields, mail: sender, events: events, log: h.log}, nil
}

// openJournal opens the history of swaps, crashes and restarts.
func (h *host) openJournal(folder *dataFolder) (*pluginadmin.Journal, error) {
	journal, err := pluginadmin.OpenJournal(folder.path("plugin-events.ndjson"), h.log)
	if err != nil {
		return nil, err
	}
	h.closers = append(h.closers, journal.Close)
	return journal, nil
}

func newSender(c config, folder *dataFolder) (mailer.Sender, error) {
	if c.relay != nil {
		return c.relay, nil
	}
	return mailer.NewCapture(folder.path("mail"), c.mailFrom)
}

// openMailbox opens the mails that were kept; nil if they are sent.
func (h *host) openMailbox(c config, folder *dataFolder) (*mailbox.Box, error) {
	if c.relay != nil {
		return nil, nil
	}
	box, err := mailbox.Open(folder.path("mail"))
	if err != nil {
		return nil, err
	}
	h.closers = append(h.closers, box.Close)
	return box, nil
}

// newManager makes the manager of the plugin.
func newManager(c config, folder *dataFolder, callbacks *callbacks, catalogue *plugincatalogue.Catalogue, journal *pluginadmin.Journal, url string, log *slog.Logger) (*pluginmanager.Manager, error) {
	if c.relay != nil && c.settings == "" {
		log.Warn("mails bring a code and no link: name your pages in --settings, keys recovery.url and email.url")
	}
	return pluginmanager.New(pluginmanager.Config{
		Catalogue:   catalogue,
		Host:        callbacks,
		DatabaseURL: c.databaseURL,
		Settings:    settingsSource(c.settings, url, c.relay == nil),
		RunDir:      folder.path("run"),
		Log:         log,

		Bake:         cmp.Or(c.bake, -1), // 0 is none
		DrainTimeout: c.drain,
		Journal:      journal.Record,
	})
}

// run serves until the context ends, then stops in good order and returns nil. It
// calls serving when the plugin has come up.
// It also ends, with the reason, when the plugin cannot be started and waiting
// would not help; a database that is away is waited for.
func (h *host) run(ctx context.Context, serving func()) (err error) {
	defer func() { err = errors.Join(err, h.close()) }()
	if err := h.manager.Start(); err != nil {
		return err
	}
	served, ready := make(chan error, 1), make(chan error, 1)
	go func() { served <- h.server.Serve(h.listener) }()
	go func() { ready <- h.manager.WaitReady(ctx) }()
	defer h.stop(ctx)
	for {
		select {
		case <-ctx.Done():
			h.log.Info("stopping", "drain", h.drain)
			return nil
		case err := <-served:
			return fmt.Errorf("serving: %w", err)
		case err := <-ready:
			switch {
			case err == nil:
				serving()
			case ctx.Err() == nil:
				return fmt.Errorf("the plugin cannot be started: %w", err)
			}
		}
	}
}

// stop lets the requests under way come to their end, and then the plugin.
func (h *host) stop(ctx context.Context) {
	ctx = context.WithoutCancel(ctx) // it has ended, or else there is an error to end for
	drain, cancel := context.WithTimeout(ctx, h.drain)
	defer cancel()
	if err := h.server.Shutdown(drain); err != nil {
		h.log.Warn("requests are still under way, they are cut off", "error", err)
		_ = h.server.Close() // nothing is left to be said to those clients
	}
	last, cancel := context.WithTimeout(ctx, pluginStopTime)
	defer cancel()
	if err := h.manager.Stop(last); err != nil {
		h.log.Error("stopping the plugin", "error", err)
	}
}

// until ends the requests of a handler with ctx too: one that waits for a swap
// holds up no stop.
func until(ctx context.Context, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		own, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		next.ServeHTTP(w, r.WithContext(own))
	})
}

// close releases what was opened, the latest first.
func (h *host) close() error {
	var errs []error
	for _, c := range slices.Backward(h.closers) {
		errs = append(errs, c())
	}
	return errors.Join(errs...)
}
