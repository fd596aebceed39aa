package personal

import (
	"slices"
	"time"
)

// EventType says what happened.
type EventType string

// The event types. Hosts must tolerate unknown types. Failed and throttled attempts
// are sampled: only the first few per minute and address become events.
const (
	EventRegistered        EventType = "registered"
	EventSignedIn          EventType = "signed_in"
	EventSignInFailed      EventType = "sign_in_failed"     // a wrong login or password (UserID is 0 if no account matches), also where an operation asks for the password again; or an account that is disabled or waits for its e-mail to be verified
	EventThrottled         EventType = "throttled"          // a rate limit refused an attempt; UserID is 0, because the account is not looked up
	EventRecoveryRequested EventType = "recovery_requested" // an account matched and a mail was sent
	EventRecovered         EventType = "recovered"
	EventPasswordChanged   EventType = "password_changed"
	EventProfileUpdated    EventType = "profile_updated" // by the user; only if a value changed, see Event.Fields
	EventEmailChanged      EventType = "email_changed"   // by the user or by an administrator
	EventEmailTaken        EventType = "email_taken"     // register/ or email/ revealed that another account has the e-mail address (UserID is 0)
	EventMailRefused       EventType = "mail_refused"    // the relay permanently refused a mail, see MailRefusedError
	EventSessionTheft      EventType = "session_theft"   // a superseded hash was used; the session was ended
	EventUserUpdated       EventType = "user_updated"    // this type and the following: by an administrator
	EventUserDisabled      EventType = "user_disabled"
	EventUserEnabled       EventType = "user_enabled"
	EventUserDeleted       EventType = "user_deleted" // the last event of a user; by ActorSystem if they left or never confirmed their address

	EventEmailVerified     EventType = "email_verified" // the account's address was confirmed
	EventExported          EventType = "exported"
	EventDeletionRequested EventType = "deletion_requested" // by the user
	EventDeletionUndone    EventType = "deletion_undone"    // by the user

	EventTwoFactorOn      EventType = "two_factor_on"
	EventTwoFactorOff     EventType = "two_factor_off"     // by the user or by an administrator
	EventRecoveryCodes    EventType = "recovery_codes"     // all recovery codes were replaced
	EventRecoveryCodeUsed EventType = "recovery_code_used" // instead of a code of the second factor

	EventPasskeyAdded     EventType = "passkey_added"
	EventPasskeyRemoved   EventType = "passkey_removed"   // see Event.Count: by the user, by an administrator, or by a recovery
	EventPasskeyCloned    EventType = "passkey_cloned"    // its counter went back: there may be a copy of it
	EventIdentityLinked   EventType = "identity_linked"   // by the user, or for a new user by the host
	EventIdentityUnlinked EventType = "identity_unlinked" // likewise

	EventUserCreated   EventType = "user_created"    // this type and the following: by an administrator
	EventUserInvited   EventType = "user_invited"    // to choose a password
	EventUserSignedOut EventType = "user_signed_out" // every session was ended; by ActorUser every session but the caller's
	EventAccessReset   EventType = "access_reset"    // only a recovery at the e-mail that was set opens the account
	EventLimitsLifted  EventType = "limits_lifted"
	EventFieldsFilled  EventType = "fields_filled" // defaults of user fields are being filled in (UserID is 0)
)

// EventKind describes a type of events.
type EventKind struct {
	Type   EventType
	Tone   Tone
	Proved bool // by ActorUser only the account's user can have caused it: failed attempts, and those that need no password, may be by others
	Flood  bool // anyone can cause it as often as they like: its number in the audit log is limited, so that it pushes out no other event
}

// Tone says how lists mark events; "" not at all.
type Tone string

// The tones.
const (
	ToneGood Tone = "good"
	ToneWarn Tone = "warn"
	ToneBad  Tone = "bad"
)

// EventKinds returns all types, in the order of lists.
func EventKinds() []EventKind { return slices.Clone(eventKinds) }

