package store

import (
	"encoding/binary"
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

type accountRow struct {
	bun.BaseModel `bun:"table:personal_accounts,alias:a"`

	ID                int64 `bun:",pk,autoincrement"`
	Login, LoginKey   string
	Name              *string
	Email             string
	EmailKey          string `bun:",nullzero"` // unique, but several accounts may have none
	PasswordHash      string
	CredentialVersion int64
	Fields            string
	Disabled          bool
	Created, Updated  micros
	LastSeen          micros `bun:",scanonly"` // of its sessions, where a query asks for it
}

func newAccountRow(a accounts.Account) (accountRow, error) {
	fields, err := a.Fields.Encode()
	if err != nil {
		return accountRow{}, err
	}
	return accountRow{
		Login: a.Login, LoginKey: a.LoginKey, Name: a.Name,
		Email: a.Email.Address, EmailKey: a.Email.Key,
		PasswordHash: a.PasswordHash, CredentialVersion: a.CredentialVersion,
		Fields: string(fields), Disabled: a.Disabled,
		Created: at(a.Created), Updated: at(a.Updated),
	}, nil
}

func (r *accountRow) account() (accounts.Account, error) {
	fields, err := userfields.DecodeValues([]byte(r.Fields))
	return accounts.Account{
		ID: r.ID, Login: r.Login, LoginKey: r.LoginKey, Name: r.Name,
		Email:        accounts.Email{Address: r.Email, Key: r.EmailKey},
		PasswordHash: r.PasswordHash, CredentialVersion: r.CredentialVersion,
		Fields: fields, Disabled: r.Disabled,
		Created: r.Created.time(), Updated: r.Updated.time(),
	}, err
}

func (r *accountRow) seen() (accounts.SeenAccount, error) {
	a, err := r.account()
	return accounts.SeenAccount{Account: a, LastSeen: r.LastSeen.time()}, err
}

type sessionRow struct {
	bun.BaseModel `bun:"table:personal_sessions,alias:s"`

	ID                               int64 `bun:",pk,autoincrement"`
	AccountID                        int64
	Selector, ChainKey, Newest       []byte
	Created, Rotated, Used, LastSeen micros
	Address, Agent                   string
	Rotations                        int64
	Marks                            []byte // see encodeMarks

	Account *accountRow `bun:"rel:belongs-to,join:account_id=id"`
}

func newSessionRow(s accounts.Session) sessionRow {
	return sessionRow{
		ID: s.ID, AccountID: s.AccountID,
		Selector: s.Selector[:], ChainKey: s.ChainKey[:], Newest: s.Newest[:],
		Created: at(s.Created), Rotated: at(s.Rotated), Used: at(s.Used), LastSeen: at(s.LastSeen),
		Address: s.Address, Agent: s.Agent,
		Rotations: s.Rotations, Marks: encodeMarks(s.Marks),
	}
}

// encodeMarks writes each mark as two numbers of 8 bytes, big-endian: the time in
// microseconds and the count.
func encodeMarks(marks []accounts.RotationMark) []byte {
	data := make([]byte, 0, markSize*len(marks))
	for _, m := range marks {
		data = binary.BigEndian.AppendUint64(data, uint64(at(m.Time)))
		data = binary.BigEndian.AppendUint64(data, uint64(m.Count))
	}
	return data
}

const markSize = 16

func decodeMarks(data []byte) (marks []accounts.RotationMark) {
	for mark := range slices.Chunk(data[:len(data)/markSize*markSize], markSize) {
		marks = append(marks, accounts.RotationMark{
			Time:  micros(binary.BigEndian.Uint64(mark)).time(),
			Count: int64(binary.BigEndian.Uint64(mark[8:])),
		})
	}
	return marks
}

func (r *sessionRow) session() accounts.Session {
	s := accounts.Session{
		ID: r.ID, AccountID: r.AccountID,
		Created: r.Created.time(), Rotated: r.Rotated.time(), Used: r.Used.time(), LastSeen: r.LastSeen.time(),
		Address: r.Address, Agent: r.Agent,
		Rotations: r.Rotations, Marks: decodeMarks(r.Marks),
	}
	copy(s.Selector[:], r.Selector)
	copy(s.ChainKey[:], r.ChainKey)
	copy(s.Newest[:], r.Newest)
	return s
}

type mailTokenRow struct {
	bun.BaseModel `bun:"table:personal_mail_tokens,alias:t"`

	Digest            []byte `bun:",pk"`
	AccountID         int64
	Purpose           accounts.MailPurpose
	CredentialVersion int64
	Email, EmailKey   string
	Expires           micros

	Account *accountRow `bun:"rel:belongs-to,join:account_id=id"`
}

type jobRow struct {
	bun.BaseModel `bun:"table:personal_jobs,alias:j"`

	ID              int64 `bun:",pk,autoincrement"`
	Kind            outbox.Kind
	Payload         []byte
	Created, Due    micros
	Attempts, Lease int64
	AccountID       int64 `bun:",nullzero"` // NULL: nobody's
}

type auditRow struct {
	bun.BaseModel `bun:"table:personal_audit"`

	ID                 int64 `bun:",pk,autoincrement"`
	EventID            string
	Type               personal.EventType
	Time               micros
	AccountID          int64 `bun:",nullzero"` // NULL: nobody's, or that of an account that is gone
	Address, RequestID string
	Actor              personal.Actor // "": written by version 0.1.0
	ActorName          string
}

func (r *jobRow) job() outbox.Job {
	return outbox.Job{
		ID: r.ID, Kind: r.Kind, Payload: r.Payload, Created: r.Created.time(),
		Attempts: int(r.Attempts), Lease: r.Lease, Account: r.AccountID,
	}
}
