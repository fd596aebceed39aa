package password

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/unicode/norm"
)

// maxForms is how many forms of a password are compared with one hash. Only a password with quotes, with white
// space at an end, and with letters of several charsets has more; those that are last in the list are left out.
const maxForms = 6

// alterations lists what other systems have hashed in place of a password, without the white space at its ends.
// Each is tried for every hash that is not like new ones, so that the work reveals nothing about an account.
var alterations = []func(string) string{
	// What most systems trim: Drupal's UserLoginForm and PasswordConfirm, Joomla's JRequest up to 2.5, and those below.
	func(p string) string { return p },
	// WordPress's wp_magic_quotes changes $_POST, which edit_user, reset_password and wp_signon do not undo. SMF 1.1, and
	// PHP's magic_quotes_gpc before 5.4.
	addSlashes,
	// phpBB 3: htmlspecialchars with ENT_COMPAT in type_cast_helper::set_var.
	strings.NewReplacer("&", "&amp;", `"`, "&quot;", "<", "&lt;", ">", "&gt;").Replace,
	// What browsers send from a page in ISO-8859-1, which is windows-1252 to them (WHATWG Encoding, "html" error mode).
	inWindows1252,
	// vBulletin to 4: str_to_ent and str2binl of vbulletin_md5.js.
	inLatin1OfJavaScript,
	// phpBB 2: see md5_phpbb2::check of phpBB 3.
	func(p string) string { return inWindows1252(addSlashes(p)) },
	// As browsers send it from a page in windows-1251, but only what that charset has.
	func(p string) string {
		bytes, _ := charmap.Windows1251.NewEncoder().String(p)
		return bytes // "" if there is a letter that it lacks
	},
}

var addSlashes = strings.NewReplacer(`\`, `\\`, `'`, `\'`, `"`, `\"`, "\x00", `\0`).Replace

// inWindows1252 encodes a text in windows-1252, with decimal character references for what that charset lacks.
func inWindows1252(text string) string {
	bytes, _ := encoding.HTMLEscapeUnsupported(charmap.Windows1252.NewEncoder()).String(text)
	return bytes
}

// inLatin1OfJavaScript encodes a text in ISO-8859-1, with character references for other units of UTF-16.
func inLatin1OfJavaScript(text string) string {
	var bytes []byte
	for _, unit := range utf16.Encode([]rune(text)) {
		if unit < 1<<8 {
			bytes = append(bytes, byte(unit))
		} else {
			bytes = fmt.Appendf(bytes, "&#%d;", unit)
		}
	}
	return string(bytes)
}

// trimPHP is PHP's trim.
func trimPHP(s string) string { return strings.Trim(s, " \n\r\t\v\x00") }

// forms returns what a hash may have been made of if the right password was entered: the canonical form, of which all
// our hashes are, and the bytes as entered. For a foreign hash they are followed by what other systems made of
// them. All are different; there are none if the password is too long or empty.
func forms(entered string, foreign bool) (all []string) {
	add := func(form string) {
		if form != "" && len(form) <= maxRawBytes && len(all) < maxForms && !slices.Contains(all, form) {
			all = append(all, form)
		}
	}
	if prepared, ok := Canonical(entered); ok {
		add(prepared)
	}
	add(entered)
	if !foreign || len(entered) > maxRawBytes || !utf8.ValidString(entered) {
		return all
	}
	trimmed := trimPHP(norm.NFC.String(entered))
	for _, alter := range alterations {
		add(alter(trimmed))
	}
	return all
}
