package accounts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"time"

	"github.com/cms-personal/personal/internal/mailtext"
	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/internal/token"
	"github.com/cms-personal/personal/shared/localtext"
	"github.com/cms-personal/personal/shared/personal"
)

// MailStore keeps the digests of mailed tokens.
type MailStore interface {
	// AddMailToken stores one more token. Earlier tokens stay valid. ErrStale if the account's password or e-mail is not the one that the token
	// was made for any more, or the account does not exist or is disabled (for a
	// PurposeDeletion: unless by a deletion that stands), or has the address
	// of a PurposeVerification neither as its e-mail nor as its Unverified one.
	AddMailToken(ctx context.Context, t MailToken) error
	// FindMailToken returns the account of a token that is neither void nor expired, whose
	// creation is not false, and which ends at most maxLifetime after it. ErrNotFound.
	FindMailToken(ctx context.Context, p MailPurpose, digest [32]byte, maxLifetime time.Duration) (Account, error)
	// RefuseMail stores the jobs, and what the relay said about a mail in place of what it
	// said before, if the address is the account's e-mail or the one that it waits for.
	RefuseMail(ctx context.Context, r MailRefusal, jobs ...NewJob) error
	// AcceptMail removes what the relay said about an earlier mail of the account to the
	// address.
	AcceptMail(ctx context.Context, accountID int64, emailKey string) error
}

// MailRefusal is a mail that the relay refused permanently.
type MailRefusal struct {
	AccountID int64
	EmailKey  string // of the address that it was for
	Kind      mailtext.Kind
	Reply     string    // the relay's words; they may name the address
	Time      time.Time // set by the store
}

// MailPurpose is what a mailed token is for.
type MailPurpose string

// The purposes of mailed tokens.
const (
	PurposeRecovery MailPurpose = "recovery"
	PurposeEmail    MailPurpose = "email"
	PurposeDeletion MailPurpose = "deletion" // undoes it; the only tokens that work while the account is disabled

	PurposeVerification MailPurpose = "verification"
)

// MailToken is a token that was mailed.
type MailToken struct {
	AccountID         int64
	Purpose           MailPurpose
	Digest            [32]byte
	CredentialVersion int64  // the account's when the token was made
	AccountEmailKey   string // likewise
	Email             Email  // PurposeEmail: the new address; PurposeVerification: the address to confirm
	Expires           time.Time
}

// mailRequest is what the job of a mail keeps of the call that caused it.
type mailRequest struct {
	Locale    string     `json:"locale,omitempty"` // as [mailtext.Set.Write] takes it
	RequestID string     `json:"request_id,omitempty"`
	Address   netip.Addr `json:"address,omitzero"` // of the caller, but not of an administrator: it is not the user's business
	MailID    string     `json:"mail_id"`

	Shared        bool `json:"shared,omitempty"`        // many callers seem to share the address
	Administrator bool `json:"administrator,omitempty"` // an administrator caused the mail; else it counts as the user's
}

func newMailRequest(ctx context.Context, by personal.Actor) mailRequest {
	call := personal.CallFrom(ctx)
	r := mailRequest{Locale: mailLocale(ctx), RequestID: call.RequestID, MailID: newID(), Administrator: by == personal.ActorAdministrator}
	if !r.Administrator {
		r.Address, r.Shared = call.Address, call.Shared
	}
	return r
}

// outgoingMail is a mail about an account.
type outgoingMail struct {
	kind      mailtext.Kind
	request   mailRequest
	accountID int64
	to        Email
	verified  bool // to is the account's verified e-mail

	// Of the caller, for the budgets; see withCaller.
	network, address string // "": unknown, or shared by many callers
	longKnown        bool   // the address is fully known to the account, and has been known for a day
}

// MaxLanguages is the maximum length of the languages that a job or an account keeps, in
// bytes.
const MaxLanguages = 64

// mailLocale returns the languages of the caller's mails, as [mailtext.Set.Write] takes
// them; "" if they are unknown.
func mailLocale(ctx context.Context) string {
	call := personal.CallFrom(ctx)
	return cmp.Or(localtext.ValidLanguages(call.Languages, MaxLanguages), localtext.ValidLanguages(call.Locale, MaxLanguages))
}

// withCall returns a context with the call that caused the mail.
func (r mailRequest) withCall(ctx context.Context) context.Context {
	return personal.WithCall(ctx, personal.Call{RequestID: r.RequestID, Locale: r.Locale, Address: r.Address})
}

// jobAccount returns the account that a job sends a mail about, and false if it has been
// deleted since.
func (s *Service) jobAccount(ctx context.Context, id int64) (account Account, found bool, err error) {
	account, err = s.store.Account(ctx, id)
	if errors.Is(err, ErrNotFound) {
		return account, false, nil
	}
	if err != nil {
		return account, false, fmt.Errorf("finding the account of a mail: %w", err)
	}
	return account, true, nil
}

