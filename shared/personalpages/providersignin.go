package personalpages

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalweb"
	"github.com/cms-personal/personal/shared/personalweb/ui"
)

// providerPages are the pages by which visitors sign in at a provider and register by it. What a browser has started
// is in one cookie of it, sealed: visitors take no room here, and any node goes on with it.
type providerPages struct{ *site }

func (p providerPages) route(mux *http.ServeMux) {
	mux.Handle("GET "+providersPath, p.public(p.start))
	mux.HandleFunc("GET "+callbackPath, p.callback)
	mux.HandleFunc("POST "+endedPath, p.ended)
	p.publicForm(mux, choosePath, form{
		build: p.chooseForm, submit: p.register, instead: p.nobodyWaits, judged: personal.OpRegisterIdentity, once: true,
	})
}

// attemptPurpose is what a sign-in at a provider is for.
type attemptPurpose string

// The purposes.
const (
	attemptSignIn attemptPurpose = "sign_in"
	attemptLink   attemptPurpose = "link"
	attemptProve  attemptPurpose = "prove"
)

// attempt is a sign-in at a provider that a browser has started. Its names are short, because it is in a cookie.
type attempt struct {
	Provider string         `json:"p"`
	Purpose  attemptPurpose `json:"w"`
	Session  int64          `json:"u,omitempty"` // the user of the session in which it was started; 0 to sign in
	Next     string         `json:"x,omitempty"` // the page to return to

	Started  int64  `json:"t"`           // in seconds since 1970
	State    string `json:"s,omitempty"` // "" when the provider has responded
	Nonce    string `json:"n,omitempty"`
	Verifier string `json:"v,omitempty"`
	Redirect string `json:"r,omitempty"`

	User *ProviderUser `json:"who,omitempty"` // who waits, since the provider has responded
}

func (a attempt) started() time.Time { return time.Unix(a.Started, 0) }

const (
	attemptsCookie  = "sign_in_attempts"
	attemptLifetime = 10 * time.Minute // until the provider has responded, and again until the user has chosen
	maxAttempts     = 5                // of a browser; the oldest one makes room
	maxAttemptsSize = 2900             // bytes of the cookie: with the others it fits into 8 KiB, which proxies accept
	maxAttemptNext  = 200              // bytes of the page to return to
)

// attempts returns those of a browser, the oldest one first.
func (s *site) attempts(r *http.Request) (all []attempt) {
	if !s.sealer.open(r, attemptsCookie, &all) {
		return nil
	}
	return slices.DeleteFunc(all, func(a attempt) bool { return time.Since(a.started()) >= attemptLifetime })
}

// keepAttempts replaces the attempts of a browser.
func (s *site) keepAttempts(w http.ResponseWriter, r *http.Request, all []attempt) {
	c := http.Cookie{Name: attemptsCookie, MaxAge: -1}
	for all = all[max(0, len(all)-maxAttempts):]; len(all) > 0; all = all[1:] {
		if c.Value = s.sealer.value(attemptsCookie, all); len(c.Value) <= maxAttemptsSize {
			c.MaxAge = int(attemptLifetime / time.Second)
			break
		}
		c.Value = ""
	}
	personalweb.SetCookie(s.API, w, r, c) // Lax: the provider's page leads back here
}

// take returns the newest attempt of a browser for which is returns true, and the others.
func (s *site) take(r *http.Request, is func(attempt) bool) (a attempt, others []attempt, ok bool) {
	others = s.attempts(r)
	for i := len(others) - 1; i >= 0; i-- {
		if is(others[i]) {
			return others[i], slices.Delete(slices.Clone(others), i, i+1), true
		}
	}
	return attempt{}, others, false
}

func (a attempt) waits() bool { return a.User != nil }

// waitsToLink reports whether a user waits for a choice: with an account of their own, or with the one of this session.
func (a attempt) waitsToLink() bool { return a.waits() && a.Purpose != attemptProve }

// forgetWaiting ends the wait of every user whom a provider has named in this browser.
func (s *site) forgetWaiting(w http.ResponseWriter, r *http.Request) {
	if personalweb.CookieValue(s.API, r, attemptsCookie) != "" {
		s.keepAttempts(w, r, slices.DeleteFunc(s.attempts(r), attempt.waits))
	}
}

