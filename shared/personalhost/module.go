package personalhost

import (
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhost/fieldstore"
	"github.com/cms-personal/personal/shared/personalhost/mailer"
	"github.com/cms-personal/personal/shared/personalhttp"
	"github.com/cms-personal/personal/shared/plugins/adminapi"
	"github.com/cms-personal/personal/shared/plugins/catalogue"
	"github.com/cms-personal/personal/shared/plugins/manager"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

const (
	// stopTime is how long the plugin may take to stop before it is killed. The
	// manager's own default limits are shorter.
	stopTime = 20 * time.Second
)

// Module is the personal-account module of a CMS. It is safe for concurrent use.
type Module struct {
	api       *personalhttp.Handler
	client    *rpc.Client
	service   personal.Service
	users     personal.Administration
	manager   *manager.Manager
	catalogue *catalogue.Catalogue
	uploads   *adminapi.Uploads // nil without keys
	events    *adminapi.EventLog
	admin     http.Handler
	host      personal.Host
	keys      func() ([][]byte, error) // Config.SecretKeys
	drain     time.Duration
	limits    limits
	clients   clients
	log       *slog.Logger
	stopping  context.Context // ends when the module stops
	stop      context.CancelFunc
	close     func() error
}

// Front serves the API and passes all other requests to next; nil responds to them with
// 404. Put it in front of the CMS's router, see [personalhttp.Handler.Front].
func (m *Module) Front(next http.Handler) http.Handler { return m.api.Front(next) }

// RequireUser passes only requests of signed-in users to next, which gets the user from
// [personalhttp.UserFrom]. See [personalhttp.Handler.RequireUser].
func (m *Module) RequireUser(next http.Handler, opts ...personalhttp.RequireOption) http.Handler {
	return m.api.RequireUser(next, opts...)
}

// OptionalUser passes requests with and without a signed-in user to next. See
// [personalhttp.Handler.OptionalUser].
func (m *Module) OptionalUser(next http.Handler, opts ...personalhttp.RequireOption) http.Handler {
	return m.api.OptionalUser(next, opts...)
}

// API returns the HTTP handler, for [personalhttp.Handler.ErrorResponse] for example.
func (m *Module) API() *personalhttp.Handler { return m.api }

// Service returns the operations for users, behind [Config.Admission], as the API calls
// them. Pages of the CMS for visitors call them in process.
func (m *Module) Service() personal.Service { return m.service }

// Client returns the operations for users ([personal.Service]) and for administrators
// ([personal.Administration]), which Config.Admission does not judge here. Use no other client:
// this one notices its own changes at once.
func (m *Module) Client() *rpc.Client { return m.client }

// Administration returns the operations for administrators. [Config.Admission] judges SignIn, unless
// [personal.Call].Administrator is set.
func (m *Module) Administration() personal.Administration { return m.users }

// Admin returns the JSON API for plugin versions, see [adminapi.New]. It does not
// authenticate: mount it behind an access control of the CMS. A request that waits for a
// swap ends when the module stops.
func (m *Module) Admin() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(m.stopping, cancel)()
		m.admin.ServeHTTP(w, r.WithContext(ctx))
	})
}

// Manager returns the plugin manager, for its status for example. Stop it with Close.
func (m *Module) Manager() *manager.Manager { return m.manager }

// Catalogue returns the installed plugin versions.
func (m *Module) Catalogue() *catalogue.Catalogue { return m.catalogue }

// Uploads installs bundles that administrators send. It is nil, which refuses them, unless
// the catalogue verifies signatures.
func (m *Module) Uploads() *adminapi.Uploads { return m.uploads }

// EventLog returns the log of plugin events.
func (m *Module) EventLog() *adminapi.EventLog { return m.events }

// Fields returns the store of the user fields, nil if Config.Host keeps them elsewhere.
func (m *Module) Fields() *fieldstore.Store {
	if own, ok := ownHost(m.host); ok {
		return own.Fields
	}
	return nil
}

// CapturedMails returns the folder of mails that are kept instead of sent, see
// [mailer.Capture]; empty if mails are sent.
func (m *Module) CapturedMails() string {
	if own, ok := ownHost(m.host); ok {
		if capture, ok := own.Mail.(*mailer.Capture); ok {
			return capture.Folder()
		}
	}
	return ""
}

// Keys returns keys for a purpose of the site, such as to seal cookies: the first encrypts, all decrypt. Each has 32
// bytes and is derived from one of Config.SecretKeys, in their order (HKDF, RFC 5869), so that all nodes have the
// same and none reveals another. There are none if SecretKeys has none.
func (m *Module) Keys(purpose string) ([][]byte, error) {
	secrets, err := m.keys()
	if err != nil {
		return nil, fmt.Errorf("reading the secret keys: %w", err)
	}
	var keys [][]byte
	for _, secret := range secrets {
		key, err := hkdf.Key(sha256.New, secret, nil, "personal "+purpose, 32)
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// Close ends the calls under way, stops the plugin and releases the data folder. Each
// step has its own limit; Close returns within 20 seconds, when no process of the
// plugin is left. Later requests get 503. Close may be called again, and returns the
// same error.
func (m *Module) Close() error { return m.close() }
