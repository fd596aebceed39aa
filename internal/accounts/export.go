package accounts

import (
	"cmp"
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/internal/throttle"
	"github.com/cms-personal/personal/shared/personal"
)

// ExportStore reads what no other operation shows of an account.
type ExportStore interface {
	// ChargeExport counts an export, uses up the code and stores the jobs. *WaitError if a
	// limit is used up; ErrCodeUsed; ErrProofVoid; ErrStale if the credential version has changed or the
	// account is disabled.
	ChargeExport(ctx context.Context, accountID, credentialVersion int64, charges []throttle.Charge, code CodeUse, jobs ...NewJob) error
	// KnownAddresses returns the account's known addresses, the last seen first.
	KnownAddresses(ctx context.Context, accountID int64) ([]personal.KnownAddress, error)
	// WaitingJobs returns the account's waiting jobs, except those of one kind, the latest
	// first, at most limit.
	WaitingJobs(ctx context.Context, accountID int64, except outbox.Kind, limit int) ([]outbox.Job, error)
}

// exportLimit is the number of exports that a user may have (HTTP contract, section 3).
var exportLimit = throttle.Limit{Burst: 3, Every: 8 * time.Hour, Name: "export"}

// Export implements [personal.Service]. The limit is looked at as soon as the account
// is known, but an export is charged at the end, together with its audit entry: neither
// a wrong password nor a failure uses one up, and none is returned without an entry.
func (s *Service) Export(ctx context.Context, r personal.ExportRequest) (personal.Export, error) {
	r = personal.AsTyped(r)
	e := evidence{parameter: "password", password: r.Password, code: r.Code, proof: r.Proof}
	who, attempt, err := s.identifyGuess(ctx, r.Credentials, e.guess(), nil)
	if err != nil {
		return personal.Export{}, err
	}
	exports := s.limit(exportLimit, "export of", strconv.FormatInt(who.account.ID, 10))
	if err := s.checkLimits(ctx, exports); err != nil {
		s.refund(ctx, attempt.charges)
		return personal.Export{}, err
	}
	code, err := s.confirm(ctx, who, attempt, r.FieldErrors, e)
	if err != nil {
		return personal.Export{}, err
	}
	export, err := s.readExport(ctx, who)
	if err != nil {
		return personal.Export{}, err
	}
	jobs := []NewJob{s.event(ctx, personal.ActorUser, personal.EventExported, who.account.ID)}
	err = s.store.ChargeExport(ctx, who.account.ID, who.account.CredentialVersion, exports, code.use, append(jobs, code.jobs...)...)
	if err := s.authorized(ctx, code, "counting an export", err); err != nil {
		return personal.Export{}, err
	}
	return export, nil
}

// readExport reads what is kept about the caller. It writes nothing. Each part is as it
// was at the moment of its own query.
func (s *Service) readExport(ctx context.Context, who caller) (e personal.Export, err error) {
	schema, err := s.userFields(ctx)
	if err != nil {
		return e, err
	}
	a := who.account
	e = personal.Export{UserID: a.ID, Profile: profile(a, schema), Created: a.Created, Updated: a.Updated}
	if e.Sessions, err = s.sessionsOf(ctx, a.ID, who.session.ID); err != nil {
		return e, err
	}
	if e.Passkeys, e.Identities, err = s.OtherWaysIn(ctx, a); err != nil {
		return e, err
	}
	if e.KnownAddresses, err = s.store.KnownAddresses(ctx, a.ID); err != nil {
		return e, fail("reading known addresses", err)
	}
	// All other jobs of an account send a mail. A waiting recovery is of no account yet.
	waiting, err := s.store.WaitingJobs(ctx, a.ID, KindEvent, maxPendingMails+1)
	if err != nil {
		return e, fail("reading waiting mails", err)
	}
	for i, j := range waiting {
		if e.Truncated = i == maxPendingMails; e.Truncated {
			break
		}
		e.PendingMails = append(e.PendingMails, personal.PendingMail{Kind: mailKind(j), Created: j.Created})
	}
	return e, s.addEvents(ctx, &e)
}

// mailKind returns the kind of the mail that a job sends: the one in its payload, or else
// that of the job.
func mailKind(j outbox.Job) string {
	var payload struct {
		Kind string `json:"kind"`
	}
	_ = json.Unmarshal(j.Payload, &payload) // another version may have stored another payload
	return cmp.Or(payload.Kind, string(j.Kind))
}

// maxPendingMails bounds the list of waiting mails. The limits of mails to one address
// allow fewer, unless they have been switched off.
const maxPendingMails = 1000

const (
	// exportPage is how many audit entries are read at once: all, of almost all accounts.
	exportPage = 1000
	// exportRoom is how much longer than Go's JSON form of an export, without events,
	// that of the HTTP contract may be: some names have an underscore more.
	exportRoom = 1024
	// eventSize is the size of an event in JSON, without the texts.
	eventSize = len(`{"type":"","time":"2026-01-02T03:04:05Z","address":"","actor":""},`)
)

// addEvents adds the account's audit entries to an export, the latest first, as many as
// [personal.MaxExport] allows.
func (s *Service) addEvents(ctx context.Context, e *personal.Export) error {
	rest, err := json.Marshal(e)
	if err != nil {
		return fail("measuring an export", err)
	}
	room := personal.MaxExport - exportRoom - len(rest)
	r := personal.AuditEntriesRequest{UserID: e.UserID, Limit: exportPage}
	for {
		page, err := s.store.AuditEntries(ctx, r)
		if err != nil {
			return fail("reading audit entries", err)
		}
		for _, entry := range page {
			event := personal.ExportedEvent{Type: entry.Type, Time: entry.Time, Address: OwnAddress(entry.Event), Actor: entry.Actor}
			if room -= eventSize + len(event.Type) + len(event.Address) + len(event.Actor); room < 0 {
				e.Truncated = true
				return nil
			}
			e.Events = append(e.Events, event)
			r.After = entry.Cursor
		}
		if len(page) < exportPage {
			return nil
		}
	}
}

// OwnAddress returns the address of an audit entry if only the account's user can have
// caused the entry, and else "". Failed attempts, and those that need no password, may be
// by others.
func OwnAddress(e personal.Event) string {
	if e.Actor == personal.ActorUser && e.Type.Kind().Proved {
		return e.Address
	}
	return ""
}
