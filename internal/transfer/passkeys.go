package transfer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/shared/personal"
)

// exportedPasskeys are the passkeys of an account in a line of an export.
type exportedPasskeys struct {
	UserHandle []byte            `json:"user_handle"` // identifies the account to authenticators
	Keys       []exportedPasskey `json:"keys"`        // the oldest first
}

// exportedPasskey is what a sign-in with a passkey needs, and what its user sees of it.
type exportedPasskey struct {
	CredentialID   []byte    `json:"credential_id"`
	PublicKey      []byte    `json:"public_key"` // a COSE_Key
	SignCount      uint32    `json:"sign_count"`
	BackupEligible bool      `json:"backup_eligible,omitempty"`
	BackedUp       bool      `json:"backed_up,omitempty"`
	RelyingParty   string    `json:"rp_id"`
	Name           string    `json:"name"`
	Created        time.Time `json:"created"`
	LastUsed       time.Time `json:"last_used,omitzero"`
	WithCode       bool      `json:"with_code,omitempty"` // it needs no code of the account's second factor
	Transports     []string  `json:"transports,omitempty"`
}

func exportPasskeys(a StoredAccount) *exportedPasskeys {
	if len(a.Passkeys) == 0 {
		return nil
	}
	e := &exportedPasskeys{UserHandle: a.Passkeys[0].UserHandle}
	for _, p := range a.Passkeys {
		e.Keys = append(e.Keys, exportedPasskey{
			p.CredentialID, p.PublicKey, p.SignCount, p.BackupEligible, p.BackedUp, p.RelyingParty, p.Name, p.Created, p.LastUsed,
			p.WithCode && a.TwoFactor.On(), p.Transports,
		})
	}
	return e
}

var errNoPasskeys = errors.New("passkeys: not what an export writes")

// readPasskeys reads the passkeys of a row, nil for none. withFactor says whether the row has a
// second factor: without one no passkey can stand for a code. Every deviation is an error, as in
// readFactor: a member of a later version may restrict what a passkey is good for. The errors hold
// no values.
func readPasskeys(value json.RawMessage, withFactor bool) (list []accounts.Passkey, err error) {
	if value == nil || string(value) == "null" {
		return nil, nil
	}
	var in exportedPasskeys
	if !decodeExported(value, &in) || len(in.Keys) == 0 {
		return nil, errNoPasskeys
	}
	if len(in.Keys) > personal.MaxPasskeys {
		return nil, fmt.Errorf("passkeys: an account has at most %d", personal.MaxPasskeys)
	}
	for i, k := range in.Keys {
		p := accounts.Passkey{
			RelyingParty: k.RelyingParty, Name: k.Name, Created: k.Created.UTC().Truncate(time.Microsecond), LastUsed: k.LastUsed.UTC().Truncate(time.Microsecond),
			WithCode: k.WithCode && withFactor, UserHandle: in.UserHandle,
		}
		p.CredentialID, p.PublicKey, p.SignCount, p.BackupEligible, p.BackedUp = k.CredentialID, k.PublicKey, k.SignCount, k.BackupEligible,
			k.BackedUp
		p.SetTransports(k.Transports)
		err := p.Check()
		switch {
		case err != nil:
		case !storableTime(p.Created), !p.LastUsed.IsZero() && !storableTime(p.LastUsed):
			err = errors.New("a time is missing or out of range")
		case slices.ContainsFunc(list, func(other accounts.Passkey) bool { return bytes.Equal(other.CredentialID, p.CredentialID) }):
			err = errors.New("its credential id is repeated")
		}
		if err != nil {
			return nil, fmt.Errorf("passkeys: number %d: %w", i+1, err)
		}
		list = append(list, p)
	}
	return list, nil
}

// describePasskeys describes passkeys without their keys.
func describePasskeys(list []accounts.Passkey) (described []personal.Passkey) {
	for _, p := range list {
		described = append(described, personal.Passkey{Name: p.Name, Created: p.Created, LastUsed: p.LastUsed, BackedUp: p.BackedUp})
	}
	return described
}
