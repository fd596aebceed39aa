package site

import (
	"embed"
	"log/slog"
	"net/http"
	"sync/atomic"

	"github.com/cms-personal/personal/host-sample/ui"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhttp"
)

//go:embed templates texts assets
var files embed.FS

// The addresses of pages that others lead to.
const (
	homePath     = "/"
	signInPath   = "/account/sign-in"
	registerPath = "/account/register"
	askPath      = "/account/forgot"
	recoverPath  = "/account/recover" // from a mail: settings of the plugin name it
	confirmPath  = "/account/email"   // likewise
	accountPath  = "/account"
	passwordPath = "/account/password"
	newEmailPath = "/account/new-email"
	sessionsPath = "/account/sessions"
	endPath      = "/account/sessions/end"
	signOutPath  = "/account/sign-out"
	demoPath     = "/demo"
)

// Options are what the pages are made of.
type Options struct {
	Service personal.Service
	API     *personalhttp.Handler // over the same service
	APIURL  string                // where the API is, without a final slash: for developers
	Log     *slog.Logger
}

// site is the visitor's pages.
type site struct {
	service personal.Service
	api     *personalhttp.Handler
	apiURL  string
	pages   *ui.Pages
	cookies cookies
	told    atomic.Pointer[[]personal.Field] // what the service said last, see formFields
	log     *slog.Logger
}

// New returns a handler of every page that visitors see, of their assets, and
// of all other addresses, which there is no page for. Each request must carry a
// [personal.Call], as by [personalhttp.Handler.WithCall].
func New(o Options) (http.Handler, error) {
	pages, err := ui.New(ui.Options{
		Templates: ui.Folder(files, "templates"), Texts: ui.Folder(files, "texts"), Assets: ui.Folder(files, "assets"),
		AssetPath: "/assets/", Log: o.Log,
	})
	if err != nil {
		return nil, err
	}
	s := &site{
		service: o.Service, api: o.API, apiURL: o.APIURL, pages: pages,
		log: o.Log,
	}
	return pages.Handler(s.routes()), nil
}

func (s *site) routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.home)
	mux.HandleFunc("POST /language", ui.SwitchLanguage)
	mux.HandleFunc("POST "+signOutPath, s.signOut)
	mux.Handle("GET "+sessionsPath, s.signedIn(s.sessions))
	mux.Handle("POST "+endPath, s.signedIn(s.endSession))
	mux.Handle("GET "+demoPath, s.signedIn(s.demo))
	for path, f := range map[string]form{
		signInPath:   {build: s.signInForm, submit: s.signIn},
		registerPath: {build: s.registerForm, submit: s.register},
		askPath:      {build: s.askForm, submit: s.ask},
		recoverPath:  {build: s.recoverForm, submit: s.recover},
		confirmPath:  {build: s.confirmForm, submit: s.confirm},
	} {
		mux.HandleFunc("GET "+path, s.show(f))
		mux.HandleFunc("POST "+path, s.submit(f))
	}
	for path, f := range map[string]form{
		accountPath:  {build: s.profileForm, submit: s.saveProfile},
		passwordPath: {build: s.passwordForm, submit: s.changePassword},
		newEmailPath: {build: s.newEmailForm, submit: s.changeEmail},
	} {
		mux.Handle("GET "+path, s.signedIn(s.show(f)))
		mux.Handle("POST "+path, s.signedIn(s.submit(f), personalhttp.WithErrorHandler(s.keepTyped(f))))
	}
	return mux
}
