package password

import "fmt"

// unusable stands in the place of a hash that cannot be taken over: no password
// opens the account until its owner has recovered one by mail.
const unusable = "!"

type unusableHash struct{ foreign }

func parseUnusable(encoded string) (stored, error) {
	if encoded != unusable {
		return nil, fmt.Errorf("%w: something follows the %s", ErrBadHash, unusable)
	}
	return unusableHash{}, nil
}

func (unusableHash) matches(string) bool { return false }
func (unusableHash) format() string      { return unusable }

// IsUnusable reports whether no password matches a stored hash.
func IsUnusable(encoded string) bool { return encoded == unusable }