// begin starts a sign-in at a provider, and returns the URL of its page.
func (s *site) begin(w http.ResponseWriter, r *http.Request, p Provider, a attempt) (string, error) {
	a.Provider, a.Started = p.Name, time.Now().Unix()
	a.State, a.Nonce, a.Verifier = rand.Text(), rand.Text(), rand.Text()+rand.Text() // 43 characters at least (RFC 7636, section 4.1)
	a.Redirect = s.absolute(p.at(callbackPath))
	if len(a.Next) > maxAttemptNext {
		a.Next = Path
	}
	ctx, cancel := context.WithTimeout(r.Context(), providerTimeout)
	defer cancel()
	to, err := p.Begin(ctx, a.request())
	if err == nil {
		s.keepAttempts(w, r, append(s.attempts(r), a))
	}
	return to, err
}

func (a attempt) request() ProviderRequest {
	return ProviderRequest{State: a.State, Nonce: a.Nonce, Verifier: a.Verifier, Redirect: a.Redirect, Fresh: a.Purpose == attemptProve}
}

// chosen returns the provider that the path of a request names. If it returns false it has sent an error page.
func (s *site) chosen(w http.ResponseWriter, r *http.Request) (Provider, bool) {
	p, ok := s.providerNamed(r.PathValue("provider"))
	if !ok {
		s.problem(w, r, s.API.ErrorResponse(r, personal.NewError(personal.CodeNotFound, nil)), "", nil)
	}
	return p, ok
}

// start leads to the provider. Pages of other sites, and browsers that fetch ahead, start nothing: they would push out what the
// visitor has started, or have them sign in without a click.
func (p providerPages) start(w http.ResponseWriter, r *http.Request) {
	provider, ok := p.chosen(w, r)
	if !ok {
		return
	}
	mode := r.Header.Get("Sec-Fetch-Mode")
	if r.Header.Get("Sec-Fetch-Site") == "cross-site" || mode != "" && mode != "navigate" || r.Header.Get("Sec-Purpose") != "" || r.Method != http.MethodGet {
		ui.Redirect(w, r, withReturn(r, SignInPath))
		return
	}
	to, err := p.begin(w, r, provider, attempt{Purpose: attemptSignIn, Next: nextOf(r)})
	if err != nil {
		p.providerProblem(w, r, provider, err, p.signInLink(r))
		return
	}
	ui.Redirect(w, r, to)
}

func (s *site) signInLink(r *http.Request) ui.Link {
	return ui.Link{Text: s.text(r, "sign_in"), Path: withReturn(r, SignInPath)}
}

// returning is a request that returns to the page of an attempt. It has nothing of the provider's response.
func returning(r *http.Request, next string) *http.Request {
	r = r.WithContext(r.Context())
	r.URL = &url.URL{Path: r.URL.Path, RawQuery: url.Values{"next": {next}}.Encode()}
	return r
}

// callback takes the provider's response. The attempt ends with it: a second response finds none, and a forged
// one ends none.
func (p providerPages) callback(w http.ResponseWriter, r *http.Request) {
	provider, ok := p.chosen(w, r)
	if !ok {
		return
	}
	response := r.URL.Query()
	a, others, ok := p.take(r, func(a attempt) bool {
		return a.Provider == provider.Name && a.State != "" && a.State == response.Get("state")
	})
	r = returning(r, personalweb.LocalPath(a.Next, Path))
	if !ok {
		p.Log.InfoContext(r.Context(), "a provider's response belongs to no sign-in of this browser", "provider", provider.Name, "host", r.Host)
		p.startAgain(w, r)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), providerTimeout)
	defer cancel()
	user, err := provider.Finish(ctx, a.request(), response)
	if err != nil {
		p.keepAttempts(w, r, others)
		help := p.signInLink(r)
		if a.Session != 0 {
			help = ui.Link{Text: p.text(r, "account"), Path: a.Next}
		}
		p.providerProblem(w, r, provider, err, help)
		return
	}
	if a.Purpose == attemptSignIn { // the browser comes from another site, and has not sent these (SameSite=Strict)
		personalweb.SetCookie(p.API, w, r, http.Cookie{Name: personalweb.ProofCookie, MaxAge: -1, SameSite: http.SameSiteStrictMode})
		p.forgetStep(w, r)
	}
	waiting := a
	waiting.State, waiting.Nonce, waiting.Verifier, waiting.Redirect, waiting.User = "", "", "", "", &user
	switch a.Purpose {
	case attemptLink:
		p.keepProviderSession(w, r, providerSession{Provider: provider.Name})
		p.wait(w, r, others, waiting, linkPath)
	case attemptProve:
		linkedPages(p).proveBy(w, r, provider, waiting, others)
	default:
		p.signIn(w, r, provider, waiting, others)
	}
}

