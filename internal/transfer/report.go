package transfer

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/password"
	"github.com/cms-personal/personal/shared/userfields"
)

// Report says what becomes of the rows of an import. The JSON is stable. It names no user and holds
// no value of the file.
type Report struct {
	System   string `json:"system,omitempty"`
	Imported int64  `json:"imported"`
	Existing int64  `json:"existing"`
	Refused  int64  `json:"refused"`
	NotUsers int64  `json:"not_users,omitempty"` // rows of a dump that are no users, such as the system's own
	Renamed  int64  `json:"renamed,omitempty"`   // imported with another login
	Doubled  int64  `json:"doubled,omitempty"`   // rows with texts whose UTF-8 seems to have been encoded twice, see [Import]
	Escaped  int64  `json:"escaped,omitempty"`   // rows of a file with texts that are HTML

	// A text of these rows, what was meant, and the line; "": there is none.
	DoubledExample, EscapedExample string `json:"-"`

	EndUnmarked bool `json:"end_unmarked,omitempty"` // of a dump: nothing shows that it is not cut off

	SignIn []FormatCount `json:"sign_in"`        // imported users who can sign in with their password, by the format of its hash
	Cannot []Reason      `json:"cannot_sign_in"` // those who cannot, and refused rows, by reason

	LeftOut []Reason `json:"left_out,omitempty"` // values of imported rows, by column and reason

	Fields    []FieldUse `json:"fields,omitempty"`    // of a dump: what becomes of each field
	Proposals []string   `json:"proposals,omitempty"` // values of --map, if none is given

	Digits []DigitCount `json:"digits,omitempty"` // hashes, also of refused rows, that are digits and do not say how they were made
	Probed string       `json:"probed,omitempty"` // the form of digits that a user's password has shown
}

// FormatCount is a number of hashes with a format.
type FormatCount struct {
	Format string `json:"format"`
	Users  int64  `json:"users"`
}

// Reason is why users cannot sign in with their password.
type Reason struct {
	Reason  string `json:"reason"`
	Refused bool   `json:"refused"` // the rows are not imported
	Users   int64  `json:"users"`
	Lines   []int  `json:"lines"` // the first ones
}

// FieldUse says what a field of the other system becomes.
type FieldUse struct {
	Theirs string `json:"theirs"`
	Ours   string `json:"ours,omitempty"`   // "": it is not imported
	Values int64  `json:"values,omitempty"` // how many users have it, of an attribute
}

// DigitCount is a number of hashes of that many hexadecimal digits.
type DigitCount struct {
	Length int    `json:"length"`
	Users  int64  `json:"users"`
	Form   string `json:"form,omitempty"` // that was stated or probed; "": 32 digits are taken as the MD5 of the password, others are refused
}

// bareMD5 reports whether nothing says that the hashes are the MD5 of a password, as which they are taken.
func (d DigitCount) bareMD5() bool { return d.Form == "" && d.Length == 32 }

// The limits of a report.
const (
	maxReasons = 100
	maxLines   = 20 // of a reason
)

// imported counts an imported account.
func (r *Report) imported(a accounts.Account, row origin) {
	r.Imported++
	r.digits(row)
	r.texts(row)
	if row.renamed != "" {
		r.Renamed++
	}
	for column, reason := range row.left {
		addReason(&r.LeftOut, shown(column)+": "+reason, false, row.line)
	}
	unusable, format := password.IsUnusable(a.PasswordHash), password.Name(a.PasswordHash)
	switch {
	case a.Disabled:
		r.reason("the account is disabled", false, row.line)
	case unusable:
		r.reason("no password hash: the user sets a password with a recovery mail", false, row.line)
	default:
		count(&r.SignIn, format)
	}
}

// texts counts a row with texts that are not what was meant.
func (r *Report) texts(row origin) {
	count := func(found string, n *int64, example *string) {
		if found == "" {
			return
		}
		if *n++; *n == 1 {
			*example = fmt.Sprintf("%s in line %d", found, row.line)
		}
	}
	count(row.doubled, &r.Doubled, &r.DoubledExample)
	count(row.escaped, &r.Escaped, &r.EscapedExample)
}

// owner is the part of a reason that differs from row to row.
var owner = regexp.MustCompile(`account \d+`)

