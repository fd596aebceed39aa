// Package adminapi is an administrator's JSON API over a plugin manager and its
// catalogue, for a CMS to mount behind its own authentication:
//
//	GET  .         what runs, what is installed, the swap under way: [Overview]
//	POST use       {"version": "1.2.3"}: swap to it; responds after the switch. With
//	               "accept_differences": true also if the rehearsal fails, with "now": true
//	               also if the version is younger than the minimum age
//	POST rehearse  {"version": "1.2.3"}: rehearse it without swapping; "now" as above
//	POST rollback  return to the previous version; responds after the switch
//	POST install   a signed bundle; only if [Options.Uploads] allows it
//	GET  events    plugin events, the latest first: [Events]; ?limit=100
//
// A change responds with 200 and the Overview, in which the new version bakes, or with
// 409 and an [ErrorResponse] that names the step and the reason.
//
// The package does not authenticate. A caller that reaches it decides which code runs:
// protect it accordingly. It refuses changes that a page of another site makes a
// browser send, in case the authentication is by cookies.
package adminapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cms-personal/personal/shared/plugins/catalogue"
	"github.com/cms-personal/personal/shared/plugins/manager"
)

const (
	maxUseBody    = 4 << 10 // body of POST use, in bytes
	defaultEvents = 100
	maxEvents     = 1000
)

// Manager is the part of [manager.Manager] that the API uses.
type Manager interface {
	Status() manager.Status
	Use(ctx context.Context, version string, ignore ...manager.Ignore) error
	Rehearse(ctx context.Context, version string, ignore ...manager.Ignore) error
	Rollback(ctx context.Context) error
}

// Catalogue is the part of [catalogue.Catalogue] that the API uses.
type Catalogue interface {
	List() ([]catalogue.Entry, error)
	LoadState() (catalogue.State, error)
	Signer(e catalogue.Entry) (string, error)
}

// EventReader reads plugin events; [EventLog] is one.
type EventReader interface {
	Recent(n int) ([]manager.Event, error)
}

// Options are the options of [New].
type Options struct {
	// Uploads installs bundles; nil refuses them.
	Uploads *Uploads
	// EventLog is the source of GET events; nil for no events.
	EventLog EventReader
	// Log gets the causes of internal errors; nil for slog.Default().
	Log *slog.Logger
}

// ErrorResponse is the body of every error.
type ErrorResponse struct {
	Error   string              `json:"error"`             // the complete error
	Step    string              `json:"step,omitempty"`    // of the swap that was refused
	Version string              `json:"version,omitempty"` // requested or uploaded
	Reason  string              `json:"reason,omitempty"`
	Swap    *manager.SwapStatus `json:"swap,omitempty"` // another one, which is under way
}

// Events is the response of GET events.
type Events struct {
	Events []manager.Event `json:"events"` // the latest first
}

// api is the handler that New returns.
type api struct {
	manager   Manager
	catalogue Catalogue
	options   Options
	routes    map[string]methods
}

type methods map[string]http.HandlerFunc

// New returns the API. The CMS strips the path at which it mounts it: the path is
// then empty or / for the status, and /use for a swap.
func New(manager Manager, catalogue Catalogue, o Options) http.Handler {
	o.Log = cmp.Or(o.Log, slog.Default())
	a := &api{manager: manager, catalogue: catalogue, options: o}
	a.routes = map[string]methods{
		"":         {http.MethodGet: a.getStatus, http.MethodHead: a.getStatus},
		"use":      {http.MethodPost: func(w http.ResponseWriter, r *http.Request) { a.use(w, r, a.manager.Use) }},
		"rehearse": {http.MethodPost: func(w http.ResponseWriter, r *http.Request) { a.use(w, r, a.manager.Rehearse) }},
		"rollback": {http.MethodPost: a.rollback},
		"install":  {http.MethodPost: a.install},
		"events":   {http.MethodGet: a.getEvents, http.MethodHead: a.getEvents},
	}
	sameSite := http.NewCrossOriginProtection()
	sameSite.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, http.StatusForbidden, ErrorResponse{Error: "changes requested by pages of other sites are refused"})
	}))
	handler := sameSite.Handler(a)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		handler.ServeHTTP(w, r)
	})
}

// ServeHTTP calls the handler of a request.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/"), "/")
	route, ok := a.routes[name]
	if !ok {
		refuse(w, http.StatusNotFound, ErrorResponse{Error: "no such path"})
		return
	}
	handle, ok := route[r.Method]
	if !ok {
		allowed := strings.Join(slices.Sorted(maps.Keys(route)), ", ")
		w.Header().Set("Allow", allowed)
		refuse(w, http.StatusMethodNotAllowed, ErrorResponse{Error: "the method must be one of " + allowed})
		return
	}
	handle(w, r)
}

func (a *api) getStatus(w http.ResponseWriter, r *http.Request) {
	a.writeReport(w, r, http.StatusOK)
}

