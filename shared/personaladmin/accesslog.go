package personaladmin

import (
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/cms-personal/personal/shared/personal"
)

// maxRefusals is how many refusals are logged in a minute, because any caller can
// cause them: 14,400 entries a day, none of a length that the caller chooses.
const maxRefusals = 10

// AccessLog logs who was granted or refused access as an administrator, with
// address and request id, and never with a code or a token. The requests must carry
// a [personal.Call]. It is safe for concurrent use.
type AccessLog struct {
	log *slog.Logger
	now func() time.Time

	mu      sync.Mutex
	minute  time.Time // start of the current minute
	logged  int       // refusals in the current minute
	leftOut int       // refusals since the last one that was logged
}

// NewAccessLog returns an access log that writes to log.
func NewAccessLog(log *slog.Logger) *AccessLog { return &AccessLog{log: log, now: time.Now} }

// Granted logs a sign-in, a sign-out or a link that was issued.
func (l *AccessLog) Granted(r *http.Request, what string) {
	l.log.InfoContext(r.Context(), what, caller(r)...)
}

// Refused logs a refused request and the reason. After 10 refusals within a minute
// it leaves out the rest; the next one that is logged has their number (left_out).
func (l *AccessLog) Refused(r *http.Request, reason string) {
	leftOut, ok := l.count()
	if !ok {
		return
	}
	attrs := append(caller(r), "reason", reason)
	if leftOut > 0 {
		attrs = append(attrs, "left_out", leftOut)
	}
	l.log.WarnContext(r.Context(), "admin request refused", attrs...)
}

// count counts a refusal. It reports whether to log it, and how many were left out
// before.
func (l *AccessLog) count() (leftOut int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := l.now(); now.Sub(l.minute) >= time.Minute {
		l.minute, l.logged = now, 0
	}
	if l.logged == maxRefusals {
		l.leftOut++
		return 0, false
	}
	l.logged++
	leftOut, l.leftOut = l.leftOut, 0
	return leftOut, true
}

func caller(r *http.Request) []any {
	call := personal.CallFrom(r.Context())
	return []any{"address", call.Address, "request_id", call.RequestID}
}
