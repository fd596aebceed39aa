package personalweb

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhttp"
	"github.com/cms-personal/personal/shared/userfields"
)

// Guard returns a middleware that refuses forged requests: those other than GET, HEAD and
// OPTIONS that a browser sends for a page of another origin (see
// [http.CrossOriginProtection]). reject responds to them; its error has the code
// cross_origin, which [personalhttp.Handler.ErrorResponse] makes 403. Forms need no
// token, and GET must change nothing. The site's own origins are those of
// [personalhttp.Options].Origins.
//
// A request over plain HTTP on a site whose URL is https (see [personalhttp.Handler.SecureURL]) is
// led there if it is a GET or HEAD, and rejected otherwise (see [personalhttp.Handler.RefusePlain]).
// A browser is led once: it gets a cookie that it sends over HTTPS only. One
// that sends the cookie uses HTTPS, whatever the proxy says, and is served.
//
// Over HTTPS, cookies with the given names, as [SetCookie] got them, and its own are deleted if the browser
// sends them without the prefix __Host-.
//
// The guard is for the pages: the API, in front of it, has its own.
func Guard(api *personalhttp.Handler, reject personalhttp.ErrorHandler, cookies ...string) func(http.Handler) http.Handler {
	cookies = append(slices.Clone(cookies), ledCookie)
	p := http.NewCrossOriginProtection()
	for _, origin := range api.Options().Origins {
		_ = p.AddTrustedOrigin(origin) // personalhttp.New has accepted it
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			to, err := api.SecureURL(r), p.Check(r)
			if to != "" && CookieValue(api, r, ledCookie) != "" {
				to = ""
			}
			switch {
			case to != "" && (r.Method == http.MethodGet || r.Method == http.MethodHead):
				w.Header().Set("Cache-Control", "no-store")
				SetCookie(api, w, r, http.Cookie{Name: ledCookie, Value: "yes"})
				http.Redirect(w, r, to, http.StatusSeeOther)
				return
			case to != "":
				reject(w, r, api.RefusePlain(to))
				return
			case err != nil:
				api.Options().Log.InfoContext(r.Context(), "refused a post to a page", "request_id", personal.CallFrom(r.Context()).RequestID,
					"code", string(personal.CodeCrossOrigin), "hint", personalhttp.CrossOriginHint)
				reject(w, r, personal.NewError(personal.CodeCrossOrigin, err))
				return
			}
			if api.OverHTTPS(r) {
				for _, name := range cookies {
					deleteSent(w, r, named(http.Cookie{Name: name}, false))
				}
			}
			next.ServeHTTP(w, r)
		})
	}
}

// ledCookie is that of a browser that was led from plain HTTP to HTTPS.
const ledCookie = "https"

// RequireField is an option of [personalhttp.Handler.RequireUser] and the like for pages of
// some users only: it rejects users whose user field does not have one of the values, with 403
// refused. Visitors without a session are rejected as without it, and led to the sign-in for
// example. A value is compared as text: that of an enum is its option, that of a boolean true
// or false.
//
// The field must be read-only and not hidden in the user fields in force in this host
// ([personalhttp.Options].UserFields): any other one is set by users themselves, or in no
// profile. Otherwise everyone is rejected, and the log says why, once for each revision.
//
// It reads the profile that RequireUser has verified the request with. So an administrator's
// change through the same client counts from the next request on, and any other within the
// setting session.verify_cache.
func RequireField(name string, values ...string) personalhttp.RequireOption {
	var checked sync.Map // revisions of the user fields, and why pages must not trust the field in them: an error, or nil
	return personalhttp.Demand(func(ctx context.Context, api *personalhttp.Handler, u personalhttp.User) error {
		schema, err := api.Options().UserFields(ctx)
		if err != nil {
			return personal.NewError(personal.CodeUnavailable, err)
		}
		why, known := checked.Load(schema.Revision)
		if !known {
			why, known = checked.LoadOrStore(schema.Revision, userfields.CheckReadOnly(schema.Fields, name))
			if !known && why != nil {
				api.Options().Log.ErrorContext(ctx, "a page refuses everyone", "error", why)
			}
		}
		if why != nil {
			return personal.NewError(personal.CodeRefused, why.(error))
		}
		for _, f := range u.Profile.Fields {
			if f.Name == name && f.Value != nil && slices.Contains(values, fmt.Sprint(f.Value)) {
				return nil
			}
		}
		return personal.NewError(personal.CodeRefused, fmt.Errorf("the user field %s has none of the values that the page demands", name))
	})
}

// LocalPath returns a path from a request, such as the page to return to after the
// sign-in, if it leads to a page of this site, else the fallback. Browsers read "//host" as
// another site, and "\" as a slash.
func LocalPath(path, fallback string) string {
	u, err := url.Parse(path)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil ||
		!strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || strings.Contains(path, `\`) {
		return fallback
	}
	return path
}
