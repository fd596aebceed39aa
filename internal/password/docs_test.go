package password

import (
	"encoding/hex"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// docsRows returns the cells of the tables below a heading of the page.
func docsRows(t *testing.T, heading string) (rows [][]string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/password-hashes.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(page), heading+"\n")
	if !found {
		t.Fatalf("the page has no heading %q", heading)
	}
	section, _, _ = strings.Cut(section, "\n#")
	for line := range strings.Lines(section) {
		if strings.HasPrefix(line, "|---") {
			rows = rows[:len(rows)-1] // the head
		}
		if !strings.HasPrefix(line, "| ") {
			continue
		}
		cells := strings.Split(strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(line), "|"), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows = append(rows, cells)
	}
	return rows
}

func TestDocs_HashesOfOtherSystems(t *testing.T) {
	rows := docsRows(t, "## Hashes of other systems")
	if len(rows) != 36 {
		t.Errorf("got %d rows, want 36", len(rows))
	}
	missing := formatNames()
	var rewritten []string
	for _, row := range rows {
		row = append(row, "", "") // the first table has no salts and forms
		hash, salt, form := strings.Trim(row[1], "`"), strings.Trim(row[2], "`"), strings.Trim(row[3], "`")
		encoded, err := AdoptForm(hash, salt, form)
		if err != nil {
			t.Errorf("%s: got %v, the page says that it is taken", row[0], err)
		}
		missing = slices.DeleteFunc(missing, func(name string) bool { return name == Name(encoded) })
		for _, format := range foreignFormats() {
			if format.pattern.MatchString(hash) {
				rewritten = append(rewritten, format.name)
			}
		}
	}
	missing = slices.DeleteFunc(missing, func(name string) bool {
		return slices.Contains([]string{"Argon2i", "bcrypt with a form", "digest", "no password", "scrypt"}, name)
	})
	for _, format := range foreignFormats() { // what is the same system's or rare need not have a row
		if format.adopt != nil && !slices.Contains(rewritten, format.name) && !strings.HasPrefix(format.name, "LDAP, Dovecot") {
			missing = append(missing, format.name)
		}
	}
	if len(missing) > 0 {
		t.Errorf("without a row: %q", missing)
	}
}

// What the page says is refused, with the sentence that says what to write instead.
func TestDocs_HashesThatAreRefused(t *testing.T) {
	for _, test := range []struct{ system, hash, want string }{
		{"Joomla 1.5", "1718b1e30bf3987e092e9bf62a31b1a7:Zr8aQ",
			"digits and a salt do not say how they were made: state the form with --hash-form, such as md5(p.s) for Joomla or md5(md5(p).s) for vBulletin"},
		{"MediaWiki, wrapOldPasswords", ":pbkdf2-legacyB:!sha256:10000:128!…",
			"MediaWiki has wrapped it, which is not read: write ! instead, so that the user sets a password with a recovery mail"},
		{"vBulletin 5, as the column has it", "blowfish:10 $2y$10$…",
			"of vBulletin 5, write the token alone, with the form bcrypt(md5(p)) for the scheme blowfish; HASH:SALT with the form md5(md5(p).s) for legacy; and ! for the others"},
		{"Firebase", "lSrfV15cpx95/sZS2W9c9Kp6i/LVgQNDNC/qzrCnh1SAyZvqmZqAjTdn3aoItz+VHjoZilo78198JAdRuid5lQ==",
			"the scrypt of Firebase needs the signer key of the project: write ! instead, so that the user sets a password with a recovery mail"},
		{"ASP.NET Identity", "AQAAAAIAAYagAAAAEDAxMjM0NTY3ODlhYmNkZWYL504WkqoV4jNQA1TdldmQ8M9M+JM4baiy4qI0pStIVQ==",
			"ASP.NET Identity packs costs, salt and sum into one text: write $pbkdf2-sha512$i=ITERATIONS,l=32$SALT$SUM (before .NET 7 sha256), or !"},
		{"Flask (Werkzeug)", "scrypt:32768:8:1$saltsaltsaltsalt$87fed921912bbef25dbc6b59a6201919cc232fc4a92925d34a75673beac90fde668156541f91e6445945d083f225d4749571563c101ada0faa4fc2e9bcadafc3",
			"Werkzeug writes the sum in hexadecimal digits: write pbkdf2_sha256$ITERATIONS$SALT$SUM or scrypt$N$SALT$R$P$SUM with the sum in base64, and ! for its other methods"},
		{"PHP before 5.3.7", "$2x$05$/OK.fbVrR/bpIqNJ5ianF.CE5elHaaO4EbggVDjb8P19RukzXSM3e",
			"an implementation with a defect has made it: write ! instead, so that the user sets a password with a recovery mail"},
	} {
		if _, err := AdoptForm(test.hash, "", ""); err == nil || strings.TrimPrefix(err.Error(), ErrBadHash.Error()+": ") != test.want {
			t.Errorf("%s: got %v, want %q", test.system, err, test.want)
		}
	}
}

// The table of formats names how each stored format and each text of another system begins.
func TestDocs_FormatsAreNamed(t *testing.T) {
	var named []string
	for _, row := range docsRows(t, "## Formats") {
		named = append(named, regexp.MustCompile("`[^`]+`").FindAllString(row[1], -1)...)
	}
	for _, v := range formatVectors {
		if _, notHex := hex.DecodeString(v.hash); v.form != "" || notHex == nil { // the page says so in words
			continue
		}
		begins := func(code string) bool {
			start, _, _ := strings.Cut(strings.Trim(code, "`"), "…")
			start, _, _ = strings.Cut(start, "i=")
			return strings.HasPrefix(strings.ToLower(v.hash), strings.ToLower(start))
		}
		family := regexp.MustCompile(`\A\{(?i:S?SHA|S?MD5)(256|512)?\}`).MatchString(v.hash) // in one cell
		if !family && !slices.ContainsFunc(named, begins) {
			t.Errorf("%s: the page does not name how %.12s begins", v.source, v.hash)
		}
	}
}

// formatNames returns the names of the formats that are taken, sorted.
func formatNames() (names []string) {
	for _, f := range formats {
		if f.name != "" {
			names = append(names, f.name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
