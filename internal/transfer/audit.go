package transfer

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/cms-personal/personal/shared/personal"
)

// auditPage is how many audit lines are in memory at once.
const auditPage = 1000

// AuditLine is what the audit log keeps of an event.
type AuditLine struct {
	ID        int64              `json:"-"` // of the line: it orders those of one time
	Time      time.Time          `json:"time"`
	Type      personal.EventType `json:"type"`
	UserID    int64              `json:"user_id,omitempty"` // 0: nobody's, or somebody's who is deleted
	Address   string             `json:"address,omitempty"`
	RequestID string             `json:"request_id,omitempty"`
	Actor     personal.Actor     `json:"actor,omitempty"`
	ActorName string             `json:"actor_name,omitempty"`
}

// forTheUser is the line as it goes to the user it is about: without the address
// and the name of anybody else. An attempt that failed, or that anybody may make,
// may be somebody else's.
func (l AuditLine) forTheUser() AuditLine {
	l.ActorName = ""
	switch l.Type {
	case personal.EventRegistered, personal.EventSignedIn, personal.EventPasswordChanged, personal.EventRecovered:
		return l // only the user can do that
	case personal.EventEmailChanged:
		if l.Actor == personal.ActorUser {
			return l
		}
	}
	l.Address = ""
	return l
}

// AuditSource is what the audit log is read from.
type AuditSource interface {
	// AuditLines returns up to n lines of the audit log, in the order of their
	// time: those of an account, of all if its id is 0. They begin behind the given
	// one; with the zero value, at the first.
	AuditLines(ctx context.Context, accountID int64, behind AuditLine, n int) ([]AuditLine, error)
}

// ExportAudit writes the audit log from a moment on as NDJSON, the oldest line
// first.
func ExportAudit(ctx context.Context, from AuditSource, since time.Time, w io.Writer) error {
	out := bufio.NewWriter(w)
	encoder := json.NewEncoder(out)
	err := eachAuditLine(ctx, from, 0, AuditLine{Time: since}, func(l AuditLine) error { return encoder.Encode(l) })
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		return fmt.Errorf("writing the audit log: %w", err)
	}
	return nil
}

// eachAuditLine goes through the lines behind one, page by page.
func eachAuditLine(ctx context.Context, from AuditSource, accountID int64, last AuditLine, do func(AuditLine) error) error {
	for {
		page, err := from.AuditLines(ctx, accountID, last, auditPage)
		if err != nil {
			return err
		}
		for _, last = range page {
			if err := do(last); err != nil {
				return err
			}
		}
		if len(page) < auditPage {
			return nil
		}
	}
}
