package password

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// digest is a hash function by the name that forms have for it.
type digest struct {
	name string
	new  func() hash.Hash
}

// digests lists the hash functions of forms, and of PBKDF2.
var digests = map[string]digest{
	"md5":    {"md5", md5.New},
	"sha1":   {"sha1", sha1.New},
	"sha256": {"sha256", sha256.New},
	"sha512": {"sha512", sha512.New},
}

// hex returns the lower-case hexadecimal digits of a sum.
func (d digest) hex(text string) string {
	h := d.new()
	h.Write([]byte(text))
	return hex.EncodeToString(h.Sum(nil))
}

// form says how a digest was made of the password and the salt: md5(p), sha1(s.p),
// md5(md5(p).s). p is the password, s the salt, - itself, a dot joins texts, and the digest
// of a text is its lower-case hexadecimal digits.
type form struct {
	outer digest
	of    func(password, salt string) string // the text that outer is applied to
	salts bool                               // has an s
}

func (f form) sum(password, salt string) string { return f.outer.hex(f.of(password, salt)) }

// The limits of a form, which bound its work.
const (
	maxFormLength  = 64
	maxFormDigests = 6
)

// parseForm parses a form. Its errors are [ErrBadHash].
func parseForm(text string) (form, error) {
	p := formParser{rest: text}
	if len(text) > maxFormLength {
		return form{}, p.bad()
	}
	f, err := p.digest()
	if err != nil || p.rest != "" || !p.password {
		return form{}, p.bad()
	}
	f.salts = p.salt
	return f, nil
}

type formParser struct {
	rest           string
	digests        int
	password, salt bool // p and s were seen
}

func (*formParser) bad() error {
	return fmt.Errorf("%w: the form is not like md5(p.s), sha1(s.p) or md5(md5(p).s), of md5, sha1, sha256 and sha512", ErrBadHash)
}

// take removes a text that the rest begins with.
func (p *formParser) take(text string) (ok bool) {
	p.rest, ok = strings.CutPrefix(p.rest, text)
	return ok
}

func (p *formParser) digest() (f form, err error) {
	name, _, _ := strings.Cut(p.rest, "(")
	d, known := digests[name]
	if p.digests++; !known || p.digests > maxFormDigests || !p.take(name+"(") {
		return f, p.bad()
	}
	var parts []func(password, salt string) string
	for {
		part, err := p.term()
		if err != nil {
			return f, err
		}
		if parts = append(parts, part); !p.take(".") {
			break
		}
	}
	if !p.take(")") {
		return f, p.bad()
	}
	return form{outer: d, of: func(password, salt string) string {
		var text strings.Builder
		for _, part := range parts {
			text.WriteString(part(password, salt))
		}
		return text.String()
	}}, nil
}

func (p *formParser) term() (func(password, salt string) string, error) {
	switch {
	case p.take("p"):
		p.password = true
		return func(password, _ string) string { return password }, nil
	case p.take("-"):
		return func(string, string) string { return "-" }, nil
	case strings.HasPrefix(p.rest, "s") && !strings.HasPrefix(p.rest, "sha"):
		p.take("s")
		p.salt = true
		return func(_, salt string) string { return salt }, nil
	}
	f, err := p.digest()
	return f.sum, err
}

// digestPrefix begins a stored digest: $digest$FORM$SALT$DIGITS, the salt in unpadded base64.
const digestPrefix = "$digest$"

// md5Form is that of 32 digits without a form.
const md5Form = "md5(p)"

// digestWork is that of a digest, see stored: next to an Argon2id it is none.
const digestWork = 1

// maxDigestSalt is the maximum length of a salt, in bytes.
const maxDigestSalt = 128

var digestForm = regexp.MustCompile(`\A\$digest\$([a-z0-9().-]+)\$([A-Za-z0-9+/]*)\$([0-9a-f]+)?\z`)

// newDigest returns the text of a digest, of hexadecimal digits in either case.
func newDigest(form, salt, digits string) string {
	return digestPrefix + form + "$" + base64.RawStdEncoding.EncodeToString([]byte(salt)) + "$" + strings.ToLower(digits)
}

func parseDigest(encoded string) (stored, error) {
	parts := digestForm.FindStringSubmatch(encoded)
	if parts == nil {
		return stored{}, fmt.Errorf("%w: not a digest", ErrBadHash)
	}
	f, err := parseForm(parts[1])
	if err != nil {
		return stored{}, err
	}
	salt, err := f.salt(parts[1], parts[2])
	switch {
	case err != nil:
		return stored{}, err
	case parts[3] != "" && len(parts[3]) != hex.EncodedLen(f.outer.new().Size()):
		return stored{}, fmt.Errorf("%w: the digest does not have the length of a %s", ErrBadHash, f.outer.name)
	}
	s := summed(encoded, 0, len(encoded)-len(parts[3]), digestWork, func(password string) string { return f.sum(password, salt) })
	s.class = newDigest(md5Form, "", "") // form and salt matter little beside an Argon2
	if s.name = parts[1]; s.name == md5Form {
		s.name = "MD5"
	}
	return s, nil
}

