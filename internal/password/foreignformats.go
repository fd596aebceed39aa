package password

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// foreignFormat is a way in which other systems write a hash.
type foreignFormat struct {
	name    string
	pattern *regexp.Regexp
	adopt   func(parts []string) (hash string, ok bool)
	refusal string
}

// foreignFormats lists what other systems write that is stored in another form: a pattern of the whole
// text, and the hash to adopt instead. A pattern with a refusal says why the hash cannot be taken and
// what to do. The formats in which hashes are stored are in formats.go.
//
// The patterns are compiled at the first import, not at each start of the plugin.
var foreignFormats = sync.OnceValue(func() []foreignFormat {
	return []foreignFormat{
		{"MD5", whole(`([0-9A-Fa-f]{32})`), plainMD5, ""},
		{"Django Argon2", whole(`argon2(\$argon2id?\$v=.*)`), first, ""},
		{"Django bcrypt", whole(`bcrypt\$(\$2[aby]\$.*)`), first, ""},
		{"Django MD5", whole(`md5\$([^$]*)\$([0-9a-f]{32})`), salted("md5"), ""},
		{"Django SHA-1", whole(`sha1\$([^$]*)\$([0-9a-f]{40})`), salted("sha1"), ""},
		{"passlib PBKDF2", whole(`\$pbkdf2(-sha256|-sha512|-sha1|)\$([0-9]{1,7})\$([A-Za-z0-9./]*)\$([A-Za-z0-9./]+)`), func(p []string) (string, bool) {
			return pbkdf2Text(orSHA1(p[1]), p[2], strings.ReplaceAll(p[3], ".", "+"), strings.ReplaceAll(p[4], ".", "+"))
		}, ""},
		{"PBKDF2", whole(`\$pbkdf2(-sha256|-sha512|-sha1|)\$i=([0-9]{1,7})(?:,l=[0-9]+)?\$([A-Za-z0-9+/=]+)\$([A-Za-z0-9+/=]+)`), func(p []string) (string, bool) {
			return pbkdf2Text(orSHA1(p[1]), p[2], p[3], p[4])
		}, ""},
		{"MediaWiki PBKDF2", whole(`:pbkdf2:(sha1|sha256|sha512):([0-9]{1,7}):[0-9]+:([A-Za-z0-9+/=]+):([A-Za-z0-9+/=]+)`), func(p []string) (string, bool) {
			return pbkdf2Text("-"+p[1], p[2], p[3], p[4])
		}, ""},
		{"MediaWiki A", whole(`:A:([0-9a-f]{32})`), plainMD5, ""},
		{"MediaWiki B", whole(`:[AB]:([^:]*):([0-9a-f]{32})`), func(p []string) (string, bool) { return newDigest("md5(s.-.md5(p))", p[1], p[2]), true }, ""},
		{"MediaWiki bcrypt", whole(`:bcrypt:([0-9]{1,2})\$([./A-Za-z0-9]{22})\$([./A-Za-z0-9]{31})`), func(p []string) (string, bool) {
			return fmt.Sprintf("$2y$%02s$%s%s", p[1], p[2], p[3]), true
		}, ""},
		{"MediaWiki Argon2", whole(`:argon2:(\$argon2id?\$.*)`), first, ""},
		{"phpBB 3.1, combined", whole(`\$H\\(2[aby])\$([./0-9A-Za-z])([./0-9A-Za-z]{8})\$([0-9]{2})\\([./A-Za-z0-9]{22})\$([./A-Za-z0-9]{31})`), func(p []string) (string, bool) {
			return phpBBPrefix[:len(phpBBPrefix)-1] + "$" + p[1] + "$" + p[4] + "$" + p[2] + "$" + p[3] + p[5] + p[6], true
		}, ""},
		{"LDAP, Dovecot and Spring", whole(`\{(?i:CRYPT|MD5-CRYPT|SHA256-CRYPT|SHA512-CRYPT|BLF-CRYPT|BCRYPT|ARGON2|ARGON2ID?)\}(\$.*)`), first, ""},
		{"Joomla", whole(`\{(SHA256)\}([0-9a-f]{64}):(.+)`), func(p []string) (string, bool) { return newDigest("sha256(p.s)", p[3], p[2]), true }, ""},
		{"LDAP in hexadecimal digits", whole(`\{(?i:S?MD5|S?SHA|S?SHA256|S?SHA512)\}[0-9A-Fa-f]+`), nil,
			"the sum is in hexadecimal digits: write sum and salt in base64, or the digits alone with --hash-form, such as sha1(p.s)"},
		{"LDAP", whole(`\{((?i)S?MD5|S?SHA|S?SHA256|S?SHA512)\}([A-Za-z0-9+/]+=*)`), ldap, ""},

		{"bcrypt with a defect", whole(`\$2x\$.*`), nil,
			"an implementation with a defect has made it: write ! instead, so that the user sets a password with a recovery mail"},
		{"Werkzeug", whole(`(?:pbkdf2:sha(?:1|256|512)(?::[0-9]+)?|scrypt:[0-9]+:[0-9]+:[0-9]+|(?:md5|sha1|sha224|sha256|sha384|sha512))\$[^$]*\$[0-9a-f]+`), nil,
			"Werkzeug writes the sum in hexadecimal digits: write pbkdf2_sha256$ITERATIONS$SALT$SUM or scrypt$N$SALT$R$P$SUM with the sum in base64, and ! for its other methods"},
		{"vBulletin 5", whole(`(?:blowfish|argon2id?|legacy):.*`), nil,
			"of vBulletin 5, write the token alone, with the form bcrypt(md5(p)) for the scheme blowfish; HASH:SALT with the form md5(md5(p).s) for legacy; and ! for the others"},
		{"DES crypt", whole(`(?:crypt\$[^$]*\$|\{CRYPT\})?[./0-9A-Za-z]{13}`), nil,
			"DES crypt uses eight characters of a password and can be broken: write ! instead, so that the user sets a password with a recovery mail"},
		{"Apache MD5", whole(`\$apr1\$.*`), nil, "an MD5 crypt of Apache's is not read: write ! instead, so that the user sets a password with a recovery mail"},
		{"yescrypt", whole(`\$(?:y|gy|7)\$.*`), nil, "yescrypt is not read: write ! instead, so that the user sets a password with a recovery mail"},
		{"MediaWiki, layered", whole(`:pbkdf2-legacy[AB]:.*`), nil,
			"MediaWiki has wrapped it, which is not read: write ! instead, so that the user sets a password with a recovery mail"},
		{"MySQL", whole(`\*[0-9A-Fa-f]{40}`), nil,
			"the password of a database user is no hash of an account: write ! instead, so that the user sets a password with a recovery mail"},
		{"a salted digest", whole(`[0-9A-Fa-f]{32,128}:.+`), nil,
			"digits and a salt do not say how they were made: state the form with --hash-form, such as md5(p.s) for Joomla or md5(md5(p).s) for vBulletin"},
		{"a digest", whole(`[0-9A-Fa-f]{40}|[0-9A-Fa-f]{64}|[0-9A-Fa-f]{128}`), nil,
			"digits do not say how they were made: state the form with --hash-form, such as sha1(p)"},
		{"ASP.NET Identity", whole(`AQAAAA[A-Za-z0-9+/]{60,170}={0,2}|A[A-Za-z0-9+/]{65}==`), nil,
			"ASP.NET Identity packs costs, salt and sum into one text: write $pbkdf2-sha512$i=ITERATIONS,l=32$SALT$SUM (before .NET 7 sha256), or !"},
		{"Firebase", whole(`[A-Za-z0-9+/_-]{86}={0,2}`), nil,
			"the scrypt of Firebase needs the signer key of the project: write ! instead, so that the user sets a password with a recovery mail"},
	}
})

