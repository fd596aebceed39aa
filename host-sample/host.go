package main

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/cms-personal/personal/host-sample/admin"
	adminevents "github.com/cms-personal/personal/host-sample/admin/events"
	adminfields "github.com/cms-personal/personal/host-sample/admin/fields"
	adminmail "github.com/cms-personal/personal/host-sample/admin/mail"
	adminplugin "github.com/cms-personal/personal/host-sample/admin/plugin"
	adminusers "github.com/cms-personal/personal/host-sample/admin/users"
	"github.com/cms-personal/personal/host-sample/fieldstore"
	"github.com/cms-personal/personal/host-sample/mailbox"
	"github.com/cms-personal/personal/host-sample/mailer"
	"github.com/cms-personal/personal/host-sample/traffic"
	"github.com/cms-personal/personal/shared/pluginadmin"
	"github.com/cms-personal/personal/shared/plugincatalogue"
	"github.com/cms-personal/personal/shared/pluginmanager"
	"github.com/cms-personal/personal/shared/pluginrpc"
)

// host is a CMS that listens.
type host struct {
	url      string // of the listener
	drain    time.Duration
	log      *slog.Logger
	manager  *pluginmanager.Manager
	sessions *admin.Sessions
	listener net.Listener
	server   *http.Server
	closers  []func() error // of what was opened, in order
}

// openHost takes possession of the data folder and listens. It starts nothing.
func openHost(ctx context.Context, c config, log *slog.Logger) (_ *host, err error) {
	h := &host{drain: c.drain, log: log, sessions: admin.NewSessions()}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.close())
		}
	}()
	o, err := h.open(ctx, c)
	if err != nil {
		return nil, err
	}
	if h.manager, err = h.newManager(c, o); err != nil {
		return nil, err
	}
	site, err := h.newSite(ctx, c, o)
	if err != nil {
		return nil, err
	}
	h.server = newServer(site, log)
	return h, nil
}

// opened is what a host works with, beside the plugin.
type opened struct {
	folder    *dataFolder
	token     string // the administrators'
	callbacks *callbacks
	catalogue *plugincatalogue.Catalogue
	journal   *pluginadmin.EventLog // of swaps, crashes and restarts
	mails     *mailbox.Box          // nil if mails are sent
}

// open opens everything, and listens.
func (h *host) open(ctx context.Context, c config) (o opened, err error) {
	if o.folder, err = openDataFolder(c.dataDir, h.log); err != nil {
		return o, &settingError{key: "data", err: err}
	}
	h.closers = append(h.closers, o.folder.close)
	if o.token, err = o.folder.adminToken(); err != nil {
		return o, err
	}
	if o.callbacks, err = h.openCallbacks(c, o.folder); err != nil {
		return o, err
	}
	if o.catalogue, err = openCatalogue(c.pluginsDir, c.pluginTrust...); err != nil {
		return o, &settingError{key: "plugins", err: err}
	}
	if err := choosePlugin(ctx, o.catalogue, c.plugin, h.log); err != nil {
		return o, err
	}
	if err := h.listen(ctx, c.addr, o.folder); err != nil {
		return o, err
	}
	if o.journal, err = h.openJournal(o.folder); err != nil {
		return o, err
	}
	o.mails, err = h.openMailbox(c, o.folder)
	return o, err
}

// newSite makes everything that is answered. What waits ends with ctx, so that it
// holds up no stop.
func (h *host) newSite(ctx context.Context, c config, o opened) (http.Handler, error) {
	bundles := uploads(o.catalogue, h.log)
	plugin := pluginadmin.New(h.manager, o.catalogue, pluginadmin.Options{Uploads: bundles, EventLog: o.journal, Log: h.log})
	recorder := traffic.NewRecorder()
	access := admin.NewAccessLog(h.log)
	users := pluginrpc.NewAdministration(h.manager, o.callbacks)
	shim := c.shim
	shim.Log = h.log
	service := pluginrpc.NewService(h.manager, o.callbacks)
	return newSite(siteParts{
		service: service,
		shim:    shim,
		admin:   newAdminAPI(o.token, o.callbacks.fields, until(ctx, plugin), h.adminLink, access, h.log),
		pages: admin.Options{
			Guard: admin.NewGuard(h.sessions, access, c.adminHosts...),
			Log:   h.log,
			Pages: []admin.Pages{
				&adminplugin.Pages{
					Manager: h.manager, Catalogue: o.catalogue, EventLog: o.journal, Uploads: bundles, Traffic: recorder, Bake: c.bake,
				},
				&adminusers.Pages{Administration: users, Recovery: service, Fields: o.callbacks.fields},
				&adminfields.Pages{Store: o.callbacks.fields},
				&adminmail.Pages{Box: o.mails},
				&adminevents.Pages{Administration: users, EventLog: o.journal},
			},
		},
		traffic: recorder,
		ready:   h.manager.Ready,
		status:  h.manager.Status,
		url:     h.url + c.shim.BasePath,
		https:   c.https,
	})
}

// openCallbacks opens what the plugin may ask for.
func (h *host) openCallbacks(c config, folder *dataFolder) (*callbacks, error) {
	fields, err := fieldstore.Open(folder.path("user-fields.json"))
	if err != nil {
		return nil, err
	}
	sender, err := newSender(c, folder)
	if err != nil {
		return nil, err
	}
	return &callbacks{fields: fields, mail: sender, log: h.log}, nil
}

// openJournal opens the history of swaps, crashes and restarts.
func (h *host) openJournal(folder *dataFolder) (*pluginadmin.EventLog, error) {
	journal, err := pluginadmin.OpenEventLog(folder.path("plugin-events.ndjson"), h.log)
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
func (h *host) newManager(c config, o opened) (*pluginmanager.Manager, error) {
	if c.relay != nil && c.settings == "" {
		h.log.Warn("mails bring a code and no link: name your pages in --settings, keys recovery.url and email.url")
	}
	return pluginmanager.New(pluginmanager.Config{
		Catalogue:   o.catalogue,
		Host:        o.callbacks,
		DatabaseURL: c.databaseURL,
		Settings:    settingsSource(c.settings, h.url, c.relay == nil),
		RunDir:      o.folder.path("run"),
		Log:         h.log,

		Bake:         cmp.Or(c.bake, -1), // 0 is none
		DrainTimeout: c.drain,
		OnEvent:      o.journal.Record,
	})
}