// wait keeps who has signed in at the provider, and leads to the page that goes on. Only the latest one counts.
func (s *site) wait(w http.ResponseWriter, r *http.Request, others []attempt, a attempt, path string) {
	a.Started = time.Now().Unix()
	s.keepAttempts(w, r, append(slices.DeleteFunc(others, attempt.waits), a))
	s.goOn(w, r, path)
}

// goOn leads from the provider's response to a page of this site.
func (s *site) goOn(w http.ResponseWriter, r *http.Request, path string) {
	s.leadOn(w, r, s.text(r, "provider_going_on"), ui.Link{Text: s.text(r, "complete_go_on"), Path: path})
}

// signIn opens a session for the user whom the provider has authenticated. If no account has the identity, every
// visitor gets the same choice, whatever e-mail the provider names: no account is looked for by that.
func (p providerPages) signIn(w http.ResponseWriter, r *http.Request, provider Provider, a attempt, others []attempt) {
	step := signInStep{Provider: provider.Name, User: a.User}
	in, err := p.authorize(r, step, "")
	d, atProvider := done{}, providerSession{Provider: provider.Name}
	if err == nil {
		d = p.signedIn(w, r, in)
		atProvider.User, atProvider.Hint = in.Credentials.UserID, a.User.Hint
	}
	p.keepProviderSession(w, r, atProvider)
	switch personal.CodeOf(err) {
	case "":
		if a.Next != linkPath {
			others = slices.DeleteFunc(others, attempt.waits)
		}
		p.keepAttempts(w, r, others)
		p.pages.LeaveNotice(w, r, d.operation)
		p.goOn(w, r, d.next)
	case personal.CodeNotFound:
		p.wait(w, r, others, a, choosePath)
	case personal.CodeCodeRequired:
		p.keepAttempts(w, r, others)
		d, _ = p.askForCode(w, r, step)
		p.goOn(w, r, d.next)
	default:
		p.keepAttempts(w, r, others)
		p.refuseUser(w, r, err, p.signInLink(r))
	}
}

// refuseUser says why the service refuses a user whom the provider has authenticated, and leads to what helps.
func (s *site) refuseUser(w http.ResponseWriter, r *http.Request, err error, help ui.Link) {
	x := s.API.ErrorResponse(r, err)
	setRetryAfter(w, x)
	switch x.Code {
	case personal.CodeEmailUnverified:
		help = ui.Link{Text: s.text(r, "verify"), Path: verifyPath}
	case personal.CodeAccountDisabled:
		help = ui.Link{Text: s.text(r, "undo"), Path: undoPath}
	}
	s.providerNotice(w, r, x.Status, s.withWait(r, x), help)
}

// waiting returns the user who waits for a choice in this browser, their provider, and the browser's other attempts.
func (s *site) waiting(r *http.Request) (a attempt, p Provider, others []attempt, ok bool) {
	if a, others, ok = s.take(r, attempt.waitsToLink); ok {
		p, ok = s.providerNamed(a.Provider)
	}
	return a, p, others, ok
}

// forWhom is the hidden value of a form that says for whom it was shown: another tab may have replaced them since.
const forWhom = "for"

// marked returns the value of forWhom.
func (a attempt) marked(session int64) ui.Hidden {
	return ui.Hidden{Name: forWhom, Value: identityID(a.User.Identity) + strconv.FormatInt(session, 10)}
}

// isFor reports whether a posted form was shown for who waits, and in this session.
func (a attempt) isFor(posted ui.Posted, session int64) bool {
	return posted.Get(forWhom) == a.marked(session).Value
}

// nobodyWaits returns the page to start with if no user waits to sign in in this browser.
func (p providerPages) nobodyWaits(r *http.Request) string {
	if a, _, _, ok := p.waiting(r); !ok || a.Purpose != attemptSignIn {
		return againPath(r, SignInPath)
	}
	return ""
}