func whole(pattern string) *regexp.Regexp { return regexp.MustCompile(`\A(?:` + pattern + `)\z`) }

func first(parts []string) (string, bool) { return parts[1], true }

func plainMD5(parts []string) (string, bool) { return newDigest(md5Form, "", parts[1]), true }

// salted returns a function for the salt and then the digits of a salt before the password.
func salted(name string) func([]string) (string, bool) {
	return func(p []string) (string, bool) {
		if p[1] == "" {
			return newDigest(name+"(p)", "", p[2]), true
		}
		return newDigest(name+"(s.p)", p[1], p[2]), true
	}
}

func orSHA1(digest string) string {
	if digest == "" {
		return "-sha1"
	}
	return digest
}

// pbkdf2Text returns the stored form of a PBKDF2 whose salt and sum are in base64, padded or not.
func pbkdf2Text(digest, iterations, salt, sum string) (string, bool) {
	s, saltErr := base64.RawStdEncoding.DecodeString(strings.TrimRight(salt, "="))
	k, sumErr := base64.RawStdEncoding.DecodeString(strings.TrimRight(sum, "="))
	encode := base64.RawStdEncoding.EncodeToString
	return fmt.Sprintf("$pbkdf2%s$i=%s,l=%d$%s$%s", digest, iterations, len(k), encode(s), encode(k)), saltErr == nil && sumErr == nil
}

// ldap converts a userPassword (RFC 2307): the sum, and in those that begin with S the salt after it.
func ldap(parts []string) (string, bool) {
	scheme := strings.ToLower(parts[1])
	name := strings.TrimPrefix(scheme, "s")
	isSalted := name != scheme
	if strings.HasPrefix(name, "ha") { // sha, sha256, sha512
		name, isSalted = "s"+name, false
	}
	if name == "sha" {
		name = "sha1"
	}
	data, err := base64.StdEncoding.DecodeString(parts[2])
	size := digests[name].new().Size()
	if err != nil || len(data) < size || isSalted != (len(data) > size) {
		return "", false
	}
	form := name + "(p)"
	if isSalted {
		form = name + "(p.s)"
	}
	return newDigest(form, string(data[size:]), hex.EncodeToString(data[:size])), true
}

