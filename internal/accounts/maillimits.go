package accounts

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cms-personal/personal/internal/mailtext"
)

// MailLimitStore counts mails by keyed digests of the addresses they go to.
type MailLimitStore interface {
	// ReserveMail counts a mail that is about to be sent and stores the jobs, if no
	// limit is used up; else it does neither and returns false. A repeated reservation,
	// which has the same digest, kind and MailID, is granted, not counted again, and
	// stores no jobs. Of concurrent reservations for one digest each counts those that
	// were granted before it.
	ReserveMail(ctx context.Context, r MailReservation, jobs ...NewJob) (granted bool, err error)
	// Key returns the stored key of that name. The first call with a candidate, on
	// whichever node, stores it. ErrNotFound without a candidate, if no key is stored.
	Key(ctx context.Context, name string, candidate []byte) ([]byte, error)
}

// MailReservation is a request to send one mail.
type MailReservation struct {
	Digest [32]byte // of the address
	Kind   mailtext.Kind
	MailID string
	Limits []MailLimit
}

// MailLimit allows Max mails of all the kinds together to one address within any period
// of the length Window.
type MailLimit struct {
	Kinds  []mailtext.Kind
	Max    int
	Window time.Duration
}

// MailWindow is the longest Window of a limit: older mails count towards none.
const MailWindow = 24 * time.Hour

// ownMailLimit says which kinds have limits of their own: mails that others must not be
// able to suppress by using up the common limit. A thief who knows the password could do
// that with sign-ins from many addresses, before they use a recovery code, or enrol or
// remove a second factor.
func ownMailLimit(k mailtext.Kind) bool {
	switch k {
	case mailtext.Recovery, mailtext.Invitation, mailtext.EmailChange, mailtext.PasswordChanged, mailtext.Recovered, mailtext.EmailChanged, mailtext.Deletion,
		mailtext.TwoFactorOn, mailtext.TwoFactorOff, mailtext.RecoveryCodes, mailtext.RecoveryCodeUsed:
		return true
	}
	return false
}

// commonMailKinds are the kinds that count towards the common limit.
func commonMailKinds() (kinds []mailtext.Kind) {
	for _, d := range mailtext.Descriptions() {
		if !ownMailLimit(d.Kind) {
			kinds = append(kinds, d.Kind)
		}
	}
	return kinds
}

// mailLimits returns the limits for mails of a kind to one address, over all callers
// (HTTP contract, section 5). A deletion that follows another within a minute has its
// mail, because without it only an administrator can undo the deletion.
func mailLimits(k mailtext.Kind) (limits []MailLimit) {
	own := []mailtext.Kind{k}
	if ownMailLimit(k) {
		limits = []MailLimit{{own, 5, time.Hour}}
		if k != mailtext.Deletion {
			limits = append(limits, MailLimit{own, 1, time.Minute})
		}
		return limits
	}
	common := commonMailKinds()
	limits = []MailLimit{{common, 10, time.Hour}, {common, 30, MailWindow}}
	if k == mailtext.Verification {
		limits = append(limits, MailLimit{own, 1, time.Minute})
	}
	// Strangers can cause these. Half of the common limit stays for notices.
	if strangers := []mailtext.Kind{mailtext.Verification, mailtext.RegistrationAttempt}; slices.Contains(strangers, k) {
		limits = append(limits, MailLimit{strangers, 5, time.Hour}, MailLimit{strangers, 15, MailWindow})
	}
	return limits
}

// reserveMail reports whether a mail may be sent, and counts it if so: every mail is
// reserved before it is sent, also by each retry of its job. It stores the jobs with the
// first reservation. The caller drops a mail that is not granted, and tells no one.
func (s *Service) reserveMail(ctx context.Context, kind mailtext.Kind, r mailRequest, to Email, jobs ...NewJob) (granted bool, err error) {
	digest, err := s.mailDigest(ctx, kind, to)
	if err != nil {
		return false, err
	}
	granted, err = s.store.ReserveMail(ctx, MailReservation{Digest: digest, Kind: kind, MailID: r.MailID, Limits: mailLimits(kind)}, jobs...)
	if err != nil {
		return false, fmt.Errorf("reserving a mail: %w", err)
	}
	if !granted {
		s.suppressed(kind)
		s.log.InfoContext(r.withCall(ctx), "a mail was suppressed: its address got too many", slog.String("kind", string(kind)))
	}
	return granted, nil
}

// mailDigest returns the digest under which mails of a kind to an address are counted.
// Addresses that differ in their +tag only, which usually have one mailbox, share it.
// Of a kind with limits of its own, only those with a tag do: anyone can have an account
// with a tagged form of another user's address, and would use up the limits of that user.
func (s *Service) mailDigest(ctx context.Context, kind mailtext.Kind, to Email) (digest [32]byte, err error) {
	candidate := make([]byte, sha256.Size)
	_, _ = rand.Read(candidate) // it never fails
	key, err := s.mailKey.get(ctx, s.store, candidate)
	if err != nil {
		return digest, fmt.Errorf("reading the key of mail digests: %w", err)
	}
	return mailDigestWith(key, kind, to), nil
}

func mailDigestWith(key []byte, kind mailtext.Kind, to Email) [32]byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(withoutTag(to.Key, ownMailLimit(kind))))
	return [32]byte(mac.Sum(nil))
}

// withoutTag removes the +tag of an address, but not the + if keepPlus is set. A local
// part that begins with + has no tag.
func withoutTag(emailKey string, keepPlus bool) string {
	at := strings.LastIndexByte(emailKey, '@')
	plus := strings.IndexByte(emailKey, '+')
	if plus <= 0 || plus > at {
		return emailKey
	}
	if keepPlus {
		return emailKey[:plus+1] + emailKey[at:]
	}
	return emailKey[:plus] + emailKey[at:]
}

// digestKey is the key of mail digests, which all nodes read from the database once.
type digestKey struct {
	mu    sync.Mutex
	value []byte
}

// get returns the key; the candidate is as for MailLimitStore.Key.
func (k *digestKey) get(ctx context.Context, store MailLimitStore, candidate []byte) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.value == nil {
		key, err := store.Key(ctx, "mail digests", candidate)
		if err != nil {
			return nil, err
		}
		k.value = key
	}
	return k.value, nil
}
