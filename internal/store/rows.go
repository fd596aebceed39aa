package store

import (
	"database/sql/driver"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/userfields"
)

// micros is a time as it is stored: microseconds since 1970, 0 for none.
type micros int64

func at(t time.Time) micros {
	if t.IsZero() {
		return 0
	}
	return micros(t.UnixMicro())
}

func (m micros) time() time.Time {
	if m == 0 {
		return time.Time{}
	}
	return time.UnixMicro(int64(m)).UTC()
}

// fieldValues is a column of user-field values, stored as a JSON object.
type fieldValues userfields.Values

// Value implements [driver.Valuer].
func (v fieldValues) Value() (driver.Value, error) {
	data, err := userfields.Values(v).Encode()
	return string(data), err
}

// Scan implements [database/sql.Scanner].
func (v *fieldValues) Scan(column any) error {
	var data []byte
	switch column := column.(type) {
	case string:
		data = []byte(column)
	case []byte:
		data = column
	default:
		return fmt.Errorf("decoding user fields: the column holds a %T", column)
	}
	values, err := userfields.DecodeValues(data)
	*v = fieldValues(values)
	return err
}

type accountRow struct {
	bun.BaseModel `bun:"table:personal_accounts,alias:a"`

	ID                int64 `bun:",pk,autoincrement"`
	Login, LoginKey   string
	Name              *string
	Email             string
	EmailKey          string `bun:",nullzero"` // unique, but several accounts may have none
	PasswordHash      string
	CredentialVersion int64
	Search            string // see searched
	Fields            fieldValues
	Disabled          bool
	Created, Updated  micros

	Locale          string
	EmailVerified   bool
	UnverifiedEmail string
	UnverifiedKey   string `bun:",nullzero"` // not unique
	EraseAt         micros

	TwoFactorSecret []byte `bun:",nullzero"` // nil: no second factor
	TwoFactorKey    string
	TwoFactorStep   int64

	LastSignIn micros

	LastSeen      micros `bun:",scanonly"` // the latest of its sessions, if the query asks for it
	RecoveryCodes []byte `bun:",scanonly"` // see dialect.codes, likewise
}

func newAccountRow(a accounts.Account) accountRow {
	return accountRow{
		Login: a.Login, LoginKey: a.LoginKey, Name: a.Name,
		Email: a.Email.Address, EmailKey: a.Email.Key, Search: searched(a),
		PasswordHash: a.PasswordHash, CredentialVersion: a.CredentialVersion,
		Fields: fieldValues(a.Fields), Disabled: a.Disabled,
		Created: at(a.Created), Updated: at(a.Updated),
		Locale:          a.Locale,
		UnverifiedEmail: a.Unverified.Address, UnverifiedKey: a.Unverified.Key,
		EraseAt: at(a.EraseAt), EmailVerified: a.EmailVerified,
		TwoFactorSecret: a.TwoFactor.Secret.Data, TwoFactorKey: a.TwoFactor.Secret.Key, TwoFactorStep: a.TwoFactor.Step,
	}
}

func (r *accountRow) account() accounts.Account {
	return accounts.Account{
		ID: r.ID, Login: r.Login, LoginKey: r.LoginKey, Name: r.Name,
		Email:        accounts.Email{Address: r.Email, Key: r.EmailKey},
		PasswordHash: r.PasswordHash, CredentialVersion: r.CredentialVersion,
		Fields: userfields.Values(r.Fields), Disabled: r.Disabled,
		Created: r.Created.time(), Updated: r.Updated.time(),
		Locale: r.Locale, EmailVerified: r.EmailVerified,
		Unverified: accounts.Email{Address: r.UnverifiedEmail, Key: r.UnverifiedKey},
		EraseAt:    r.EraseAt.time(),
		TwoFactor:  r.twoFactor(),
	}
}

func (r *accountRow) twoFactor() accounts.TwoFactor {
	return accounts.TwoFactor{Secret: accounts.Sealed{Key: r.TwoFactorKey, Data: r.TwoFactorSecret}, Step: r.TwoFactorStep}
}

// seen is account for a query that asks when the account was used.
func (r *accountRow) seen() accounts.Account {
	a := r.account()
	a.LastSeen, a.LastSignIn = r.LastSeen.time(), r.LastSignIn.time()
	return a
}

type sessionRow struct {
	bun.BaseModel `bun:"table:personal_sessions,alias:s"`

	ID                               int64 `bun:",pk,autoincrement"`
	AccountID                        int64
	Selector, ChainKey               []byte
	Current                          []byte `bun:"newest"`
	Created, Rotated, Used, LastSeen micros
	Address, Agent                   string
	Rotations                        int64
	Marks                            []byte // see encodeMarks

	// Of a proof; NULL: none.
	Proof         []byte `bun:",nullzero"`
	ProofCreated  micros `bun:",nullzero"`
	ProofVersion  int64  `bun:",nullzero"`
	ProofEmailKey string
	ProofWithCode bool   `bun:",nullzero"`
	ProofPasskey  int64  `bun:",nullzero"`
	ProofIdentity []byte `bun:",nullzero"`

	Method    string
	PasskeyID int64 `bun:",nullzero"` // NULL: it was started in another way

	Identity        []byte `bun:",nullzero"` // see digestOf; NULL: it was started in another way
	ProviderSession []byte `bun:",nullzero"` // its digest; NULL: none

	Account *accountRow `bun:"rel:belongs-to,join:account_id=id"`
}