// Adopt checks a hash that another system made and returns the form to store. A weak hash waits to be
// wrapped (see [IsBare]). A hash that begins with ! is unusable (see [IsUnusable]). A hash in the form to
// store is returned unchanged. The error is [ErrBadHash] with the reason, and what to do if hashes of
// that system cannot be taken; it has no part of the hash.
func Adopt(foreign string) (encoded string, err error) {
	if foreign == AwaitsRecovery {
		return foreign, nil
	}
	if strings.HasPrefix(foreign, Unusable) { // Django appends random letters
		return Unusable, nil
	}
	if encoded, err = rewrite(foreign); err != nil {
		return "", err
	}
	s, err := parse(encoded)
	switch {
	case err != nil:
		return "", err
	case s.weak() && !IsBare(encoded):
		return Adopt(waitingPrefix + encoded)
	}
	return encoded, nil
}

// rewrite returns the hash to adopt instead of a text in the list, other texts unchanged.
func rewrite(foreign string) (string, error) {
	if len(foreign) > maxEncoded {
		return "", fmt.Errorf("%w: too long", ErrBadHash)
	}
	for _, f := range foreignFormats() {
		parts := f.pattern.FindStringSubmatch(foreign)
		if parts == nil {
			continue
		}
		if f.adopt == nil {
			return "", fmt.Errorf("%w: %s", ErrBadHash, f.refusal)
		}
		hash, ok := f.adopt(parts)
		if !ok {
			return "", fmt.Errorf("%w: not a hash of %s", ErrBadHash, f.name)
		}
		if hash != foreign { // without a prefix it may be another text of the list
			return rewrite(hash)
		}
		break
	}
	return foreign, nil
}

// AdoptForm is Adopt for a hash that does not say how it was made, of hexadecimal digits or a bcrypt. The form
// does, such as md5(p.s) or bcrypt(s.p), where p is the password and s the salt; or it begins the PBKDF2 that the digits are the
// sum of, such as $pbkdf2-sha256$i=600000,l=32$ for Discourse. If salt is "", the salt may follow the digits after a colon.
//
// A form concerns only digits of its length, or bcrypts. For any other hash, and for an empty form, AdoptForm is
// Adopt, so that one form can be given for a file of several formats; a salt is then ignored if the
// hash has its own.
func AdoptForm(hash, salt, formText string) (encoded string, err error) {
	if strings.HasPrefix(formText, "bcrypt(") && bcryptForm.MatchString(hash) {
		return Adopt(bcryptOfPrefix + formText + "$" + base64.RawStdEncoding.EncodeToString([]byte(salt)) + hash)
	}
	digits, salt := cutSalt(hash, salt)
	sum, notHex := hex.DecodeString(digits)
	if notHex != nil || len(sum) < minKeyBytes {
		return Adopt(hash)
	}
	if salt != "" {
		hash = digits + ":" + salt
	}
	if formText == "" {
		return Adopt(hash)
	}
	pbkdf2, size, err := parseAnyForm(formText)
	switch {
	case err != nil:
		return "", err
	case len(sum) != size:
		return Adopt(hash)
	case pbkdf2 == "":
		return Adopt(newDigest(formText, salt, digits))
	case salt == "":
		return "", fmt.Errorf("%w: the salt of the PBKDF2 is missing", ErrBadHash)
	}
	encode := base64.RawStdEncoding.EncodeToString
	return Adopt(pbkdf2 + encode([]byte(salt)) + "$" + encode(sum))
}

// FormDigits returns the number of hexadecimal digits that a form concerns, 0 for one of bcrypts. The error is [ErrBadHash] with
// the reason if AdoptForm does not take the form.
func FormDigits(formText string) (int, error) {
	_, size, err := parseAnyForm(formText)
	return 2 * size, err
}

var pbkdf2Start = whole(`\$?pbkdf2-(sha1|sha256|sha512)\$i=([0-9]{1,7})(?:,l=([0-9]{1,3}))?\$?`)

// parseAnyForm returns the number of bytes of the digits that a form concerns, and for a PBKDF2, which
// has the size of its digest unless l= states one, the start of the stored hash. The error is [ErrBadHash].
func parseAnyForm(text string) (pbkdf2 string, size int, err error) {
	if strings.HasPrefix(text, "bcrypt(") {
		_, err := parseBcryptForm(text)
		return "", 0, err
	}
	parts := pbkdf2Start.FindStringSubmatch(text)
	if parts == nil {
		f, err := parseForm(text)
		if err != nil {
			return "", 0, err
		}
		return "", f.outer.new().Size(), nil
	}
	if size, err = strconv.Atoi(parts[3]); err != nil {
		size = digests[parts[1]].new().Size()
	}
	pbkdf2 = fmt.Sprintf("$pbkdf2-%s$i=%s,l=%d$", parts[1], parts[2], size)
	_, err = parseUnsummed(pbkdf2 + zeroSalt + "$")
	return pbkdf2, size, err
}
