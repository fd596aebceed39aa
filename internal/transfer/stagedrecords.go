package transfer

import (
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
	"github.com/cms-personal/personal/shared/userfields"
)

// records implements [Input]: the users of the dump, in its order. form is that of hashes for which
// the system states none; "": the system does.
func (s *Staged) records(ctx context.Context, _ *userfields.Schema, form string) (records, error) {
	of := func(select1 string) string {
		return "(SELECT " + select1 + " FROM attributes WHERE user = users." + s.system.required[0] + " AND key = ?)"
	}
	const one = "value" // the first, because SQLite takes the first row
	text, args := "SELECT line, "+s.system.required[0], []any(nil)
	for _, c := range s.system.columns {
		theirs := c.theirs
		if key, ok := attributeOf(theirs); ok {
			theirs, args = of(one), append(args, key)
		}
		text += ", " + theirs
	}
	for _, f := range s.move.Fields {
		switch {
		case slices.Contains(s.system.staged(), f.Theirs):
			text += ", users." + f.Theirs
		case s.lists[f.Ours]:
			text += ", CASE WHEN coalesce(" + of("sum(length(value))") + ", 0) > " + strconv.Itoa(maxRecord) + " THEN '[' ELSE " +
				of("nullif(json_group_array(value), '[]')") + " END" // SQLite would build a list of any length; [ is refused
			args = append(args, f.Theirs, f.Theirs)
		default:
			text, args = text+", "+of(one), append(args, f.Theirs)
		}
	}
	rows, err := s.db.QueryContext(ctx, text+" FROM users WHERE "+s.system.isUser()+" ORDER BY users.rowid", args...)
	if err != nil {
		return nil, fmt.Errorf("reading the users of the dump: %w", err)
	}
	if form == "" {
		form = s.system.form
	}
	r := &stagedRecords{Staged: s, form: form, rows: rows, values: make([]sql.NullString, 1+len(s.system.columns)+len(s.move.Fields))}
	r.into = []any{&r.line}
	for i := range r.values {
		r.into = append(r.into, &r.values[i])
	}
	return r, nil
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
	rows   *sql.Rows
	n      int64
	line   int
	values []sql.NullString // the id, the columns, the fields
	into   []any
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
	rec := record{line: r.line, end: r.n, label: "user " + shown(r.values[0].String),
		columns: make(map[string]personal.Input, len(r.values)), fields: map[string]personal.Input{}}
	for i, c := range r.system.columns {
		rec.columns[c.ours] = personal.Text(r.values[1+i].String)
	}
	if rec.columns[columnHash].IsZero() {
		rec.columns[columnHash] = personal.Text(password.Unusable)
	}
	if strings.Contains(rec.columns[columnHash].Text, ":") {
		rec.columns[columnForm] = personal.Text(r.form)
	}
	rec.columns[columnLocale] = personal.Text(localeTag(rec.columns[columnLocale].Text))
	if r.move.NewIDs {
		delete(rec.columns, columnID)
	}
	for i, f := range r.move.Fields {
		value := r.values[1+len(r.system.columns)+i].String
		input := personal.Text(value)
		if r.lists[f.Ours] && strings.HasPrefix(value, "[") {
			input = parseList(value)
		}
		if f.Ours == columnName {
			rec.columns[columnName] = input
		} else {
			rec.fields[f.Ours] = input
		}
	}
	login := rec.columns[columnLogin].Text
	if chosen := r.move.Logins.choose(login, rec.columns[columnEmail].Text, r.values[0].String); chosen != login {
		rec.columns[columnLogin], rec.renamed = personal.Text(chosen), login
	}
	return rec, nil
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