// salt decodes the salt of a stored hash with the form, which has a name.
func (f form) salt(name, text string) (string, error) {
	salt, err := base64.RawStdEncoding.Strict().DecodeString(text)
	switch {
	case err != nil || len(salt) > maxDigestSalt:
		return "", fmt.Errorf("%w: the salt is too long", ErrBadHash)
	case !f.salts && len(salt) > 0:
		return "", fmt.Errorf("%w: there is a salt, and the form %s has none (s)", ErrBadHash, name)
	case f.salts && len(salt) == 0:
		return "", fmt.Errorf("%w: the salt of the form %s is missing", ErrBadHash, name)
	}
	return string(salt), nil
}

// bcryptOfPrefix begins a bcrypt of something else than the password: $bcrypt-of$FORM$SALT and the bcrypt, the salt in
// unpadded base64. In the form, such as bcrypt(s.p), the outer function is bcrypt.
const bcryptOfPrefix = "$bcrypt-of$"

var bcryptOfForm = regexp.MustCompile(`\A\$bcrypt-of\$(bcrypt\([a-z0-9().-]+)\$([A-Za-z0-9+/]*)(\$2[aby]\$.+)\z`)

func parseBcryptOf(encoded string) (stored, error) {
	parts := bcryptOfForm.FindStringSubmatch(encoded)
	if parts == nil {
		return stored{}, fmt.Errorf("%w: not a bcrypt with a form", ErrBadHash)
	}
	f, err := parseBcryptForm(parts[1])
	if err != nil {
		return stored{}, err
	}
	salt, err := f.salt(parts[1], parts[2])
	if err != nil {
		return stored{}, err
	}
	s, err := parseBcrypt(parts[3])
	inner := s.matches
	s.name, s.class = parts[1], bcryptOfPrefix+"bcrypt(p)$"+s.class // form and salt matter little beside a bcrypt
	s.matches = func(password string) bool { return inner(f.of(password, salt)) }
	return s, err
}

// parseBcryptForm parses a form whose outer function is bcrypt, but for that function.
func parseBcryptForm(text string) (form, error) {
	return parseForm("md5" + strings.TrimPrefix(text, "bcrypt"))
}

// knownForms are the forms that systems have used, for each digest; H stands for it.
var knownForms = []string{
	"H(p)", "H(p.s)", "H(s.p)", "H(H(p))", "H(H(p).s)", "H(s.H(p))", "H(s.-.H(p))", "H(H(s).H(p))", "H(H(p).H(s))",
	"H(s.H(s.p))", "H(s.H(s.H(p)))", "H(p.s.p)", "H(s.p.s)", "H(H(s.p))", "H(H(p.s))", "H(H(H(p)))",
}

// MatchForms returns the forms, as [AdoptForm] takes them, in which a digest of hexadecimal digits
// matches a password. The salt may be "", or part of the hash (DIGITS:SALT). It tries the forms
// that systems are known to have used, nested and salted ones too, of every digest of that length and
// of a shorter one within, and what other systems made of the password.
func MatchForms(hash, salt, password string) (matching []string) {
	digits, salt := cutSalt(hash, salt)
	passwords := forms(password, true)
	digits = strings.ToLower(digits)
	for _, outer := range slices.Sorted(maps.Keys(digests)) {
		if len(digits) != hex.EncodedLen(digests[outer].new().Size()) {
			continue
		}
		for _, inner := range slices.Sorted(maps.Keys(digests)) {
			for _, known := range knownForms {
				text := outer + strings.ReplaceAll(known[1:], "H", inner)
				f, err := parseForm(text)
				matches := func(password string) bool { return equal(f.sum(password, salt), digits) }
				if err == nil && f.salts == (salt != "") && slices.ContainsFunc(passwords, matches) && !slices.Contains(matching, text) {
					matching = append(matching, text)
				}
			}
		}
	}
	return matching
}

// cutSalt splits DIGITS:SALT if there is no other salt.
func cutSalt(hash, salt string) (digits, theSalt string) {
	if digits, after, ok := strings.Cut(hash, ":"); ok && salt == "" {
		return digits, after
	}
	return hash, salt
}
