package adminentry

import (
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/cms-personal/personal/shared/personal"
)

// refusalsAMinute are told at most: anybody can cause them, and shall not fill a
// disk. A day brings 14,400 lines, of a length that no caller chooses.
const refusalsAMinute = 10

// Record writes the log's lines of who came to administer: from which address,
// never by which code or token. Each request must carry a [personal.Call]. It is
// safe for concurrent use, and made by [NewRecord].
type Record struct {
	log *slog.Logger
	now func() time.Time

	mu      sync.Mutex
	minute  time.Time // began then
	told    int       // refusals of this minute
	leftOut int       // refusals that were not told, since one was
}

// NewRecord returns a record that writes into a log.
func NewRecord(log *slog.Logger) *Record { return &Record{log: log, now: time.Now} }

// Granted tells of an administrator who came, went, or was given something.
func (rec *Record) Granted(r *http.Request, what string) {
	rec.log.InfoContext(r.Context(), what, who(r)...)
}

// Refused tells of a request that was refused and why, unless many have been told
// lately: the next one that is says how many were left out.
func (rec *Record) Refused(r *http.Request, why string) {
	leftOut, ok := rec.take()
	if !ok {
		return
	}
	attrs := append(who(r), "reason", why)
	if leftOut > 0 {
		attrs = append(attrs, "left_out", leftOut)
	}
	rec.log.WarnContext(r.Context(), "a request to administer was refused", attrs...)
}

// take counts a refusal and reports whether it is told, with how many that were
// not.
func (rec *Record) take() (leftOut int, ok bool) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if now := rec.now(); now.Sub(rec.minute) >= time.Minute {
		rec.minute, rec.told = now, 0
	}
	if rec.told == refusalsAMinute {
		rec.leftOut++
		return 0, false
	}
	rec.told++
	leftOut, rec.leftOut = rec.leftOut, 0
	return leftOut, true
}

func who(r *http.Request) []any {
	call := personal.CallFrom(r.Context())
	return []any{"address", call.Address, "request_id", call.RequestID}
}
