package transfer

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/text/language"

	"github.com/cms-personal/personal/internal/password"
	"github.com/cms-personal/personal/shared/personal"
)

// records implements [Input]: the users of the dump, in its order.
func (s *Staged) records(ctx context.Context, m *Import) (records, error) {
	of := func(select1 string) string {
		return "(SELECT " + select1 + " FROM attributes WHERE user = users." + s.system.required[0] + " AND key = ?)"
	}
	const one = "value" // the first, because SQLite takes the first row
	text, args := "SELECT line, "+s.system.required[0], []any(nil)
	for _, c := range s.system.columns {
		theirs := c.theirs
		if key, ok := attributeOf(theirs); ok {
			theirs, args = of(one), append(args, key)
		} else {
			theirs = s.system.guarded(c)
		}
		text += ", " + theirs
	}
	for _, f := range s.move.Fields {
		switch {
		case slices.Contains(s.system.staged(), f.Theirs):
			text += ", users." + f.Theirs
		case s.lists[f.Ours] || s.system.isRole(f.Theirs):
			text += ", CASE WHEN coalesce(" + of("sum(length(value))") + ", 0) > " + strconv.Itoa(maxRecord) + " THEN '[' ELSE " +
				"coalesce(" + of("max(CASE WHEN typeof(value) = 'blob' THEN value END)") + ", " + // SQLite makes no JSON of it
				of("nullif(json_group_array(value), '[]')") + ") END" // SQLite would build a list of any length; [ is refused
			args = append(args, f.Theirs, f.Theirs, f.Theirs)
		default:
			text, args = text+", "+of(one), append(args, f.Theirs)
		}
	}
	rows, err := s.db.QueryContext(ctx, text+" FROM users WHERE "+s.system.isUser()+" ORDER BY users.rowid", args...)
	if err != nil {
		return nil, fmt.Errorf("reading the users of the dump: %w", err)
	}
	r := &stagedRecords{Staged: s, form: cmp.Or(m.HashForm, s.system.form), mend: m.MendUTF8, rows: rows, values: make([]stagedValue, 1+len(s.system.columns)+len(s.move.Fields))}
	r.into = []any{&r.line}
	for i := range r.values {
		r.into = append(r.into, &r.values[i])
	}
	return r, nil
}

// guarded returns the expression of a column so that it is bad if one of the columns that it reads is:
// they are blobs, which the expression would compare and join with texts.
func (s *system) guarded(c column) string {
	text := "CASE"
	for _, name := range s.sources(c) {
		if name == c.theirs {
			return name
		}
		text += " WHEN typeof(" + name + ") = 'blob' THEN " + name
	}
	return text + " ELSE " + c.theirs + " END"
}

func attributeOf(theirs string) (key string, ok bool) {
	key, ok = strings.CutPrefix(theirs, "{")
	return strings.TrimSuffix(key, "}"), ok
}

// stagedRecords are the users of a dump as the records of an import. Their offsets are numbers
// of users.
type stagedRecords struct {
	*Staged
	form   string // of hashes that are digits and a salt
	mend   bool   // see record.mend
	rows   *sql.Rows
	n      int64
	line   int
	values []stagedValue // the id, the columns, the fields
	into   []any
}

// stagedValue is a value of the query: a text, or the reason why it is bad.
type stagedValue struct{ text, bad string }

// Scan implements [sql.Scanner].
func (v *stagedValue) Scan(value any) error {
	*v = stagedValue{}
	switch value := value.(type) {
	case nil:
	case string:
		v.text = value
	case []byte:
		v.bad = string(value)
	case int64: // a condition
		v.text = strconv.FormatInt(value, 10)
	default:
		return fmt.Errorf("a %T", value)
	}
	return nil
}