// chooseForm offers to link the identity with an account, and to register. The e-mail is the one that the provider
// names; the user may have another one here.
func (p providerPages) chooseForm(r *http.Request) (formPage, error) {
	a, provider, _, ok := p.waiting(r)
	if !ok {
		return formPage{Title: p.text(r, "register"), Lead: p.text(r, "provider_again"),
			Asides: []aside{p.aside(r, "sign_in_question", "sign_in_link", SignInPath)}}, nil
	}
	own, err := p.registrationControls(r, &a.User.Name)
	if err != nil {
		return formPage{}, err
	}
	login, email := p.registrationLogin(r)
	login.Value, email.Value = a.User.Login, a.User.Email
	toLink := SignInPath + "?" + url.Values{"next": {linkPath}}.Encode()
	if _, signedIn := p.viewer(r); signedIn {
		toLink = linkPath
	}
	return formPage{
		Title: p.text(r, "provider_choose", provider.Label),
		Lead:  p.text(r, "provider_choose_lead", provider.Label, a.User.who()),
		Above: &section{
			Title: p.text(r, "provider_have_account"), Text: p.text(r, "provider_have_account_lead", provider.Label),
			Link: ui.Link{Text: p.text(r, "provider_sign_in_and_link"), Path: toLink},
		},
		Form: ui.Form{
			Action: choosePath, Submit: p.text(r, "register_button"), Controls: append([]ui.Control{login, email}, own...),
			Hidden: []ui.Hidden{a.marked(0)},
		},
		Below: &section{
			Title: p.text(r, "provider_not_me"), Text: p.text(r, "provider_not_me_lead", provider.Label),
			Form: ui.Form{Action: dontLinkPath, Submit: p.text(r, "provider_not_me_button"), Quiet: true},
		},
		NotOffered: p.text(r, "provider_not_offered"),
	}, nil
}

// register creates a user with the identity, and signs them in.
func (p providerPages) register(w http.ResponseWriter, r *http.Request, posted ui.Posted) (done, error) {
	a, provider, _, ok := p.waiting(r)
	if !ok || a.Purpose != attemptSignIn {
		return done{next: againPath(r, SignInPath)}, nil
	}
	if !a.isFor(posted, 0) {
		return done{next: choosePath}, nil
	}
	fields, err := p.registrationFields(r, posted)
	if err != nil {
		return done{}, err
	}
	request := personal.RegisterIdentityRequest{
		Identity: a.User.Identity, Login: posted.Get("login"), Email: posted.Get("email"), Name: posted.Get("name"), Fields: fields,
		Method: provider.Name, AuthenticatedAt: a.User.AuthenticatedAt, ProviderSession: a.User.Session,
	}
	request.EmailVerified = a.User.EmailVerified && request.Email == a.User.Email
	in, err := p.admin.RegisterIdentity(r.Context(), request)
	if refused, ok := errors.AsType[*personal.Error](err); ok && refused.FieldErrors["identity"] != "" { // in another tab
		p.forgetWaiting(w, r)
		return done{next: againPath(r, SignInPath)}, nil
	}
	if err != nil {
		return done{}, err
	}
	next := personalweb.LocalPath(a.Next, Path)
	if next == linkPath { // no one waits to be linked now
		next = Path
	}
	return p.registered(w, r, in, request.Login, next), nil
}

// ended ends the sessions of a user who has signed out at the provider, whose server calls it (OpenID Connect
// Back-Channel Logout 1.0, section 2.8).
func (p providerPages) ended(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	provider, ok := p.providerNamed(r.PathValue("provider"))
	posted, err := ui.ReadForm(w, r)
	if !ok || err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), providerTimeout)
	defer cancel()
	err = provider.SignedOut(ctx, posted.Get("logout_token"), func(ctx context.Context, whose personal.EndIdentitySessionsRequest) error {
		_, err := p.admin.EndIdentitySessions(ctx, whose)
		return err
	})
	status, level := http.StatusOK, slog.LevelInfo
	switch {
	case err == nil:
		w.WriteHeader(status)
		return
	case errors.Is(err, ErrProviderDown) || personal.CodeOf(err) == personal.CodeUnavailable:
		status = http.StatusServiceUnavailable
	default:
		status, level = http.StatusBadRequest, slog.LevelDebug // anyone can cause it
	}
	w.WriteHeader(status)
	p.Log.Log(ctx, level, "a sign-out at a provider has ended no session", "request_id", personal.CallFrom(ctx).RequestID,
		"provider", provider.Name, "error", err)
}

// takePostedResponse has the browser bring the response of a provider that only posts. A post from another site brings no
// cookies, and the guard refuses it; so this reads nothing of the request but the response, and says where it belongs.
func (s *site) takePostedResponse(next http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+callbackPath, func(w http.ResponseWriter, r *http.Request) {
		if _, ok := s.providerNamed(r.PathValue("provider")); !ok {
			next.ServeHTTP(w, r)
			return
		}
		query := url.Values{}
		if posted, err := ui.ReadForm(w, r); err == nil {
			for _, name := range []string{"code", "state", "iss"} {
				if value := posted.Get(name); value != "" && len(value) <= 2<<10 {
					query.Set(name, value)
				}
			}
		}
		w.Header().Set("Referrer-Policy", "no-referrer")
		ui.Redirect(w, r, (&url.URL{Path: r.URL.Path, RawQuery: query.Encode()}).String())
	})
	mux.Handle("/", next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			next.ServeHTTP(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
}
