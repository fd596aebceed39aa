package ui

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/cms-personal/personal/shared/internal/urlencoded"
	"github.com/cms-personal/personal/shared/personal"
)

// Form is a form, what was typed into it, and its errors.
type Form struct {
	Action   string
	Submit   string // on the button
	Message  string // what went wrong; empty if nothing did
	Errors   []FieldError
	Controls []Control
	Hidden   []Hidden
	User     string // the login that the passwords belong to, for password managers; may be empty
	Danger   bool   // the button deletes or revokes something
	Cancel   string // URL of a link beside the button, which leads back; empty for none
	Quiet    bool   // the button is not the main one of its page
	File     bool   // the response is a file, which the browser stores
	Script   string // data-script of a form that is hidden until a script shows it; may be empty
}

// FieldError is an error of one control.
type FieldError struct {
	ID    string // of the control; empty if the form has no such control
	Label string
	Text  string
	Lang  string // of the text; empty: the page's
}

// Hidden is a value that is sent with a form and not shown.
type Hidden struct{ Name, Value string }

// ControlKind is the kind of HTML element of a control.
type ControlKind string

// The kinds of control.
const (
	KindInput    ControlKind = "input" // of Control.Type
	KindLongText ControlKind = "long_text"
	KindSelect   ControlKind = "select"
	KindRadios   ControlKind = "radios"
	KindCheckbox ControlKind = "checkbox" // its value is "true" or "false"
	KindText     ControlKind = "text"     // read-only
	KindWidget   ControlKind = "widget"   // HTML of a site, which sends its own values
)

// Control is one control of a form.
type Control struct {
	Kind         ControlKind // KindInput if empty
	Name         string
	Label        string
	Hint         string // may be empty
	Value        string
	Error        string // may be empty
	ErrorLang    string // language of Error; empty: the page's
	Required     bool
	Type         string // of KindInput, as HTML names it; "text" if empty
	MaxLength    int    // characters of a text, or of each line of KindLongText if MaxLines is set; 255 if 0
	MaxLines     int    // 0: Value is one text
	Autocomplete string // as HTML names it; may be empty
	InputMode    string // as HTML names it; may be empty
	Min, Max     string // of numbers; may be empty
	Step         string // of numbers and times; may be empty
	Options      []Choice
	Script       string        // data-script, by which a script finds the control; may be empty
	Focus        bool          // the page opens with the focus here
	Details      bool          // in a <details> with the label as its summary
	Folded       bool          // which is closed
	Link         *Link         // of KindText, to the page that changes the value; of KindCheckbox, to what it is about; may be nil
	Widget       template.HTML // of KindWidget

	Autocapitalize string // of a Verbatim control, as HTML names it; "none" if empty
}

// Choice is one value of a select or of radio buttons.
type Choice struct{ Value, Label string }

// ID returns the id of the control's HTML element.
func (c Control) ID() string { return "field-" + c.Name }

// Checked reports whether a checkbox is ticked.
func (c Control) Checked() bool { return c.Value == "true" }

// OneTimeCode is the Autocomplete of a code of a second factor.
const OneTimeCode = "one-time-code"

// Secret reports whether the value must not be sent back to the browser.
func (c Control) Secret() bool { return c.Type == "password" || c.Autocomplete == OneTimeCode }

// Verbatim reports whether the keyboard and the spell checker of the browser must leave the value alone. Some send it
// elsewhere, also a password while it is shown.
func (c Control) Verbatim() bool {
	return c.Secret() || c.Script != "" || c.Type == "email" || c.Name == "login"
}

// Focus makes the page open with the focus on the first control that takes it, unless the form has errors:
// then that is on them.
func (f *Form) Focus() {
	if i := slices.IndexFunc(f.Controls, func(c Control) bool { return c.Kind != KindText && c.Kind != KindWidget }); i >= 0 {
		f.Controls[i].Focus = f.Message == ""
	}
}

