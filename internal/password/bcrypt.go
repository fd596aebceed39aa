package password

import (
	"fmt"
	"regexp"
	"strconv"

	"golang.org/x/crypto/bcrypt"
)

// maxBcryptCost is the logarithm of the most rounds; 15 take about two seconds.
const maxBcryptCost = 15

var bcryptForm = regexp.MustCompile(`\A\$2[aby]\$([0-9]{2})\$[./A-Za-z0-9]{53}\z`)

// bcryptHash is a bcrypt in the modular crypt format. As in the originals, what
// follows the 72nd byte of a password does not count.
type bcryptHash struct {
	foreign
	encoded string
}

func parseBcrypt(encoded string) (stored, error) {
	h, err := readBcrypt(encoded)
	if err != nil {
		return nil, err
	}
	return h, nil
}

func readBcrypt(encoded string) (bcryptHash, error) {
	parts := bcryptForm.FindStringSubmatch(encoded)
	if parts == nil {
		return bcryptHash{}, fmt.Errorf("%w: not a bcrypt", ErrBadHash)
	}
	cost, err := strconv.Atoi(parts[1])
	if err != nil || cost < bcrypt.MinCost || cost > maxBcryptCost {
		return bcryptHash{}, fmt.Errorf("%w: cost is not in %d … %d", ErrBadHash, bcrypt.MinCost, maxBcryptCost)
	}
	return bcryptHash{encoded: encoded}, nil
}

func (h bcryptHash) format() string { return h.encoded[:len("$2y$12$")] }

func (h bcryptHash) matches(password string) bool {
	return bcrypt.CompareHashAndPassword([]byte(h.encoded), []byte(password)) == nil
}
