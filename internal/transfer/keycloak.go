package transfer

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cms-personal/personal/internal/transfer/dump"
)

// readRealm reads an export of Keycloak.
func (w *stager) readRealm(file io.Reader) error {
	p, err := w.prefix("")
	if err != nil {
		return err
	}
	if p == nil {
		return errors.New("--prefix: an export of Keycloak has no tables")
	}
	if p.users, err = w.table("users_0", w.system.staged()); err != nil {
		return err
	}
	return dump.ReadRealm(file, func(line int, u dump.User) error {
		if u.ServiceAccount != "" {
			w.Other++
			return nil
		}
		u.ID = cmp.Or(u.ID, u.Username) // a realm written by hand has no ids
		row := []any{u.ID, u.Username, u.Email, u.FirstName, u.LastName, strconv.FormatBool(u.Enabled == nil || *u.Enabled),
			strconv.FormatBool(u.EmailVerified), nil, realmHash(u)}
		if u.CreatedTimestamp > 0 {
			row[7] = time.UnixMilli(u.CreatedTimestamp).UTC().Format(time.RFC3339Nano)
		}
		for _, role := range u.RealmRoles {
			if err := w.attribute(p, line, judged(u.ID).Text, []byte(roles), judged(role), false); err != nil {
				return err
			}
		}
		for key, values := range u.Attributes {
			for _, value := range values {
				if err := w.attribute(p, line, judged(u.ID).Text, judged(key).Text, judged(value), false); err != nil {
					return err
				}
			}
		}
		for i := range row {
			if text, ok := row[i].(string); ok {
				row[i] = cell(judged(text))
			}
		}
		return w.add(p.users, line, row...)
	})
}

// realmHash returns the hash of a user's password in the PHC string format; "" if the user has
// none.
func realmHash(u dump.User) string {
	for _, c := range u.Credentials {
		if c.Type != "password" {
			continue
		}
		var secret struct{ Value, Salt string }
		data := struct {
			HashIterations       int
			Algorithm            string
			AdditionalParameters map[string][]string
		}{c.Iterations, c.Algorithm, nil}
		if json.Unmarshal([]byte(c.SecretData), &secret) != nil || json.Unmarshal([]byte(c.CredentialData), &data) != nil {
			secret.Value, secret.Salt = c.Value, c.Salt
		}
		raw := func(text string) string {
			bytes, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				return "?" // is refused as no hash
			}
			return base64.RawStdEncoding.EncodeToString(bytes)
		}
		first := func(name string) string { return strings.Join(data.AdditionalParameters[name], "") }
		switch name := data.Algorithm; name {
		case "":
			if secret.Value == "" || secret.Salt == "" { // a password in plain text: the user sets another one
				return ""
			}
			return "keycloak: no algorithm"
		case "bcrypt": // of a common extension
			return secret.Value
		case "argon2":
			return fmt.Sprintf("$argon2%s$v=19$m=%s,t=%d,p=%s$%s$%s",
				first("type"), first("memory"), data.HashIterations, first("parallelism"), raw(secret.Salt), raw(secret.Value))
		case "pbkdf2", "pbkdf2-sha256", "pbkdf2-sha512":
			if name == "pbkdf2" {
				name = "pbkdf2-sha1"
			}
			return fmt.Sprintf("$%s$i=%d$%s$%s", name, data.HashIterations, raw(secret.Salt), raw(secret.Value))
		default:
			return "keycloak:" + name
		}
	}
	return ""
}

// judged returns a value of an export. One with U+FFFD is bad: whether the file has that, or what is not UTF-8, the
// text is lost.
func judged(text string) dump.Value {
	if strings.ContainsRune(text, utf8.RuneError) {
		return dump.Value{Bad: "not UTF-8"}
	}
	return dump.Judge([]byte(text))
}
