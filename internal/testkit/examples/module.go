// Package examples has what the examples of the libraries need beside their own code: a module
// without a plugin, and a visitor who prints what a site shows.
package examples

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/personalhttp"
)

// Module stands for that of personalhost. It has three accounts, whose password is "correct horse":
// anna (1), boris (2), and carla (3), who has a second factor. There is one user field: role.
type Module struct {
	api            *personalhttp.Handler
	service        personal.Service
	administration *personaltest.Administration

	mu       sync.Mutex
	accounts []personal.Profile // account n has id n+1
}

// Open returns a module.
func Open() *Module { return OpenJudged(nil) }

// OpenJudged returns a module with an admission, which gets transient parameters. nil admits everyone.
func OpenJudged(admission *personal.Admission, transient ...string) *Module {
	m := &Module{accounts: []personal.Profile{
		{Login: "anna", Email: "anna@example.com", EmailVerified: true},
		{Login: "boris", Email: "boris@example.com", EmailVerified: true},
		{Login: "carla", Email: "carla@example.com", EmailVerified: true, TwoFactor: true},
	}}
	schema := personal.Schema{Revision: "1", Fields: []personal.Field{{Name: "role", Type: personal.TypeText, ReadOnly: true}}}
	m.service = admission.Wrap(&personaltest.Service{
		RegisterFunc:  m.register,
		AuthorizeFunc: m.authorize,
		ProfileFunc:   m.profile,
		ProveFunc:     m.prove,
		FieldsFunc:    func(context.Context) ([]personal.Field, error) { return schema.Fields, nil },
		FeaturesFunc:  func(context.Context) (personal.Features, error) { return personal.Features{TwoFactor: true}, nil },
	})
	m.administration = &personaltest.Administration{UpdateUserFunc: m.updateUser}
	api, err := personalhttp.New(m.service, personalhttp.Options{
		Log:        slog.New(slog.DiscardHandler),
		Transient:  transient,
		UserFields: func(context.Context) (personal.Schema, error) { return schema, nil },
	})
	if err != nil {
		panic(err) // the options are always the same
	}
	m.api = api
	return m
}

// These methods are those of personalhost.Module.

// API returns the HTTP handler.
func (m *Module) API() *personalhttp.Handler { return m.api }

// Service returns the operations for users.
func (m *Module) Service() personal.Service { return m.service }

// Administration returns the operations for administrators.
func (m *Module) Administration() personal.Administration { return m.administration }

// Client returns the operations for administrators.
func (m *Module) Client() personal.Administration { return m.administration }

// RequireUser lets signed-in users alone pass, by the headers of the API.
func (m *Module) RequireUser(next http.Handler) http.Handler { return m.api.RequireUser(next) }

// Front serves the API in front of a router.
func (m *Module) Front(next http.Handler) http.Handler { return m.api.Front(next) }

const password = "correct horse"

// hashOf returns the session hash of an account.
func hashOf(id int64) string { return strings.Repeat(string(rune('a'+id)), 43) }

func (m *Module) register(ctx context.Context, r personal.RegisterRequest) (personal.SignedIn, error) {
	m.mu.Lock()
	m.accounts = append(m.accounts, personal.Profile{Login: r.Login, Email: r.Email})
	m.mu.Unlock()
	return m.authorize(ctx, personal.AuthorizeRequest{Login: r.Login, Password: password})
}

func (m *Module) authorize(_ context.Context, r personal.AuthorizeRequest) (personal.SignedIn, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, account := range m.accounts {
		id := int64(i + 1)
		switch {
		case account.Login != r.Login || r.Password != password:
		case account.TwoFactor && r.Code == "":
			return personal.SignedIn{}, personal.NewError(personal.CodeCodeRequired, nil)
		default:
			return personal.SignedIn{Credentials: personal.Credentials{UserID: id, UserHash: hashOf(id)}, Profile: account}, nil
		}
	}
	return personal.SignedIn{}, personal.NewError(personal.CodeInvalidCredentials, nil)
}

func (m *Module) profile(_ context.Context, c personal.Credentials) (personal.Profile, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c.UserID < 1 || c.UserID > int64(len(m.accounts)) || c.UserHash != hashOf(c.UserID) {
		return personal.Profile{}, personal.NewError(personal.CodeUnauthenticated, nil)
	}
	return m.accounts[c.UserID-1], nil
}

func (m *Module) prove(ctx context.Context, r personal.ProveRequest) (personal.Proof, error) {
	account, err := m.profile(ctx, r.Credentials)
	if err != nil {
		return personal.Proof{}, err
	}
	wrong := personal.FieldErrors{}
	if r.Password != password {
		wrong.Add("password", personal.FieldErrorMismatch)
	}
	if account.TwoFactor && r.Code == "" {
		wrong.Add("code", personal.FieldErrorRequired)
	}
	if err := wrong.Err(); err != nil {
		return personal.Proof{}, err
	}
	return personal.Proof{Proof: strings.Repeat("p", 43), Until: time.Now().Add(5 * time.Minute)}, nil
}

// updateUser changes the role.
func (m *Module) updateUser(_ context.Context, r personal.UpdateUserRequest) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.accounts[r.UserID-1].Fields = []personal.ProfileField{{Name: "role", Value: r.Fields["role"].Text}}
	return nil
}