// refused counts a refused row.
func (r *Report) refused(of refusal) {
	r.Refused++
	r.digits(of.row)
	r.texts(of.row)
	r.reason(owner.ReplaceAllString(of.kind, "an existing account"), true, of.row.line)
}

// digits counts the hash of a row if it does not say how it was made. A form holds for digits of
// its length.
func (r *Report) digits(row origin) {
	if row.digits == 0 {
		return
	}
	form := row.form
	if n, err := password.FormDigits(form); err != nil || n != row.digits {
		form = ""
	}
	i := slices.IndexFunc(r.Digits, func(d DigitCount) bool { return d.Length == row.digits && d.Form == form })
	if i < 0 && len(r.Digits) == maxReasons {
		return
	}
	if i < 0 {
		i = len(r.Digits)
		r.Digits = append(r.Digits, DigitCount{Length: row.digits, Form: form})
	}
	r.Digits[i].Users++
}

// Unproven returns how many hashes were taken as the MD5 of a password although nothing says so.
func (r *Report) Unproven() int64 {
	for _, d := range r.Digits {
		if d.bareMD5() {
			return d.Users
		}
	}
	return 0
}

func (r *Report) reason(text string, refused bool, line int) {
	addReason(&r.Cannot, text, refused, line)
}

func addReason(list *[]Reason, text string, refused bool, line int) {
	i := slices.IndexFunc(*list, func(o Reason) bool { return o.Reason == text })
	if i < 0 && len(*list) == maxReasons {
		i = maxReasons - 1
		(*list)[i].Reason = "other reasons"
	} else if i < 0 {
		i = len(*list)
		*list = append(*list, Reason{Reason: text, Refused: refused})
	}
	of := &(*list)[i]
	if of.Users++; len(of.Lines) < maxLines && !slices.Contains(of.Lines, line) {
		of.Lines = append(of.Lines, line)
	}
}

func count(list *[]FormatCount, format string) {
	i := slices.IndexFunc(*list, func(c FormatCount) bool { return c.Format == format })
	if i < 0 {
		i = len(*list)
		*list = append(*list, FormatCount{Format: format})
	}
	(*list)[i].Users++
}

// Users returns how many users the file has.
func (r *Report) Users() int64 { return r.Imported + r.Existing + r.Refused }

// compareCounts orders by count, the highest first, and then by name.
func compareCounts(n, m int64, a, b string) int { return cmp.Or(cmp.Compare(m, n), cmp.Compare(a, b)) }

// Finish completes a report. staged is nil for a file that is no dump.
func (r *Report) Finish(done Progress, staged *Staged, schema *userfields.Schema) {
	r.Existing = done.Existing
	byCount := func(a, b FormatCount) int { return compareCounts(a.Users, b.Users, a.Format, b.Format) }
	slices.SortFunc(r.SignIn, byCount)
	for _, list := range [][]Reason{r.Cannot, r.LeftOut} {
		slices.SortFunc(list, func(a, b Reason) int { return compareCounts(a.Users, b.Users, a.Reason, b.Reason) })
	}
	if staged == nil {
		return
	}
	r.System, r.NotUsers, r.EndUnmarked = staged.system.name, staged.Other, !staged.Marked
	r.Fields = staged.uses()
	if len(staged.move.Fields) == 0 {
		r.Proposals = staged.proposals(schema)
	}
}

// uses says what becomes of the fields of the other system.
func (s *Staged) uses() (list []FieldUse) {
	used := map[string]bool{}
	for _, c := range s.system.columns {
		sources := s.system.sources(c)
		for _, name := range sources {
			used[name] = true
		}
		if c.ours != columnID || !s.move.NewIDs {
			list = append(list, FieldUse{Theirs: strings.Join(sources, ", "), Ours: c.ours, Values: s.Keys[sources[0]]})
		}
	}
	for _, f := range s.move.Fields {
		used[f.Theirs] = true
		list = append(list, FieldUse{Theirs: theirName(f.Theirs), Ours: f.Ours, Values: s.Keys[f.Theirs]})
	}
	mapsRoles := slices.ContainsFunc(s.move.Fields, func(f Mapped) bool { return s.system.isRole(f.Theirs) })
	for _, name := range s.sources() {
		if !used[name] && !(mapsRoles && (name == theirName(roles) || s.system.isRole(name))) {
			list = append(list, FieldUse{Theirs: name, Values: s.Keys[name]})
		}
	}
	return list
}

