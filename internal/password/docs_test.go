package password

import (
	"encoding/hex"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// docsRows returns the cells of the table below a heading of the page, code without its marks.
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
		if !strings.HasPrefix(line, "| ") {
			continue
		}
		cells := strings.Split(strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(line), "|"), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows = append(rows, cells)
	}
	return rows[1:] // without the head
}

func TestDocs_HashesOfOtherSystems(t *testing.T) {
	rows := docsRows(t, "## Hashes of other systems")
	if len(rows) != 43 {
		t.Errorf("got %d rows, want 43", len(rows))
	}
	missing := formatNames()
	var rewritten, refused []string
	for _, row := range rows {
		hash, salt, form, result := strings.Trim(row[1], "`"), strings.Trim(row[2], "`"), strings.Trim(row[3], "`"), row[4]
		encoded, err := AdoptForm(hash, salt, form)
		got := "taken"
		if err != nil {
			got = strings.TrimPrefix(err.Error(), ErrBadHash.Error()+": ")
		}
		if got != result {
			t.Errorf("%s: got %q, the page says %q", row[0], got, result)
		}
		missing = slices.DeleteFunc(missing, func(name string) bool { return name == Name(encoded) })
		for _, format := range foreignFormats() {
			if format.pattern.MatchString(hash) {
				rewritten = append(rewritten, format.name)
			}
		}
		if got != "taken" {
			refused = append(refused, row[0])
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
	if len(refused) == 0 || len(refused) > 8 {
		t.Errorf("got %q refused", refused)
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
