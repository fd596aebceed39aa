package ui

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"

	"github.com/cms-personal/personal/shared/personal"
)

// shownPrefix marks what a control showed when its page was drawn. No control has
// such a name.
const shownPrefix = "shown:"

// Remember has the form tell, when it is posted, what its controls showed: see
// [Posted.Changes].
func (f *Form) Remember() {
	for _, c := range f.Controls {
		if c.Kind != KindText && !c.Secret() {
			f.Hidden = append(f.Hidden, Hidden{Name: shownPrefix + c.Name, Value: mark(c.Value)})
		}
	}
}

// recall keeps what a form remembers when it is shown again.
func (f *Form) recall(posted Posted) {
	for i := range f.Hidden {
		if h := &f.Hidden[i]; strings.HasPrefix(h.Name, shownPrefix) {
			h.Value = posted.Get(h.Name)
		}
	}
}

// Changes returns the name and the user fields that differ from what the page
// showed, and nothing else: a page that was open for long does not undo what was
// changed elsewhere meanwhile, and what a control shows shortened is not cut.
func (p Posted) Changes(fields []personal.Field) map[string]personal.Input {
	changed := map[string]personal.Input{}
	if p.Changed("name") {
		changed["name"] = personal.Text(p.Get("name"))
	}
	for _, f := range fields {
		if text := p.Field(f); !f.ReadOnly && p.changed(f.Name, plain(f, text)) {
			changed[f.Name] = FieldInput(f, text)
		}
	}
	return changed
}

// Changed reports whether what was typed into a control differs from what the
// page showed.
func (p Posted) Changed(name string) bool { return p.changed(name, p.Get(name)) }

func (p Posted) changed(name, text string) bool { return mark(text) != p.Get(shownPrefix+name) }

// plain writes a text as [FieldText] would: browsers leave seconds out.
func plain(f personal.Field, text string) string {
	switch input := FieldInput(f, text); f.Type {
	case personal.TypeDateTime:
		return FieldText(f, input.Text)
	case personal.TypeTags, personal.TypeLinkSet:
		return FieldText(f, input.List)
	}
	return text
}

// longMark is the length from which a text is marked by its digest, in bytes.
const longMark = 64

// mark stands for a text in a form: itself, or its digest where it is long.
func mark(text string) string {
	if len(text) < longMark {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	return "sha256:" + base64.RawURLEncoding.EncodeToString(sum[:])
}
