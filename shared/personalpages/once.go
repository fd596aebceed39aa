package personalpages

import (
	"bytes"
	"container/list"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"io"
	"maps"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/cms-personal/personal/shared/internal/urlencoded"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalweb"
	"github.com/cms-personal/personal/shared/personalweb/ui"
)

const (
	onceField    = "once" // of a form: random, another one in each view of its page
	maxOnce      = 10_000
	onceLifetime = 10 * time.Second // of a response, after a success
)

// onces keeps the responses of forms that cannot be sent again: a visitor without scripts who clicks
// twice sees what the first click has done. They are in memory only, and without the key of this process
// nothing says of which request they are.
type onces struct {
	site *site
	key  [sha256.Size]byte

	mu      sync.Mutex
	kept    map[[sha256.Size]byte]*list.Element // by the digest of the request
	started map[[sha256.Size]byte]*list.Element // by the digest of the session that the response begins
	oldest  *list.List
}

// onceResponse is a response, or one that is being made.
type onceResponse struct {
	request, session [sha256.Size]byte
	done             chan struct{} // closed when the fields below are set
	credentials      personal.Credentials
	status           int
	header           http.Header
	body             []byte
}

func newOnces(s *site) *onces {
	o := &onces{site: s, kept: map[[sha256.Size]byte]*list.Element{}, started: map[[sha256.Size]byte]*list.Element{}, oldest: list.New()}
	_, _ = rand.Read(o.key[:]) // it never fails
	return o
}

func (o *onces) digest(parts ...[]byte) (d [sha256.Size]byte) {
	mac := hmac.New(sha256.New, o.key[:])
	for _, part := range parts {
		mac.Write(append(strconv.AppendInt(nil, int64(len(part)), 10), ':'))
		mac.Write(part)
	}
	return [sha256.Size]byte(mac.Sum(nil))
}

func (o *onces) digestOf(c personal.Credentials) [sha256.Size]byte {
	return o.digest(strconv.AppendInt(nil, c.UserID, 10), []byte(c.UserHash))
}

// handle serves posts that are the same once, and gives each of them the response to the first.
func (o *onces) handle(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(io.LimitReader(r.Body, ui.MaxForm)) // a longer form is refused anyway
		r.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(body), r.Body), r.Body}
		values := urlencoded.Parse(string(body))
		if err != nil || len(body) == ui.MaxForm || values.Get(onceField) == "" {
			next.ServeHTTP(w, r)
			return
		}
		c, _ := o.site.session.Credentials(r)
		session := o.digestOf(c)
		request := o.digest([]byte(r.URL.Path), []byte(values.Get(onceField)), session[:], body)
		e, first := o.begin(request)
		if !first {
			select {
			case <-e.done:
			case <-r.Context().Done():
				return
			}
			if !o.ended(r.Context(), e) {
				e.send(w)
				return
			}
			o.forget(request)
			next.ServeHTTP(w, r)
			return
		}
		written := &onceWriter{header: maps.Clone(w.Header())}
		defer o.finish(e, r, written) // also after a panic
		// The browser hangs up when the form is sent again.
		next.ServeHTTP(written, r.WithContext(context.WithoutCancel(r.Context())))
		written.send(w)
	})
}

// begin returns the response to a request, and whether the caller makes it.
func (o *onces) begin(request [sha256.Size]byte) (e *onceResponse, first bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if at, ok := o.kept[request]; ok {
		return at.Value.(*onceResponse), false
	}
	for o.oldest.Len() >= maxOnce {
		o.remove(o.oldest.Front())
	}
	e = &onceResponse{request: request, done: make(chan struct{})}
	o.kept[request] = o.oldest.PushBack(e)
	return e, true
}

// finish ends the wait for a response. One that is no success is not kept.
func (o *onces) finish(e *onceResponse, r *http.Request, written *onceWriter) {
	e.status, e.header, e.body = written.status, written.header, written.body.Bytes()
	begins := false
	if e.credentials, begins = o.site.session.Credentials(personalweb.NextRequest(r, written.header)); begins {
		e.session = o.digestOf(e.credentials)
	}
	close(e.done)
	o.mu.Lock()
	defer o.mu.Unlock()
	at := o.kept[e.request]
	switch {
	case at == nil || at.Value != e: // others have taken its place
	case e.status != http.StatusOK && e.status != http.StatusSeeOther:
		o.remove(at)
	default:
		if begins {
			o.started[e.session] = at
		}
		time.AfterFunc(onceLifetime, func() { o.forget(e.request) })
	}
}

// ended reports whether the session that a response begins has ended since.
func (o *onces) ended(ctx context.Context, e *onceResponse) bool {
	if e.credentials.UserID == 0 {
		return e.status == 0 // of a panic
	}
	_, err := o.site.Service.Profile(ctx, e.credentials)
	return personal.CodeOf(err) == personal.CodeUnauthenticated
}

// used forgets the response that began the session of a request.
func (o *onces) used(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := o.site.session.Credentials(r); ok {
			session := o.digestOf(c)
			o.mu.Lock()
			if at, ok := o.started[session]; ok {
				o.remove(at)
			}
			o.mu.Unlock()
		}
		next.ServeHTTP(w, r)
	})
}

func (o *onces) forget(request [sha256.Size]byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if at, ok := o.kept[request]; ok {
		o.remove(at)
	}
}

// remove removes a response. The mutex is held.
func (o *onces) remove(at *list.Element) {
	e := o.oldest.Remove(at).(*onceResponse)
	delete(o.kept, e.request)
	if o.started[e.session] == at {
		delete(o.started, e.session)
	}
}

// send sends the response.
func (e *onceResponse) send(w http.ResponseWriter) {
	clear(w.Header())
	maps.Copy(w.Header(), e.header)
	w.WriteHeader(e.status)
	_, _ = w.Write(e.body) // an error means that the client is gone
}

// onceWriter keeps a response.
type onceWriter struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements [http.ResponseWriter].
func (w *onceWriter) Header() http.Header { return w.header }

// WriteHeader implements [http.ResponseWriter].
func (w *onceWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status, w.header = status, w.header.Clone()
	}
}

// Write implements [http.ResponseWriter].
func (w *onceWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(p)
}

func (w *onceWriter) send(to http.ResponseWriter) {
	w.WriteHeader(http.StatusOK)
	(&onceResponse{status: w.status, header: w.header, body: w.body.Bytes()}).send(to)
}
