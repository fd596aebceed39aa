package transfer

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/shared/personal"
)

// Source is what an export of all accounts reads.
type Source interface {
	// AccountsAfter returns up to n accounts with ids above id, in the order of ids.
	AccountsAfter(ctx context.Context, id int64, n int) ([]StoredAccount, error)
}

// StoredAccount is an account with the digests of its unused recovery codes, its passkeys and its
// identities. These are of the same moment, or of a later one.
type StoredAccount struct {
	accounts.Account
	RecoveryCodes [][32]byte                // in ascending order
	Passkeys      []accounts.Passkey        // with the account's user handle; the oldest first
	Identities    []accounts.StoredIdentity // the oldest first
}

// exported is an account as a line of an export.
type exported struct {
	ID           int64           `json:"id"`
	Login        string          `json:"login"`
	Email        string          `json:"email,omitempty"`
	Name         *string         `json:"name,omitempty"`
	PasswordHash string          `json:"password_hash,omitempty"`
	Disabled     bool            `json:"disabled,omitempty"`
	Created      time.Time       `json:"created"`
	Updated      time.Time       `json:"updated"`
	Fields       json.RawMessage `json:"fields"`

	EmailVerified bool      `json:"email_verified,omitempty"`
	Locale        string    `json:"locale,omitempty"`
	EraseAt       time.Time `json:"erase_at,omitzero"` // its user has deleted the account

	TwoFactor  *exportedFactor           `json:"two_factor,omitempty"`
	Passkeys   *exportedPasskeys         `json:"passkeys,omitempty"`
	Identities []personal.LinkedIdentity `json:"identities,omitempty"`
}

// Exported counts what an export of all accounts contains.
type Exported struct {
	Accounts   int64
	TwoFactor  int64 // accounts with a second factor
	Passkeys   int64 // accounts with passkeys
	Identities int64 // accounts with identities
}

// Export writes every account as NDJSON, password hashes and encrypted secrets of second
// factors, the public keys of passkeys and identities included, in the order of ids. An account that changes during the export is
// written in its state before or after the change. Accounts that wait for the
// confirmation of their e-mail are left out: after an import their users could sign in
// without it.
func Export(ctx context.Context, from Source, w io.Writer) (n Exported, err error) {
	out := bufio.NewWriter(w)
	encoder := newEncoder(out)
	read := func(last StoredAccount) ([]StoredAccount, error) {
		page, err := from.AccountsAfter(ctx, last.ID, pageSize)
		if err != nil {
			return nil, fmt.Errorf("reading accounts: %w", err)
		}
		return page, nil
	}
	err = eachOfPages(StoredAccount{}, read, func(a StoredAccount) error {
		if a.Unverified.Key != "" {
			return nil
		}
		line, err := export(a.Account)
		line.TwoFactor, line.Passkeys, line.Identities = exportFactor(a), exportPasskeys(a), exportIdentities(a)
		if err == nil {
			err = encoder.Encode(line)
		}
		if err != nil {
			return fmt.Errorf("writing the account %d: %w", a.ID, err)
		}
		n.Accounts++
		if line.TwoFactor != nil {
			n.TwoFactor++
		}
		if line.Passkeys != nil {
			n.Passkeys++
		}
		if line.Identities != nil {
			n.Identities++
		}
		return nil
	})
	if err != nil {
		return n, err
	}
	if err := out.Flush(); err != nil {
		return n, fmt.Errorf("writing accounts: %w", err)
	}
	return n, nil
}

// pageSize is how many accounts, or audit entries, are in memory at once.
const pageSize = 1000

// eachOfPages reads pages, each after the last element of the previous page, until a
// page is not full, and calls do for every element.
func eachOfPages[T any](last T, read func(last T) ([]T, error), do func(T) error) error {
	for {
		page, err := read(last)
		if err != nil {
			return err
		}
		for _, last = range page {
			if err := do(last); err != nil {
				return err
			}
		}
		if len(page) < pageSize {
			return nil
		}
	}
}

func newEncoder(w io.Writer) *json.Encoder {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e
}

