package plugincatalogue

import (
	"bytes"
	"errors"
	"fmt"

	"aead.dev/minisign"
)

// ReadKeys reads public keys from files as minisign writes them (FILE.pub). A
// file may hold several keys, one on a line. It is an error if any file holds
// none: a mistake there must not turn the check of signatures off.
func ReadKeys(files ...string) ([]minisign.PublicKey, error) {
	var keys []minisign.PublicKey
	for _, file := range files {
		text, err := readSmall(file)
		if err != nil {
			return nil, fmt.Errorf("reading public keys: %w", err)
		}
		more, err := parseKeys(text)
		if err != nil {
			return nil, fmt.Errorf("reading public keys of %s: %w", file, err)
		}
		keys = append(keys, more...)
	}
	return keys, nil
}

// parseKeys reads one key from each line that is neither empty nor a comment. It
// never repeats a line: it might be of a secret key, given by mistake.
func parseKeys(text []byte) ([]minisign.PublicKey, error) {
	var keys []minisign.PublicKey
	number := 0
	for line := range bytes.Lines(text) {
		number++
		line = bytes.TrimSpace(line)
		if len(line) == 0 || bytes.HasPrefix(line, []byte("untrusted comment:")) {
			continue
		}
		var key minisign.PublicKey
		if err := key.UnmarshalText(line); err != nil {
			return nil, fmt.Errorf("line %d is no minisign public key", number)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, errors.New("there is no key in it")
	}
	return keys, nil
}

// keyID writes a key's ID as minisign does.
func keyID(id uint64) string { return fmt.Sprintf("%016X", id) }