func newSessionRow(s accounts.Session) sessionRow {
	r := sessionRow{
		ID: s.ID, AccountID: s.AccountID,
		Selector: s.Selector[:], ChainKey: s.ChainKey[:], Current: s.Current[:],
		Created: at(s.Created), Rotated: at(s.Rotated), Used: at(s.Used), LastSeen: at(s.LastSeen),
		Address: s.Address, Agent: s.Agent,
		Rotations: s.Rotations, Marks: encodeMarks(s.Marks),
		Method: s.Method, PasskeyID: s.PasskeyID,
	}
	if p := s.Proof; p != (accounts.Proof{}) {
		r.Proof, r.ProofCreated, r.ProofVersion = p.Digest[:], at(p.Created), p.CredentialVersion
		r.ProofEmailKey, r.ProofWithCode, r.ProofPasskey = p.EmailKey, p.WithCode, p.PasskeyID
		r.ProofIdentity = digestOf(p.Identity)
	}
	r.Identity, r.ProviderSession = digestOf(s.Identity), digestOfText(s.ProviderSession)
	return r
}

func (r *sessionRow) session() accounts.Session {
	s := accounts.Session{
		ID: r.ID, AccountID: r.AccountID,
		Created: r.Created.time(), Rotated: r.Rotated.time(), Used: r.Used.time(), LastSeen: r.LastSeen.time(),
		Address: r.Address, Agent: r.Agent,
		Rotations: r.Rotations, Marks: decodeMarks(r.Marks),
		Method: r.Method, PasskeyID: r.PasskeyID,
	}
	copy(s.Selector[:], r.Selector)
	copy(s.ChainKey[:], r.ChainKey)
	copy(s.Current[:], r.Current)
	if r.Proof != nil {
		s.Proof = accounts.Proof{
			Created: r.ProofCreated.time(), CredentialVersion: r.ProofVersion, EmailKey: r.ProofEmailKey, WithCode: r.ProofWithCode,
			PasskeyID: r.ProofPasskey,
		}
		copy(s.Proof.Digest[:], r.Proof)
	}
	return s
}

const markSize = 16

// encodeMarks encodes each mark as two big-endian numbers of 8 bytes: the time in
// microseconds and the count.
func encodeMarks(marks []accounts.RotationMark) []byte {
	data := make([]byte, 0, markSize*len(marks))
	for _, m := range marks {
		data = binary.BigEndian.AppendUint64(data, uint64(at(m.Time)))
		data = binary.BigEndian.AppendUint64(data, uint64(m.Count))
	}
	return data
}

func decodeMarks(data []byte) (marks []accounts.RotationMark) {
	for mark := range slices.Chunk(data[:len(data)/markSize*markSize], markSize) {
		marks = append(marks, accounts.RotationMark{
			Time:  micros(binary.BigEndian.Uint64(mark)).time(),
			Count: int64(binary.BigEndian.Uint64(mark[8:])),
		})
	}
	return marks
}

type mailTokenRow struct {
	bun.BaseModel `bun:"table:personal_mail_tokens,alias:t"`

	Digest            []byte `bun:",pk"`
	AccountID         int64
	Purpose           accounts.MailPurpose
	CredentialVersion int64
	Email, EmailKey   string
	Created, Expires  micros

	Account *accountRow `bun:"rel:belongs-to,join:account_id=id"`
}

type jobRow struct {
	bun.BaseModel `bun:"table:personal_jobs,alias:j"`

	ID              int64 `bun:",pk,autoincrement"`
	Kind            outbox.Kind
	Payload         []byte
	Created, Due    micros
	Attempts, Lease int64
	AccountID       int64 `bun:",nullzero"` // NULL: of no account
	RunsLeft        *int64
	Followed        bool `bun:",scanonly"` // only if the query asks for it
}

func (r *jobRow) job() outbox.Job {
	j := outbox.Job{
		ID: r.ID, Kind: r.Kind, Payload: r.Payload, Created: r.Created.time(), Due: r.Due.time(),
		Attempts: int(r.Attempts), Lease: r.Lease, AccountID: r.AccountID, Followed: r.Followed,
	}
	if r.RunsLeft != nil {
		j.LastAttempt = j.Attempts + int(*r.RunsLeft)
	}
	return j
}

type auditRow struct {
	bun.BaseModel `bun:"table:personal_audit"`

	ID                 int64 `bun:",pk,autoincrement"`
	EventID            string
	Type               personal.EventType
	Time               micros
	AccountID          int64 `bun:",nullzero"` // NULL: of no account, or of a deleted one
	Address, RequestID string
	Actor              personal.Actor
	ActorName          string
	ActorKey           string // in the form that searches compare
	Fields             string // the names of what was changed, separated by spaces
	Method             string
	Removed            int // see personal.Event.Count
}