func export(a accounts.Account) (line exported, err error) {
	for name, v := range a.Fields {
		if p, err := plain(v); err == nil { // else it is written as stored
			a.Fields[name] = p
		}
	}
	line = exported{
		ID: a.ID, Login: a.Login, Email: a.Email.Address, Name: a.Name, PasswordHash: a.PasswordHash,
		Disabled: a.Disabled, Created: a.Created, Updated: a.Updated,
		EmailVerified: a.EmailVerified, Locale: a.Locale,
	}
	if a.Deleted() {
		line.EraseAt = a.EraseAt
	}
	line.Fields, err = a.Fields.Encode()
	return line, err
}

// plain converts a stored value to a type that user fields have. A database may
// return a number in another form than it was stored: an integer of the contract's
// range becomes an int64, every other number a float64.
func plain(v any) (any, error) {
	switch n := v.(type) {
	case int64:
		if n < -maxID || n > maxID {
			return float64(n), nil
		}
	case float64:
		if n == math.Trunc(n) && math.Abs(n) <= maxID {
			return int64(n), nil
		}
	case json.RawMessage:
		f, err := strconv.ParseFloat(string(n), 64)
		if err != nil {
			return nil, errors.New("not a value of a user field")
		}
		return f, nil
	}
	return v, nil
}

// AuditSource is what an export of the audit log reads.
type AuditSource interface {
	// AuditEntriesAfter returns up to n entries of an account, or of all accounts if
	// its id is 0, in the order of their times. They begin after the given entry, or
	// with the first after the zero value.
	AuditEntriesAfter(ctx context.Context, accountID int64, after personal.AuditEntry, n int) ([]personal.AuditEntry, error)
}

// ExportAudit writes the audit log since a time as NDJSON, the oldest entry first.
func ExportAudit(ctx context.Context, from AuditSource, since time.Time, w io.Writer) error {
	out := bufio.NewWriter(w)
	encoder := json.NewEncoder(out)
	err := eachEvent(ctx, from, 0, since, func(e personal.Event) error {
		e.ID = "" // which is for deliveries to the host
		return encoder.Encode(e)
	})
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		return fmt.Errorf("writing the audit log: %w", err)
	}
	return nil
}

func eachEvent(ctx context.Context, from AuditSource, accountID int64, since time.Time, do func(personal.Event) error) error {
	read := func(last personal.AuditEntry) ([]personal.AuditEntry, error) {
		return from.AuditEntriesAfter(ctx, accountID, last, pageSize)
	}
	return eachOfPages(personal.AuditEntry{Event: personal.Event{Time: since}}, read, func(e personal.AuditEntry) error {
		return do(e.Event)
	})
}

// PersonSource is what the export of one user's data reads.
type PersonSource interface {
	AccountSource
	Sessions(ctx context.Context, accountID int64, l accounts.Lifetimes) ([]accounts.Session, error)
	// Passkeys returns the passkeys of an account, the newest first.
	Passkeys(ctx context.Context, accountID int64) ([]accounts.Passkey, error)
	// Identities returns the identities of an account, the latest first.
	Identities(ctx context.Context, accountID int64) ([]accounts.StoredIdentity, error)
	// KnownAddresses returns the known addresses of an account, the last seen first.
	KnownAddresses(ctx context.Context, accountID int64) ([]personal.KnownAddress, error)
	// NewEmails returns the addresses that an account's user has not confirmed yet, in the order
	// in which their confirmations expire.
	NewEmails(ctx context.Context, accountID int64) ([]NewEmail, error)
	AuditSource
}

// KnownAddress is an address, or a network, that the user has signed in from.
type KnownAddress struct {
	Address  string    `json:"place"`
	LastSeen time.Time `json:"last_seen"` // written at most once a day
}

// NewEmail is a new address that the user has not confirmed yet.
type NewEmail struct {
	Email   string    `json:"email"`
	Expires time.Time `json:"expires"` // when the confirmation expires
}

