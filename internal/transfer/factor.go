package transfer

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/shared/personal"
)

// Factor is the second factor of an account as the database has it.
type Factor struct {
	AccountID int64
	accounts.TwoFactor
	RecoveryCodes [][32]byte // digests of the unused ones
}

// exportedFactor is the second factor of an account in a line of an export.
type exportedFactor struct {
	AccountID     int64    `json:"account_id"` // the secret is encrypted for this account
	Key           string   `json:"key"`        // the id of the key that decrypts it
	Secret        []byte   `json:"secret"`
	LastStep      int64    `json:"last_step"`
	RecoveryCodes [][]byte `json:"recovery_codes,omitempty"`
}

func exportFactor(a StoredAccount) *exportedFactor {
	if !a.TwoFactor.On() {
		return nil
	}
	f := &exportedFactor{AccountID: a.ID, Key: a.TwoFactor.Secret.Key, Secret: a.TwoFactor.Secret.Data, LastStep: a.TwoFactor.Step}
	for _, digest := range a.RecoveryCodes {
		f.RecoveryCodes = append(f.RecoveryCodes, digest[:])
	}
	return f
}

var errNoFactor = errors.New("two_factor: not what an export writes")

// decodeExported decodes what only exports write, and reports whether it has nothing else.
func decodeExported(value json.RawMessage, into any) bool {
	d := json.NewDecoder(bytes.NewReader(value))
	d.DisallowUnknownFields()
	return d.Decode(into) == nil
}

// importedFactor is the second factor of a row.
type importedFactor struct {
	Factor
	secret []byte // decrypted, if it can be imported
}

// readFactor reads the second factor of a row; nil for none. Every deviation is an error,
// even a member that a later version may write: an account must not lose its factor.
func readFactor(value json.RawMessage) (*importedFactor, error) {
	if value == nil || string(value) == "null" {
		return nil, nil
	}
	var in exportedFactor
	if !decodeExported(value, &in) || in.AccountID < 1 || in.AccountID > maxID || in.Key == "" || len(in.Secret) == 0 ||
		in.LastStep < 0 || in.LastStep > maxID || len(in.RecoveryCodes) > personal.MaxRecoveryCodes {
		return nil, errNoFactor
	}
	var f importedFactor
	f.AccountID, f.Secret, f.Step = in.AccountID, accounts.Sealed{Key: in.Key, Data: in.Secret}, in.LastStep
	for _, digest := range in.RecoveryCodes {
		if len(digest) != sha256.Size || slices.Contains(f.RecoveryCodes, [sha256.Size]byte(digest)) {
			return nil, errNoFactor
		}
		f.RecoveryCodes = append(f.RecoveryCodes, [sha256.Size]byte(digest))
	}
	return &f, nil
}

// openFactor decrypts the secret of a factor, or returns why its account
// cannot be imported.
func (m *Import) openFactor(f *importedFactor) (refused string) {
	if !m.Keys.Has(f.Secret.Key) {
		return fmt.Sprintf("two_factor: the key %.40q encrypts the secret: give the file that has this key with --secret-key", f.Secret.Key)
	}
	var err error
	if f.secret, err = m.Keys.Open(f.AccountID, f.Secret.Key, f.Secret.Data); err != nil {
		return fmt.Sprintf("two_factor: the secret is damaged, or not that of account %d: export the account again", f.AccountID)
	}
	return ""
}

// factorFor returns an opened factor for the account with the given id. Unless the secret
// is encrypted for this id with the first key, it is encrypted again: the plugin of the
// database may not have the other keys.
func (m *Import) factorFor(id int64, f importedFactor) Factor {
	if f.AccountID != id || f.Secret.Key != m.Keys.Primary() {
		f.AccountID = id
		f.Secret.Key, f.Secret.Data = m.Keys.Seal(id, f.secret)
	}
	return f.Factor
}
