package ui

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/cms-personal/personal/shared/personal"
)

const (
	// maxForm bounds a posted form, in bytes, as the HTTP contract bounds a body.
	maxForm = 64 << 10

	// maxLargeForm bounds the forms of administrators that hold a user-field schema
	// or all fields of a user, in bytes. A schema has 256 KiB at most, and a form
	// takes up to three bytes for one.
	maxLargeForm = 1 << 20
)

// Posted are the values of a form that was posted.
type Posted struct{ values url.Values }

// ReadForm reads a posted form from the body; the URL's query does not count.
// The error says that no form can be read in what was sent, of which it may
// quote a part: keep it from logs. A form of more than 64 KiB is a
// [*http.MaxBytesError].
func ReadForm(w http.ResponseWriter, r *http.Request) (Posted, error) {
	return readForm(w, r, maxForm)
}

// ReadLargeForm is [ReadForm] with a limit of 1 MiB, for administrators' forms
// that hold a user-field schema or all fields of a user. Uploads of plugins have
// a limit of their own, in package pluginadmin.
func ReadLargeForm(w http.ResponseWriter, r *http.Request) (Posted, error) {
	return readForm(w, r, maxLargeForm)
}

func readForm(w http.ResponseWriter, r *http.Request, limit int64) (Posted, error) {
	r.Body = http.MaxBytesReader(w, r.Body, limit)
	if err := r.ParseForm(); err != nil {
		return Posted{}, fmt.Errorf("reading a form: %w", err)
	}
	return Posted{values: r.PostForm}, nil
}

// Get returns the first value of a name, empty if there is none. Browsers end
// lines by CR LF; here they end as everywhere else.
func (p Posted) Get(name string) string {
	return strings.ReplaceAll(p.values.Get(name), "\r\n", "\n")
}

// Field returns what was typed into a user field's control.
func (p Posted) Field(f personal.Field) string {
	if f.Type == personal.TypeBoolean && !f.Required {
		return p.control(Control{Kind: KindCheckbox, Name: f.Name})
	}
	return p.Get(f.Name)
}

// control returns the value of a control. Browsers do not mention a checkbox
// that is not ticked.
func (p Posted) control(c Control) string {
	text := p.Get(c.Name)
	if c.Kind == KindCheckbox && text != "true" {
		return "false"
	}
	return text
}