// person is the stored data of one user, without the password hash. The member events
// follows it; there may be too many events to hold in memory.
type person struct {
	exported
	TwoFactor       bool                      `json:"two_factor,omitempty"`       // in place of the secret
	UnverifiedEmail string                    `json:"unverified_email,omitempty"` // that must be confirmed before the first sign-in
	Sessions        []exportedSession         `json:"sessions"`
	Passkeys        []personal.Passkey        `json:"passkeys,omitempty"`    // without the keys
	LastSignIn      time.Time                 `json:"last_sign_in,omitzero"` // written at most once a day
	KnownAddresses  []KnownAddress            `json:"places"`
	NewEmails       []NewEmail                `json:"new_emails"`
	Identities      []personal.LinkedIdentity `json:"identities"`
}

type exportedSession struct {
	Created  time.Time `json:"created"`
	LastSeen time.Time `json:"last_seen"`
	Address  string    `json:"address,omitempty"`
	Agent    string    `json:"agent,omitempty"`
	Method   string    `json:"method,omitempty"`
}

// ExportPerson writes the stored data of one user as one JSON object. Its errors for a user
// that cannot be found are those of [FindAccount].
func ExportPerson(ctx context.Context, from PersonSource, query Query, w io.Writer) error {
	a, err := FindAccount(ctx, from, query)
	if err != nil {
		return fmt.Errorf("finding the account: %w", err)
	}
	a.PasswordHash = ""
	data := person{
		TwoFactor: a.TwoFactor.On(), UnverifiedEmail: a.Unverified.Address, LastSignIn: a.LastSignIn, Sessions: []exportedSession{},
		KnownAddresses: []KnownAddress{}, Identities: []personal.LinkedIdentity{},
	}
	if data.exported, err = export(a); err != nil {
		return fmt.Errorf("writing the account: %w", err)
	}
	sessions, err := from.Sessions(ctx, a.ID, accounts.Lifetimes{})
	if err != nil {
		return fmt.Errorf("reading sessions: %w", err)
	}
	for _, s := range sessions {
		data.Sessions = append(data.Sessions, exportedSession{s.Created, s.LastSeen, s.Address, s.Agent, s.Method})
	}
	passkeys, err := from.Passkeys(ctx, a.ID)
	if err != nil {
		return fmt.Errorf("reading passkeys: %w", err)
	}
	data.Passkeys = describePasskeys(passkeys)
	known, err := from.KnownAddresses(ctx, a.ID)
	if err != nil {
		return fmt.Errorf("reading known addresses: %w", err)
	}
	for _, k := range slices.Backward(known) {
		data.KnownAddresses = append(data.KnownAddresses, KnownAddress(k))
	}
	if data.NewEmails, err = from.NewEmails(ctx, a.ID); err != nil {
		return fmt.Errorf("reading unconfirmed addresses: %w", err)
	}
	identities, err := from.Identities(ctx, a.ID)
	if err != nil {
		return fmt.Errorf("reading identities: %w", err)
	}
	for _, i := range identities {
		data.Identities = append(data.Identities, i.Described())
	}
	var object bytes.Buffer
	encoder := newEncoder(&object)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(data); err != nil {
		return fmt.Errorf("writing the account: %w", err)
	}
	out := bufio.NewWriter(w)
	out.Write(bytes.TrimSuffix(object.Bytes(), []byte("\n}\n")))
	out.WriteString(",\n  \"events\": [")
	separator := "\n    "
	err = eachEvent(ctx, from, a.ID, time.Time{}, func(e personal.Event) error {
		// Without the id, which the export holds once, and without other people's names
		// and addresses.
		line, err := json.Marshal(personal.Event{Time: e.Time, Type: e.Type, Address: accounts.OwnAddress(e), RequestID: e.RequestID,
			Actor: e.Actor, Method: e.Method, Count: e.Count})
		out.WriteString(separator)
		out.Write(line)
		separator = ",\n    "
		return err
	})
	if err != nil {
		return fmt.Errorf("writing events: %w", err)
	}
	out.WriteString("\n  ]\n}\n")
	if err := out.Flush(); err != nil { // returns the first error of writing
		return fmt.Errorf("writing the account: %w", err)
	}
	return nil
}