// mailToken makes a token that is valid for l.Lifetime, stores its digest and mails it,
// unless a limit suppresses the mail; it stores the jobs when the mail is first granted.
// The token exists in clear only here and in the mail: a retry makes another one. A URL
// of "" means no link.
func (s *Service) mailToken(ctx context.Context, m outgoingMail, url string, l mailtext.Letter, t MailToken, jobs ...NewJob) error {
	lifetime := l.Lifetime
	if t.Purpose == PurposeDeletion { // the letter has what is left of it
		lifetime = s.settings.DeletionGrace
	}
	if s.tokenEnded(ctx, lifetime) {
		return fmt.Errorf("%w: the token of the mail has ended", outbox.ErrOver)
	}
	granted, err := s.reserveMail(ctx, m, jobs...)
	if err != nil || !granted {
		return err
	}
	l.Token, t.Digest = token.NewMailToken()
	l.Link = strings.ReplaceAll(url, "{token}", l.Token)
	t.Expires = s.store.Now().Add(l.Lifetime)
	err = s.store.AddMailToken(ctx, t)
	if errors.Is(err, ErrStale) {
		return nil // the account has changed since the request: send no mail
	}
	if err != nil {
		return fmt.Errorf("storing a mailed token: %w", err)
	}
	return s.send(ctx, m, l)
}

// mailPlain mails a letter without a token, unless a limit suppresses it.
func (s *Service) mailPlain(ctx context.Context, m outgoingMail, l mailtext.Letter) error {
	granted, err := s.reserveMail(ctx, m)
	if err != nil || !granted {
		return err
	}
	return s.send(ctx, m, l)
}

// mailTries is how often a mail that has perhaps been sent is tried again.
const mailTries = 2

// send writes a reserved mail and hands it to the host. A mail whose recipient the relay refuses for good
// is dropped, with an event; after any other error the job is retried. A refusal of what the site
// sends becomes a warning, until a mail is accepted.
func (s *Service) send(ctx context.Context, m outgoingMail, l mailtext.Letter) error {
	ctx = m.request.withCall(ctx)
	l.Site = s.settings.Site
	subject, text, html, err := s.settings.Mails.Write(m.kind, m.request.Locale, l)
	if err != nil && subject == "" {
		return fmt.Errorf("writing the mail %s: %w", m.kind, err)
	}
	if err != nil {
		s.log.ErrorContext(ctx, "a mail template fails, the built-in mail is sent", slog.String("kind", string(m.kind)), slog.Any("error", err))
	}
	err = s.host.SendMail(ctx, personal.Mail{ID: m.request.MailID, To: m.to.Address, Subject: subject, Text: text, HTML: html})
	var refused *personal.MailRefusedError
	if errors.As(err, &refused) {
		// The log and the event do not get the relay's words: they often name the address.
		s.log.WarnContext(ctx, "a mail was refused permanently and is dropped", slog.Int64("user_id", m.accountID))
		refusal := MailRefusal{AccountID: m.accountID, EmailKey: m.to.Key, Kind: m.kind,
			Reply: personal.NewMailRefusedError(refused.Reason).Reason}
		err = s.store.RefuseMail(ctx, refusal, s.event(ctx, personal.ActorSystem, personal.EventMailRefused, m.accountID))
		if err != nil {
			return fmt.Errorf("storing the refusal of a mail: %w", err)
		}
		s.wake()
		return nil
	}
	if err != nil {
		failed, _ := errors.AsType[*personal.MailFailedError](err)
		err = fmt.Errorf("handing a mail to the host: %w", err)
		if failed != nil && strings.HasPrefix(failed.Codes(), "5") {
			codes := failed.Codes()
			s.refusedSite.Store(&codes)
			s.log.WarnContext(ctx, "the mail relay refuses mails of the site", slog.String("reply", codes), slog.String("kind", string(m.kind)))
		}
		if failed != nil && failed.PerhapsSent {
			return &outbox.LimitedError{Err: err, More: mailTries}
		}
		return err
	}
	s.refusedSite.Store(nil)
	if err := s.store.AcceptMail(ctx, m.accountID, m.to.Key); err != nil { // a retry would send the mail again
		s.log.WarnContext(ctx, "the earlier refusal of a mail could not be forgotten", slog.Int64("user_id", m.accountID), slog.Any("error", err))
	}
	return nil
}

// RefusedSite returns the codes of the relay's reply if it has refused a mail because of the site, and
// accepted none since; "" else.
func (s *Service) RefusedSite() string {
	if codes := s.refusedSite.Load(); codes != nil {
		return *codes
	}
	return ""
}

// maxLifetime is the longest that tokens of a purpose live.
func (s Settings) maxLifetime(p MailPurpose) time.Duration {
	switch p {
	case PurposeVerification:
		return s.VerificationLifetime
	case PurposeDeletion:
		return s.DeletionGrace
	case PurposeRecovery: // an invitation is one
		return max(s.RecoveryLifetime, s.InvitationLifetime)
	}
	return s.RecoveryLifetime
}

// findMailToken finds the account of a token as it was mailed.
func (s *Service) findMailToken(ctx context.Context, p MailPurpose, text string) ([32]byte, Account, error) {
	digest, ok := token.MailDigest(text)
	if !ok {
		return digest, Account{}, refusal(personal.CodeInvalidToken)
	}
	account, err := s.store.FindMailToken(ctx, p, digest, s.settings.maxLifetime(p))
	return digest, account, failWith(personal.CodeInvalidToken, "finding a mailed token", err)
}
