package transfer

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	"github.com/cms-personal/personal/internal/accounts"
)

// exportPage is how many accounts are in memory at once.
const exportPage = 1000

// Source is what an export reads.
type Source interface {
	// AccountsAfter returns up to n accounts with ids above the given one, the
	// lowest first.
	AccountsAfter(ctx context.Context, id int64, n int) ([]accounts.Account, error)
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
	Fields       json.RawMessage `json:"fields,omitempty"`
}

// Export writes every account as NDJSON, hashes included, in the order of ids,
// and returns how many. Accounts that change meanwhile are written as they were
// or as they are.
func Export(ctx context.Context, from Source, w io.Writer) (n int64, err error) {
	out := bufio.NewWriter(w)
	encoder := newEncoder(out)
	for after := int64(0); ; {
		page, err := from.AccountsAfter(ctx, after, exportPage)
		if err != nil {
			return n, fmt.Errorf("reading accounts: %w", err)
		}
		for _, a := range page {
			line, err := export(a)
			if err != nil {
				return n, err
			}
			if err := encoder.Encode(line); err != nil {
				return n, fmt.Errorf("writing an account: %w", err)
			}
			after = a.ID
			n++
		}
		if len(page) < exportPage {
			break
		}
	}
	if err := out.Flush(); err != nil {
		return n, fmt.Errorf("writing accounts: %w", err)
	}
	return n, nil
}

func newEncoder(w io.Writer) *json.Encoder {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e
}

func export(a accounts.Account) (line exported, err error) {
	for name, v := range a.Fields {
		if p, err := plain(v); err == nil { // else it is written as it was stored
			a.Fields[name] = p
		}
	}
	line = exported{
		ID: a.ID, Login: a.Login, Email: a.Email.Address, Name: a.Name, PasswordHash: a.PasswordHash,
		Disabled: a.Disabled, Created: a.Created, Updated: a.Updated,
	}
	if len(a.Fields) > 0 {
		if line.Fields, err = a.Fields.Encode(); err != nil {
			return line, fmt.Errorf("writing the account %d: %w", a.ID, err)
		}
	}
	return line, nil
}

var errNotPlain = errors.New("not a value of a user field")

// plain returns a stored value as one of the kinds that user fields have. A
// database may write numbers in another way than they were stored: what is an
// integer of the contract is always one here, and every other number a float64.
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
			return nil, errNotPlain
		}
		return f, nil
	}
	return v, nil
}
