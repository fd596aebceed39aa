package transfer

import (
	"bytes"
	"encoding/json"
	"errors"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/passkey"
)

// Passkeys are those of an account, without void ones.
type Passkeys struct {
	AccountID  int64
	UserHandle []byte // which the authenticators keep, too
	Keys       []accounts.Passkey
}

// exportedPasskeys are the passkeys of an account in a line of an export.
type exportedPasskeys struct {
	UserHandle []byte            `json:"user_handle"`
	Keys       []exportedPasskey `json:"keys"`
}

type exportedPasskey struct {
	CredentialID   []byte    `json:"credential_id"`
	PublicKey      []byte    `json:"public_key"` // a COSE_Key
	SignCount      uint32    `json:"sign_count"`
	BackupEligible bool      `json:"backup_eligible"`
	BackedUp       bool      `json:"backed_up"`
	RelyingParty   string    `json:"rp_id"`
	Name           string    `json:"name"`
	Created        time.Time `json:"created"`
	LastUsed       time.Time `json:"last_used,omitzero"`
	WithCode       bool      `json:"with_code,omitempty"` // it needs no code of the second factor
}

func exportPasskeys(p Passkeys) *exportedPasskeys {
	if len(p.Keys) == 0 {
		return nil
	}
	out := &exportedPasskeys{UserHandle: p.UserHandle}
	for _, k := range p.Keys {
		out.Keys = append(out.Keys, exportedPasskey{
			k.CredentialID, k.PublicKey, k.SignCount, k.BackupEligible, k.BackedUp, k.RelyingParty, k.Name, k.Created, k.LastUsed, k.WithCode,
		})
	}
	return out
}

// The limits of passkeys (HTTP contract, passkeys_add_confirm; WebAuthn).
const (
	maxPasskeys     = 20
	maxPasskeyName  = 64
	maxCredentialID = 1023
	maxPublicKey    = 2048
	maxUserHandle   = 64
	maxDomain       = 253
)

var errNoPasskeys = errors.New("passkeys: not what an export writes")

// readPasskeys reads the passkeys of a row. Every deviation is an error, as with a second
// factor. Without a factor none stands for a code.
func readPasskeys(value json.RawMessage, factor bool) (p Passkeys, err error) {
	if value == nil || string(value) == "null" {
		return p, nil
	}
	var in exportedPasskeys
	d := json.NewDecoder(bytes.NewReader(value))
	d.DisallowUnknownFields()
	if d.Decode(&in) != nil || !between(len(in.UserHandle), 1, maxUserHandle) || !between(len(in.Keys), 1, maxPasskeys) {
		return p, errNoPasskeys
	}
	seen := map[string]bool{}
	for _, k := range in.Keys {
		if !between(len(k.CredentialID), 1, maxCredentialID) || seen[string(k.CredentialID)] || !between(len(k.PublicKey), 1, maxPublicKey) ||
			!between(len(k.RelyingParty), 1, maxDomain) || !isPasskeyName(k.Name) || k.Created.IsZero() {
			return p, errNoPasskeys
		}
		seen[string(k.CredentialID)] = true
		p.Keys = append(p.Keys, accounts.Passkey{
			Key: passkey.Key{
				CredentialID: k.CredentialID, PublicKey: k.PublicKey, SignCount: k.SignCount,
				BackupEligible: k.BackupEligible, BackedUp: k.BackedUp,
			},
			RelyingParty: k.RelyingParty, Name: k.Name, Created: k.Created, LastUsed: k.LastUsed, WithCode: k.WithCode && factor,
		})
	}
	p.UserHandle = in.UserHandle
	return p, nil
}

func between(n, least, most int) bool { return n >= least && n <= most }

func isPasskeyName(name string) bool {
	for _, r := range name {
		if unicode.IsControl(r) {
			return false
		}
	}
	return between(utf8.RuneCountInString(name), 1, maxPasskeyName)
}

// passkeysFor returns the passkeys for the added account with the given id.
func passkeysFor(id, credentialVersion int64, p Passkeys) Passkeys {
	p.AccountID = id
	for i := range p.Keys {
		p.Keys[i].AccountID, p.Keys[i].CredentialVersion = id, credentialVersion
	}
	return p
}