// Mixed reports whether the form has both required and optional controls.
func (f Form) Mixed() bool {
	required := func(c Control) bool { return c.Required }
	optional := func(c Control) bool { return !c.Required && c.Kind != KindText }
	return slices.ContainsFunc(f.Controls, required) && slices.ContainsFunc(f.Controls, optional)
}

// Fill puts the posted values into the controls. Those of a form that anyone may post,
// see [ReadForm], are cut to what their controls allow: a page must not send back more.
func (f *Form) Fill(posted Posted) {
	for i := range f.Controls {
		if c := &f.Controls[i]; c.Kind != KindText {
			c.Value = posted.control(*c)
			if !posted.large {
				c.cut()
			}
		}
	}
	for i := range f.Hidden {
		if h := &f.Hidden[i]; strings.HasPrefix(h.Name, shownPrefix) {
			h.Value = firstRunes(posted.Get(h.Name), maxPlainMark)
		}
	}
}

// defaultMaxLength suits logins, e-mails, names and codes.
const defaultMaxLength = 255

// cut shortens the value to what the control allows.
func (c *Control) cut() {
	limit := cmp.Or(c.MaxLength, defaultMaxLength)
	if c.MaxLines == 0 {
		c.Value = firstRunes(c.Value, limit)
		return
	}
	lines := strings.SplitN(c.Value, "\n", c.MaxLines+1)
	lines = lines[:min(len(lines), c.MaxLines)]
	for i := range lines {
		lines[i] = firstRunes(lines[i], limit)
	}
	c.Value = strings.Join(lines, "\n")
}

// firstRunes returns the first n characters of a text, or all if it has fewer.
func firstRunes(text string, n int) string {
	for i := range text {
		if n--; n < 0 {
			return text[:i]
		}
	}
	return text
}

