package dump

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// User is a user of a realm, as Keycloak exports it.
type User struct {
	ID               string              `json:"id"`
	Username         string              `json:"username"`
	Email            string              `json:"email"`
	EmailVerified    bool                `json:"emailVerified"`
	FirstName        string              `json:"firstName"`
	LastName         string              `json:"lastName"`
	Enabled          *bool               `json:"enabled"`
	CreatedTimestamp int64               `json:"createdTimestamp"` // milliseconds since 1970
	ServiceAccount   string              `json:"serviceAccountClientId"`
	Attributes       map[string][]string `json:"attributes"`
	RealmRoles       []string            `json:"realmRoles"`
	Credentials      []Credential        `json:"credentials"`
}

// Credential is one of the credentials of a [User]: a password if Type says so.
type Credential struct {
	Type           string `json:"type"`
	SecretData     string `json:"secretData"`     // JSON: value, salt
	CredentialData string `json:"credentialData"` // JSON: hashIterations, algorithm

	// By versions before 8:
	Value      string `json:"hashedSaltedValue"`
	Salt       string `json:"salt"`
	Iterations int    `json:"hashIterations"`
	Algorithm  string `json:"algorithm"`
}

// ReadRealm reads the users of an export of Keycloak, in whose texts U+FFFD stands for what is not UTF-8: a realm, a file with users, or a list of
// one of them. Everything else in the file is skipped. Its errors are those of take, and *[Error].
func ReadRealm(r io.Reader, take func(line int, u User) error) error {
	b := &bounded{r: r}
	d := json.NewDecoder(b)
	b.offset = d.InputOffset
	realm := realmReader{Decoder: d, file: b, take: take}
	switch begin, err := d.Token(); {
	case err != nil:
		return realm.fail(err)
	case begin == json.Delim('{'):
		if err := realm.object(); err != nil {
			return err
		}
	case begin == json.Delim('['):
		if err := realm.list(); err != nil {
			return err
		}
	default:
		return realm.fail(errNoRealm)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return realm.fail(errNoRealm)
	}
	if realm.found == 0 {
		return &Error{b.line(), "the file has no users: export the realm with them (kc.sh export --users same_file)"}
	}
	return nil
}

var errNoRealm = errors.New("neither a realm nor a list of one")

// realmReader reads the tokens of an export.
type realmReader struct {
	*json.Decoder
	file  *bounded
	take  func(line int, u User) error
	found int // lists of users
}

// fail returns an error that holds no value of the export.
func (r *realmReader) fail(err error) error {
	var known *Error
	var wrongType *json.UnmarshalTypeError
	switch line := r.file.line(); {
	case errors.As(err, &known):
		return known
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return &Error{line, "the export is cut off"}
	case errors.As(err, &wrongType):
		return &Error{line, fmt.Sprintf("this is no export of a realm: a user's %s is of another type", wrongType.Field)}
	default:
		return &Error{line, "this is no export of a realm"}
	}
}

// list reads a list of realms after its bracket.
func (r *realmReader) list() error {
	for {
		switch begin, err := r.Token(); {
		case err != nil:
			return r.fail(err)
		case begin == json.Delim(']'):
			return nil
		case begin != json.Delim('{'):
			return r.fail(errNoRealm)
		}
		if err := r.object(); err != nil {
			return err
		}
	}
}

// object reads a realm after its brace.
func (r *realmReader) object() error {
	for {
		key, err := r.Token()
		if err != nil {
			return r.fail(err)
		}
		if key == json.Delim('}') {
			return nil
		}
		value, err := r.Token()
		if err != nil {
			return r.fail(err)
		}
		switch {
		case key == "users" && value == json.Delim('['):
			err = r.users()
		case value == json.Delim('['), value == json.Delim('{'):
			err = r.skip()
		}
		if err != nil {
			return err
		}
	}
}

// users reads a list of users after its bracket.
func (r *realmReader) users() error {
	if r.found++; r.found > 1 {
		return &Error{r.file.line(), "the file has the users of several realms: export one"}
	}
	for r.More() {
		var u User
		line := r.file.line()
		if err := r.Decode(&u); err != nil {
			return r.fail(err)
		}
		if err := r.take(line, u); err != nil {
			return err
		}
	}
	if _, err := r.Token(); err != nil {
		return r.fail(err)
	}
	return nil
}

// skip skips the rest of an object or a list.
func (r *realmReader) skip() error {
	for depth := 1; depth > 0; {
		token, err := r.Token()
		if err != nil {
			return r.fail(err)
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
	}
	return nil
}

// bounded is what a decoder reads: it ends with an error if the decoder would have to keep too
// much, and knows the line that the decoder has reached.
type bounded struct {
	r      io.Reader
	offset func() int64 // that the decoder has reached
	read   int64
	depth  depth
	passed int     // lines up to that offset
	breaks []int64 // offsets of the line breaks after it
}

// Read implements [io.Reader].
func (b *bounded) Read(p []byte) (int, error) {
	line := b.line()
	if b.read-b.offset() > MaxRow {
		return 0, &Error{line, fmt.Sprintf("a value, or a user, is longer than %d bytes", MaxRow)}
	}
	n, err := b.r.Read(p[:min(len(p), 64<<10)])
	for i, c := range p[:n] {
		if c == '\n' {
			b.breaks = append(b.breaks, b.read+int64(i))
		}
	}
	b.read += int64(n)
	if b.depth.exceeds(p[:n]) {
		return 0, &Error{line, fmt.Sprintf("from here on, objects and lists are nested more than %d levels deep", MaxDepth)}
	}
	return n, err
}

// line returns the line that the decoder has reached.
func (b *bounded) line() int {
	n := 0
	for n < len(b.breaks) && b.breaks[n] < b.offset() {
		n++
	}
	b.passed += n
	b.breaks = b.breaks[n:]
	return b.passed + 1
}
