package transfer

import (
	"strings"
	"unicode/utf8"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/shared/personal"
)

// Logins says what becomes of a login that the rules of this module refuse.
type Logins string

// What becomes of such a login. Logins that another account has are always refused.
const (
	KeepLogins    Logins = "keep"    // the user is refused
	ProposeLogins Logins = "propose" // the user gets a login that is made of it
	EmailLogins   Logins = "email"   // the user gets the e-mail as login
)

// choose returns the logins that a user may have, of which they get the first that is free. They are
// the same whenever it is called.
func (l Logins) choose(login, email, id string) []string {
	switch {
	case validLogin(login, email):
	case l == ProposeLogins:
		if list := proposeLogins(login, id); len(list) > 0 {
			return list
		}
	case l == EmailLogins && email != "":
		return []string{email}
	}
	return []string{login}
}

// validLogin reports whether the user may have the login.
func validLogin(login, email string) bool {
	login, email = personal.Typed(login), personal.Typed(email)
	if !strings.Contains(login, "@") {
		_, code := accounts.LoginKey(login)
		return code == ""
	}
	parsed, code := accounts.ParseEmail(login)
	own, ownCode := accounts.ParseEmail(email)
	return code == "" && ownCode == "" && parsed.Key == own.Key
}

// proposeLogins returns valid logins that resemble one that is not: white space and characters
// that no login can have become one underscore, and what is taken, too short or mixes scripts gets, or
// is replaced by, the id in the other system.
func proposeLogins(login, id string) (list []string) {
	const most = 64 // characters of a login
	var text strings.Builder
	for _, r := range login {
		if _, code := accounts.LoginKey(strings.Repeat(string(r), 3)); code == "" {
			text.WriteRune(r)
		} else if !strings.HasSuffix(text.String(), "_") {
			text.WriteByte('_')
		}
	}
	base := strings.Trim(text.String(), "_")
	cut := func(n int) string { return string([]rune(base)[:max(0, min(utf8.RuneCountInString(base), n))]) }
	for _, proposal := range []string{cut(most), cut(most-len("_")-len(id)) + "_" + id, "user_" + id} {
		if validLogin(proposal, "") {
			list = append(list, proposal)
		}
	}
	return list
}