var eventKinds = []EventKind{
	{Type: EventSignedIn, Tone: ToneGood, Proved: true, Flood: true},
	{Type: EventSignInFailed, Tone: ToneWarn, Flood: true},
	{Type: EventThrottled, Tone: ToneWarn, Flood: true},
	{Type: EventRegistered, Tone: ToneGood, Proved: true},
	{Type: EventRecoveryRequested},
	{Type: EventRecovered, Proved: true},
	{Type: EventPasswordChanged, Proved: true},
	{Type: EventProfileUpdated, Proved: true, Flood: true},
	{Type: EventEmailChanged, Proved: true},
	{Type: EventEmailVerified, Tone: ToneGood, Proved: true},
	{Type: EventEmailTaken, Tone: ToneWarn, Flood: true},
	{Type: EventMailRefused, Tone: ToneWarn},
	{Type: EventSessionTheft, Tone: ToneBad},
	{Type: EventExported, Proved: true},
	{Type: EventDeletionRequested, Tone: ToneWarn, Proved: true},
	{Type: EventDeletionUndone, Proved: true},
	{Type: EventTwoFactorOn, Tone: ToneGood, Proved: true},
	{Type: EventTwoFactorOff, Tone: ToneWarn, Proved: true},
	{Type: EventRecoveryCodes, Proved: true},
	{Type: EventRecoveryCodeUsed, Tone: ToneWarn, Proved: true},
	{Type: EventPasskeyAdded, Tone: ToneGood, Proved: true},
	{Type: EventPasskeyRemoved, Tone: ToneWarn, Proved: true},
	{Type: EventPasskeyCloned, Tone: ToneBad},
	{Type: EventIdentityLinked, Tone: ToneGood, Proved: true},
	{Type: EventIdentityUnlinked, Tone: ToneWarn, Proved: true},
	{Type: EventUserUpdated},
	{Type: EventUserDisabled, Tone: ToneWarn},
	{Type: EventUserEnabled},
	{Type: EventUserDeleted, Tone: ToneWarn},
	{Type: EventUserCreated, Tone: ToneGood},
	{Type: EventUserInvited},
	{Type: EventUserSignedOut, Tone: ToneWarn},
	{Type: EventAccessReset, Tone: ToneWarn},
	{Type: EventLimitsLifted},
	{Type: EventFieldsFilled},
}

// Kind describes the type; of an unknown one it is zero.
func (t EventType) Kind() EventKind {
	for _, k := range eventKinds {
		if k.Type == t {
			return k
		}
	}
	return EventKind{}
}

// Actor says who caused an event.
type Actor string

// The actors. Hosts must tolerate unknown actors.
const (
	ActorUser          Actor = "user"          // a caller of [Service], signed in or not, or whom [Administration.SignIn] signs in; not necessarily the account's user
	ActorAdministrator Actor = "administrator" // a caller of [Administration]
	ActorSystem        Actor = "system"        // the module itself
)

// Event is one thing that happened to an account. It contains no secrets. Its JSON form is
// that of the exported audit log; docs/events.md lists the keys.
type Event struct {
	ID        string    `json:"id,omitempty"` // unique; the same for a repeated delivery
	Time      time.Time `json:"time"`         // UTC
	Type      EventType `json:"type"`
	UserID    int64     `json:"user_id,omitempty"`    // 0 if the event is about no account; in an [AuditEntry] also if the account was deleted since
	Address   string    `json:"address,omitempty"`    // of the client whose request caused it; empty if unknown
	RequestID string    `json:"request_id,omitempty"` // of the call that caused it
	Actor     Actor     `json:"actor,omitempty"`
	ActorName string    `json:"actor_name,omitempty"` // the administrator's name, see [Call]; empty for other actors

	// Fields are the names of what was changed, "name" and user fields, sorted: of
	// EventProfileUpdated and EventUserUpdated only. It is empty if no value was changed. It
	// never has values.
	Fields []string `json:"fields,omitempty"`

	Method string `json:"method,omitempty"` // of EventSignedIn: how the user was authenticated, see Session
	Count  int    `json:"count,omitempty"`  // how many passkeys or identities were removed: of EventPasskeyRemoved and EventIdentityUnlinked
}