// Refuse sets the form's message, and the errors of its controls by their names. An
// error without a control is listed under its name.
func (f *Form) Refuse(message string, errors map[string]string) {
	f.Message, f.Errors = message, nil
	rest := maps.Clone(errors)
	for i := range f.Controls {
		c := &f.Controls[i]
		if c.Error = errors[c.Name]; c.Error != "" {
			f.Errors = append(f.Errors, FieldError{ID: c.ID(), Label: c.Label, Text: c.Error})
		}
		delete(rest, c.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(rest)) {
		f.Errors = append(f.Errors, FieldError{Label: name, Text: rest[name]})
	}
}

// ErrorsIn says in which language the texts of all errors are, if it is not the page's.
func (f *Form) ErrorsIn(lang string) {
	for i := range f.Errors {
		f.Errors[i].Lang = lang
	}
	for i := range f.Controls {
		f.Controls[i].ErrorLang = lang
	}
}

// shownPrefix begins the names of hidden values that hold what a control showed
// when its page was rendered. No control has such a name.
const shownPrefix = "shown:"

// Remember makes the form send what its controls showed, for [Posted.Changes].
func (f *Form) Remember() {
	for _, c := range f.Controls {
		if c.Kind != KindText && !c.Secret() {
			f.Hidden = append(f.Hidden, Hidden{Name: shownPrefix + c.Name, Value: mark(c.Value)})
		}
	}
}

// maxPlainMark is the length from which a text is replaced by its digest, in bytes.
const maxPlainMark = 64

// mark identifies a text in a form: the text itself, or its digest if it is long.
func mark(text string) string {
	if len(text) < maxPlainMark {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	return "sha256:" + base64.RawURLEncoding.EncodeToString(sum[:])
}

// MaxForm bounds a posted form, in bytes: the 64 KiB that the HTTP contract has for a body, of which a
// form takes up to three bytes for one.
const MaxForm = 192 << 10

const (
	// maxPairs bounds the names and values of such a form, each of which takes many
	// times the bytes that it was sent in. A page with 300 fields sends about 600.
	maxPairs = 1000

	// maxLargeForm bounds the administrators' forms that hold a user-field schema or
	// all fields of a user, in bytes. A schema has up to 256 KiB, and a form takes up
	// to three bytes for one.
	maxLargeForm = 1 << 20
)

// Posted are the values of a posted form.
type Posted struct {
	values url.Values
	large  bool // of [ReadLargeForm]
}

// ReadForm reads a posted form from the body; it ignores the URL's query. Do not log
// the error, which may quote the body. A form of more than 192 KiB or 1000 values is a
// [*http.MaxBytesError]. A form with text that is not UTF-8 is an error.
func ReadForm(w http.ResponseWriter, r *http.Request) (Posted, error) {
	return readForm(w, r, MaxForm, maxPairs)
}

// ReadLargeForm is [ReadForm] with a limit of 1 MiB alone, for administrators' forms that
// hold a user-field schema or all fields of a user. Uploads of plugins have a limit
// of their own, in Package adminapi.
func ReadLargeForm(w http.ResponseWriter, r *http.Request) (Posted, error) {
	posted, err := readForm(w, r, maxLargeForm, maxLargeForm)
	posted.large = true
	return posted, err
}

func readForm(w http.ResponseWriter, r *http.Request, limit int64, pairs int) (Posted, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if err != nil {
		return Posted{}, fmt.Errorf("reading a form: %w", err)
	}
	if bytes.Count(body, []byte("&")) >= pairs { // before it is decoded
		return Posted{}, fmt.Errorf("reading a form: %w", &http.MaxBytesError{Limit: limit})
	}
	r.Body, r.PostForm = io.NopCloser(bytes.NewReader(body)), url.Values{}
	if media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); media == "application/x-www-form-urlencoded" {
		r.PostForm = urlencoded.Parse(string(body))
	}
	if !isText(r.PostForm) {
		return Posted{}, errors.New("reading a form: it is not UTF-8")
	}
	return Posted{values: r.PostForm}, nil
}

// isText reports whether all names and values are valid UTF-8.
func isText(values url.Values) bool {
	for name, texts := range values {
		if !utf8.ValidString(name) || slices.ContainsFunc(texts, func(s string) bool { return !utf8.ValidString(s) }) {
			return false
		}
	}
	return true
}

// Get returns the first value of a name, empty if there is none. It turns the CR LF
// that browsers send into LF.
func (p Posted) Get(name string) string {
	return strings.ReplaceAll(p.values.Get(name), "\r\n", "\n")
}

// All returns every value of a name, such as those of ticked checkboxes.
func (p Posted) All(name string) []string { return p.values[name] }

// control returns the value of a control. Browsers send nothing for a checkbox that
// is not ticked.
func (p Posted) control(c Control) string {
	text := p.Get(c.Name)
	if c.Kind == KindCheckbox && text != "true" {
		return "false"
	}
	return text
}

// Field returns the value of a user field's control.
func (p Posted) Field(f personal.Field) string {
	if f.Type == personal.TypeBoolean && !f.Required {
		return p.control(Control{Kind: KindCheckbox, Name: f.Name})
	}
	return p.Get(f.Name)
}

// Changes returns the name and the user fields that differ from what the page
// showed. A page that was open for long does not undo changes made elsewhere in
// the meantime, and a value that the control showed shortened is not cut.
func (p Posted) Changes(fields []personal.Field) map[string]personal.Input {
	changed := map[string]personal.Input{}
	if p.Changed("name") {
		changed["name"] = personal.Text(p.Get("name"))
	}
	for _, f := range fields {
		if text := p.Field(f); !f.ReadOnly && p.changed(f.Name, normalised(f, text)) {
			changed[f.Name] = FieldInput(f, text)
		}
	}
	return changed
}

// Changed reports whether a control's value differs from what the page showed.
func (p Posted) Changed(name string) bool { return p.changed(name, p.Get(name)) }

func (p Posted) changed(name, text string) bool { return mark(text) != p.Get(shownPrefix+name) }

// normalised formats a posted text as [FieldText] does: browsers leave out seconds,
// and lists may have empty lines.
func normalised(f personal.Field, text string) string {
	switch input := FieldInput(f, text); {
	case f.Type == personal.TypeDateTime:
		return FieldText(f, input.Text)
	case f.Type.Kind().List:
		return FieldText(f, input.List)
	}
	return text
}