// use has the manager do something with a version: swap to it or rehearse it.
func (a *api) use(w http.ResponseWriter, r *http.Request, do func(context.Context, string, ...manager.Ignore) error) {
	if !hasType(r, "", "application/json") {
		refuse(w, http.StatusUnsupportedMediaType, ErrorResponse{Error: "the body must be application/json"})
		return
	}
	request, err := readRequest(http.MaxBytesReader(w, r.Body, maxUseBody))
	if isTooLarge(err) {
		refuse(w, http.StatusRequestEntityTooLarge, ErrorResponse{Error: "the body is too large"})
		return
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, ErrorResponse{Error: `the body must be {"version": "…"}`})
		return
	}
	a.change(w, r, func(ctx context.Context) error { return do(ctx, request.Version, request.ignored()...) })
}

func (a *api) rollback(w http.ResponseWriter, r *http.Request) {
	a.change(w, r, a.manager.Rollback)
}

// change performs a swap. The manager's own deadlines limit it: those of the server,
// meant for slow clients, may be shorter.
func (a *api) change(w http.ResponseWriter, r *http.Request, swap func(context.Context) error) {
	setDeadlines(w, time.Time{})
	err := swap(r.Context())
	var refused *manager.SwapError
	var busy *manager.BusyError
	switch {
	case err == nil:
		a.writeReport(w, r, http.StatusOK)
	case errors.Is(err, manager.ErrStopped):
		refuse(w, http.StatusServiceUnavailable, ErrorResponse{Error: "the plugin is being stopped"})
	case errors.As(err, &busy):
		refuse(w, http.StatusConflict, ErrorResponse{Error: busy.Error(), Reason: busy.Error(), Swap: &busy.Swap})
	case errors.As(err, &refused):
		refuse(w, http.StatusConflict, ErrorResponse{
			Error: refused.Error(), Step: refused.Step, Version: refused.Version, Reason: refused.Err.Error(),
		})
	case r.Context().Err() != nil: // the CMS ended the wait; the swap goes on
		a.writeReport(w, r, http.StatusAccepted)
	default:
		a.fail(w, r, "the swap", err)
	}
}

// UseRequest is the body of POST use and POST rehearse.
type UseRequest struct {
	Version           string `json:"version"`
	AcceptDifferences bool   `json:"accept_differences,omitempty"` // swap although the rehearsal fails
	Now               bool   `json:"now,omitempty"`                // although the version is younger than the minimum age
}

// ignored returns what the manager ignores.
func (u UseRequest) ignored() (list []manager.Ignore) {
	if u.AcceptDifferences {
		list = append(list, manager.AcceptDifferences)
	}
	if u.Now {
		list = append(list, manager.IgnoreMinAge)
	}
	return list
}

// readRequest reads a [UseRequest] and nothing else.
func readRequest(body io.Reader) (request UseRequest, err error) {
	decoder := json.NewDecoder(body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&request); err != nil {
		return request, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return request, errors.Join(errors.New("data after the object"), err)
	}
	if request.Version == "" {
		return request, errors.New("no version")
	}
	return request, nil
}

func (a *api) getEvents(w http.ResponseWriter, r *http.Request) {
	limit, err := strconv.Atoi(cmp.Or(r.URL.Query().Get("limit"), strconv.Itoa(defaultEvents)))
	if err != nil || limit < 1 || limit > maxEvents {
		refuse(w, http.StatusBadRequest, ErrorResponse{Error: "limit must be a number from 1 to " + strconv.Itoa(maxEvents)})
		return
	}
	response := Events{Events: []manager.Event{}}
	if a.options.EventLog != nil {
		events, err := a.options.EventLog.Recent(limit)
		if err != nil {
			a.fail(w, r, "reading the events", err)
			return
		}
		response.Events = append(response.Events, events...)
	}
	writeJSON(w, http.StatusOK, response)
}

// hasType reports whether the body has one of these media types; "" stands for a
// body without Content-Type.
func hasType(r *http.Request, types ...string) bool {
	header := r.Header.Get("Content-Type")
	if header == "" {
		return slices.Contains(types, "")
	}
	media, _, err := mime.ParseMediaType(header)
	return err == nil && slices.Contains(types, media)
}

func isTooLarge(err error) bool {
	var large *http.MaxBytesError
	return errors.As(err, &large)
}

// setDeadlines replaces the server's deadlines for a request, if it has any.
func setDeadlines(w http.ResponseWriter, deadline time.Time) {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(deadline)
	_ = control.SetWriteDeadline(deadline)
}

func refuse(w http.ResponseWriter, status int, e ErrorResponse) { writeJSON(w, status, e) }

// fail responds to an internal error, whose cause goes to the log only.
func (a *api) fail(w http.ResponseWriter, r *http.Request, doing string, err error) {
	a.options.Log.ErrorContext(r.Context(), "plugin administration: "+doing, "error", err)
	refuse(w, http.StatusInternalServerError, ErrorResponse{Error: doing + " failed, see the log"})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // it fails only if the client is gone
}
