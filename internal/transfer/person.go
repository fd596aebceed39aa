package transfer

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/cms-personal/personal/internal/accounts"
)

// PersonSource is what the export of one person's data reads.
type PersonSource interface {
	FindAccount(ctx context.Context, q accounts.AccountQuery) (accounts.LoginAccount, error)
	Account(ctx context.Context, id int64) (accounts.SeenAccount, error)
	Sessions(ctx context.Context, accountID int64, l accounts.Lifetimes) ([]accounts.Session, error)
	// Traces returns what else is kept of an account, in the order of time.
	Traces(ctx context.Context, accountID int64) (Traces, error)
	AuditSource
}

// Traces are what an account leaves with its use, besides sessions and events.
type Traces struct {
	Places    []Place    `json:"places"`
	Mails     []SentMail `json:"mails"`
	NewEmails []NewEmail `json:"new_emails"`
}

// Place is an address, or a network, where the account's owner has signed in.
type Place struct {
	Place    string    `json:"place"`
	LastSeen time.Time `json:"last_seen"` // to the day
}

// SentMail is a mail that counts towards the limit of mails.
type SentMail struct {
	Purpose accounts.MailPurpose `json:"purpose"`
	Sent    time.Time            `json:"sent"`
}

// NewEmail is an address that has been mailed to be confirmed.
type NewEmail struct {
	Email   string    `json:"email"`
	Expires time.Time `json:"expires"` // until when it can be confirmed
}

// person is what is kept of one person, for that person: without the hash. What
// happened to the account follows as "events", too many maybe to hold at once.
type person struct {
	exported
	Sessions []exportedSession `json:"sessions"`
	Traces
}

type exportedSession struct {
	Created  time.Time `json:"created"`
	LastSeen time.Time `json:"last_seen"`
	Address  string    `json:"address,omitempty"`
	Agent    string    `json:"agent,omitempty"`
}

// ExportPerson writes what is kept of one person, found by login, e-mail or id.
// accounts.ErrNotFound.
func ExportPerson(ctx context.Context, from PersonSource, who string, w io.Writer) error {
	a, err := find(ctx, from, who)
	if err != nil {
		return err
	}
	a.PasswordHash = ""
	line, err := export(a)
	if err != nil {
		return err
	}
	data := person{exported: line, Sessions: []exportedSession{}}
	sessions, err := from.Sessions(ctx, a.ID, accounts.Lifetimes{})
	if err != nil {
		return fmt.Errorf("reading sessions: %w", err)
	}
	for _, s := range sessions {
		data.Sessions = append(data.Sessions, exportedSession{s.Created, s.LastSeen, s.Address, s.Agent})
	}
	if data.Traces, err = from.Traces(ctx, a.ID); err != nil {
		return fmt.Errorf("reading places and mails: %w", err)
	}
	out := bufio.NewWriter(w)
	if err := writePerson(ctx, from, data, out); err != nil {
		return err
	}
	if err := out.Flush(); err != nil { // it holds the first error of writing, too
		return fmt.Errorf("writing an account: %w", err)
	}
	return nil
}

// writePerson writes one JSON object. Its last member, the events, is read and
// written page by page.
func writePerson(ctx context.Context, from PersonSource, data person, out *bufio.Writer) error {
	var object bytes.Buffer
	encoder := newEncoder(&object)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(data); err != nil {
		return fmt.Errorf("writing an account: %w", err)
	}
	out.Write(bytes.TrimSuffix(object.Bytes(), []byte("\n}\n")))
	out.WriteString(",\n  \"events\": [")
	separator := "\n    "
	err := eachAuditLine(ctx, from, data.ID, AuditLine{}, func(event AuditLine) error {
		event = event.forTheUser()
		event.UserID = 0 // said above
		line, err := json.Marshal(event)
		out.WriteString(separator)
		out.Write(line)
		separator = ",\n    "
		return err
	})
	if err != nil {
		return fmt.Errorf("writing events: %w", err)
	}
	out.WriteString("\n  ]\n}\n")
	return nil
}

// find takes a text with an @ for an e-mail first, and for a login if no account
// has it; a number for a login first, and then for an id.
func find(ctx context.Context, from PersonSource, who string) (accounts.Account, error) {
	q := accounts.AccountQuery{LoginKey: who} // one that has an @ and is not its account's e-mail
	if key, fault := accounts.LoginKey(who); fault == "" {
		q.LoginKey = key
	}
	a, err := accounts.LoginAccount{}, accounts.ErrNotFound
	if email, fault := accounts.ParseEmail(who); fault == "" {
		q.LoginKey = email.Key
		a, err = from.FindAccount(ctx, accounts.AccountQuery{EmailKey: email.Key})
	}
	if errors.Is(err, accounts.ErrNotFound) {
		a, err = from.FindAccount(ctx, q)
	}
	if id, notID := strconv.ParseInt(who, 10, 64); errors.Is(err, accounts.ErrNotFound) && notID == nil {
		a.ID, err = id, nil
	}
	var seen accounts.SeenAccount
	if err == nil {
		seen, err = from.Account(ctx, a.ID)
	}
	if err != nil {
		return accounts.Account{}, fmt.Errorf("finding the account: %w", err)
	}
	return seen.Account, nil
}