// proposals returns values of --map for fields with the name of a user field. They differ at most in
// letter case, punctuation, and a prefix.
func (s *Staged) proposals(schema *userfields.Schema) (list []string) {
	plain := func(name string) string {
		return strings.Map(func(r rune) rune {
			if strings.ContainsRune("_-. ", r) {
				return -1
			}
			return r
		}, strings.ToLower(name))
	}
	sources := append(s.system.staged(), slices.Sorted(maps.Keys(s.Keys))...)
	for _, f := range schema.Fields() {
		for _, theirs := range sources {
			name := theirs
			for _, prefix := range []string{"field_", "profile.", "user_"} {
				name = strings.TrimPrefix(name, prefix)
			}
			if plain(name) == plain(f.Name) && shown(theirs) == theirs {
				list = append(list, theirs+"="+f.Name)
				break
			}
		}
	}
	return list
}

// Write writes the report as text.
func (r *Report) Write(w io.Writer) error {
	var text strings.Builder
	section := func(title string, n int) bool {
		if n > 0 {
			fmt.Fprintf(&text, "\n%s\n", title)
		}
		return n > 0
	}
	formats := func(title string, list []FormatCount) {
		if section(title, len(list)) {
			for _, c := range list {
				fmt.Fprintf(&text, "%9d  %s\n", c.Users, c.Format)
			}
		}
	}
	reasons := func(title string, list []Reason) {
		if !section(title, len(list)) {
			return
		}
		for _, c := range list {
			refused, more, where := "", "", "line"
			if c.Refused {
				refused = "refused: "
			}
			if int64(len(c.Lines)) < c.Users {
				more = ", …"
			}
			if c.Users > 1 {
				where = "lines"
			}
			lines := strings.ReplaceAll(strings.Trim(fmt.Sprint(c.Lines), "[]"), " ", ", ")
			fmt.Fprintf(&text, "%9d  %s%s (%s %s%s)\n", c.Users, refused, c.Reason, where, lines, more)
		}
	}
	formats("can sign in with their password, by the format of its hash", r.SignIn)
	reasons("cannot, by reason", r.Cannot)
	reasons("values that were left out, by field", r.LeftOut)
	if section("fields", len(r.Fields)) {
		var unused []string
		for _, f := range r.Fields {
			if f.Ours == "" {
				unused = append(unused, f.Theirs)
			} else {
				fmt.Fprintf(&text, "%18s = %s\n", f.Ours, f.Theirs)
			}
		}
		if len(unused) > 0 {
			fmt.Fprintf(&text, "      not imported: %s\n", strings.Join(unused, ", "))
		}
	}
	if section("proposed", len(r.Proposals)) {
		for _, p := range r.Proposals {
			fmt.Fprintf(&text, "           --map %s\n", p)
		}
	}
	if section("hashes of hexadecimal digits", len(r.Digits)) {
		for _, d := range r.Digits {
			form := d.Form
			switch {
			case d.bareMD5():
				form = "taken as md5(p), which no password has shown"
			case form == "":
				form = "no form was stated"
			case form == r.Probed:
				form += ", as a password has shown"
			}
			fmt.Fprintf(&text, "%9d  of %d digits: %s\n", d.Users, d.Length, form)
		}
	}
	if r.EndUnmarked {
		fmt.Fprintf(&text, "\nthe end of the dump\n  was not marked: compare the number of users (%d) with the other system\n", r.Users())
	}
	var others []string
	for _, o := range []struct {
		n    int64
		what string
	}{{r.Renamed, "have another login"}, {r.Doubled, "had doubled UTF-8"}, {r.Escaped, "had HTML"}, {r.NotUsers, "rows of the system are no users"}} {
		if o.n > 0 {
			others = append(others, fmt.Sprintf("%9d  %s\n", o.n, o.what))
		}
	}
	if section("besides", len(others)) {
		text.WriteString(strings.Join(others, ""))
	}
	_, err := io.WriteString(w, text.String())
	return err
}