func (r *stagedRecords) next() (record, error) {
	if !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return record{}, fmt.Errorf("reading the users of the dump: %w", err)
		}
		return record{}, io.EOF
	}
	if err := r.rows.Scan(r.into...); err != nil {
		return record{}, fmt.Errorf("reading the users of the dump: %w", err)
	}
	r.n++
	id := r.values[0].text
	rec := record{line: r.line, end: r.n, columns: make(map[string]personal.Input, len(r.values)), fields: map[string]personal.Input{}}
	if id != "" {
		rec.label = "user " + shown(id)
	}
	for i, c := range r.system.columns {
		if r.system.isHTML(c.theirs) {
			r.values[1+i].text, _ = unescaped(r.values[1+i].text)
		}
		rec.set(rec.columns, c.ours, personal.Text(r.values[1+i].text), r.values[1+i].bad)
	}
	if hash := rec.columns[columnHash]; hash.IsZero() && rec.bad[columnHash] == "" {
		rec.columns[columnHash] = personal.Text(password.Unusable)
	} else if strings.Contains(hash.Text, ":") {
		rec.columns[columnForm] = personal.Text(r.form)
	}
	if locale, ok := rec.columns[columnLocale]; ok {
		rec.columns[columnLocale] = personal.Text(localeTag(locale.Text))
	}
	if r.move.NewIDs {
		delete(rec.columns, columnID)
		delete(rec.bad, columnID)
	}
	for i, f := range r.move.Fields {
		to := rec.fields
		if f.Ours == columnName {
			to = rec.columns
		}
		value := r.values[1+len(r.system.columns)+i]
		input, bad := r.mapped(&rec, f, value.text)
		rec.set(to, f.Ours, input, cmp.Or(value.bad, bad))
	}
	rec.mend(mending{utf8: r.mend})
	rec.escaped = "" // the system says what it escapes
	login := rec.columns[columnLogin].Text
	if chosen := r.move.Logins.choose(login, rec.columns[columnEmail].Text, id); chosen[0] != login {
		rec.renamed, rec.logins = login, chosen[1:]
		if bad := rec.bad[columnLogin]; bad != "" {
			rec.renamed = "(" + bad + ")"
		}
		rec.set(rec.columns, columnLogin, personal.Text(chosen[0]), "")
	}
	return rec, nil
}

// mapped returns the value of a field that comes by --map, or why it has none.
func (r *stagedRecords) mapped(rec *record, f Mapped, text string) (in personal.Input, bad string) {
	rows := []string{text}
	isRole := r.system.isRole(f.Theirs)
	isList := r.lists[f.Ours] || isRole
	if isList && strings.HasPrefix(text, "[") {
		if in = parseList(text); in.Kind != personal.InputList { // it is too long
			return in, ""
		}
		rows = in.List
	}
	var items []string
	for _, row := range rows {
		more, ok := expand(row, isList, isRole)
		if !ok {
			return personal.Input{}, "a nested list or an object of PHP"
		}
		items = append(items, more...)
	}
	if r.system.isHTML(f.Theirs) {
		for i := range items {
			items[i], _ = unescaped(items[i])
		}
	}
	if isRole {
		var left []string
		if items, left = translate(r.move.Roles, items); len(left) > 0 {
			rec.left = map[string]string{f.Ours: fmt.Sprintf("no --role for %.40q", left[0])}
			if len(left) > 1 {
				rec.left[f.Ours] += fmt.Sprintf(" and %d more", len(left)-1)
			}
		}
		if len(items) > 1 && len(r.move.Roles) > 0 && !r.lists[f.Ours] {
			items = items[:1]
		}
	}
	switch {
	case len(items) == 0:
		return personal.Input{}, ""
	case r.lists[f.Ours]:
		return personal.Input{Kind: personal.InputList, List: items}, ""
	case len(items) > 1:
		return personal.Input{}, "several values, of which the field takes one"
	}
	return personal.Text(items[0]), ""
}

// set sets a column or a user field, or says why its value is bad.
func (r *record) set(to map[string]personal.Input, name string, value personal.Input, bad string) {
	delete(to, name)
	delete(r.bad, name)
	switch {
	case bad == "":
		to[name] = value
	case r.bad == nil:
		r.bad = map[string]string{name: bad}
	default:
		r.bad[name] = bad
	}
}

func (r *stagedRecords) close() error { return r.rows.Close() }

// localeTag returns the BCP 47 tag of a locale such as de_DE_formal or pt-br, or of its language;
// "" if it is none.
func localeTag(locale string) string {
	parts := strings.FieldsFunc(locale, func(r rune) bool { return r == '_' || r == '-' || r == '@' || r == '.' })
	for n := min(len(parts), 3); n > 0; n-- {
		if tag, err := language.Parse(strings.Join(parts[:n], "-")); err == nil && tag != language.Und {
			return tag.String()
		}
	}
	return ""
}
