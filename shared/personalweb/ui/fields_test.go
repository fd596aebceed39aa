package ui_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalweb/ui"
)

func inEnglish(label personal.LocalText, fallback string) string {
	if text, ok := label["en"]; ok {
		return text
	}
	return fallback
}

func ptr(n float64) *float64 { return &n }

// shown renders the control of a field.
func shown(t *testing.T, f personal.Field, value string) string {
	t.Helper()
	r := httptest.NewRequest("GET", "/page", nil)
	c := newPages(t).FieldControl(r, f, inEnglish, value)
	w := serve(t, r, ui.Form{Controls: []ui.Control{c}})
	_, form, _ := strings.Cut(w.Body.String(), "<form method=\"post\" action=\"\"")
	form, _, _ = strings.Cut(form, "</form>")
	return form
}

func TestFieldControl_EveryType(t *testing.T) {
	for _, tt := range []struct {
		field personal.Field
		value string
		want  []string
	}{
		{personal.Field{Type: personal.TypeText}, "a", []string{`type="text"`, `value="a"`}},
		{personal.Field{Name: "phone", Type: personal.TypeText}, "", []string{`type="tel"`, `autocomplete="tel"`}},
		{personal.Field{Type: personal.TypeLongText}, "a\nb", []string{"<textarea", "\na\nb</textarea>"}},
		{personal.Field{Type: personal.TypeInteger, Min: ptr(1), Max: ptr(9)}, "3", []string{`type="number"`, `step="1"`, `min="1"`, `max="9"`, "From 1 to 9."}},
		{personal.Field{Type: personal.TypeNumber, Max: ptr(2.5)}, "", []string{`type="number"`, `step="any"`, `max="2.5"`, "2.5 or less."}},
		{personal.Field{Type: personal.TypeBoolean}, "true", []string{`type="checkbox"`, " checked"}},
		{personal.Field{Type: personal.TypeBoolean, Required: true}, "false", []string{`role="radiogroup"`, `value="false" checked`, `aria-required="true"`}},
		{personal.Field{Type: personal.TypeText, Hint: personal.LocalText{"en": "As on <it>."}}, "a",
			[]string{`<p class="hint" id="field-x-hint">As on &lt;it&gt;.</p>`, `aria-describedby="field-x-hint"`}},
		{personal.Field{Type: personal.TypeInteger, Min: ptr(1), Hint: personal.LocalText{"en": "In years."}}, "3", []string{"In years. 1 or more."}},
		{personal.Field{Type: personal.TypeDate}, "2000-01-02", []string{`type="date"`, `value="2000-01-02"`}},
		{personal.Field{Type: personal.TypeDateTime}, "2000-01-02T03:04:05", []string{`type="datetime-local"`, `step="1"`, "In UTC."}},
		{personal.Field{Type: personal.TypeEnum, Options: []personal.Option{{Value: "a"}, {Value: "b", Label: personal.LocalText{"en": "Bee"}}}}, "b",
			[]string{"<select", `<option value="">`, `<option value="a">a</option>`, `<option value="b" selected>Bee</option>`}},
		{personal.Field{Type: personal.TypeFile}, "", []string{`inputmode="url"`}},
		{personal.Field{Type: personal.TypeLink}, "17", []string{`type="text"`, `value="17"`}},
		{personal.Field{Type: personal.TypeLinkSet}, "1\n2", []string{"<textarea", "One per line."}},
		{personal.Field{Type: personal.TypeTags, Required: true}, "a\nb", []string{"<textarea", `aria-required="true"`, `<span class="required"`}},
	} {
		if tt.field.Name == "" {
			tt.field.Name = "x"
		}
		got := shown(t, tt.field, tt.value)
		for _, want := range append(tt.want, `name="`+tt.field.Name+`"`) {
			if !strings.Contains(got, want) {
				t.Errorf("%s: want %s in\n%s", tt.field.Type, want, got)
			}
		}
	}
}

func TestFieldControl_ReadOnlyHasTheFieldsHint(t *testing.T) {
	f := personal.Field{Name: "x", Type: personal.TypeDateTime, ReadOnly: true, Hint: personal.LocalText{"en": "Ask us to change it."}}
	if got := shown(t, f, "2000-01-02T03:04:05"); !strings.Contains(got, `id="field-x-hint">Ask us to change it.</p>`) {
		t.Errorf("got %s, want the hint", got)
	}
}

func TestFieldControl_EscapesUserTexts(t *testing.T) {
	evil := `"><script>alert(1)</script>`
	for _, kind := range []personal.FieldType{personal.TypeText, personal.TypeLongText, personal.TypeEnum, personal.TypeTags,
		personal.TypeBoolean} {
		f := personal.Field{Name: "x", Type: kind, Label: personal.LocalText{"en": evil},
			Options: []personal.Option{{Value: evil, Label: personal.LocalText{"en": evil}}}}
		if got := shown(t, f, evil); strings.Contains(got, "<script>") || !strings.Contains(got, "&lt;script&gt;") {
			t.Errorf("%s: got %s, want it escaped", kind, got)
		}
	}
}

func TestFieldText_RoundTrip(t *testing.T) {
	for _, tt := range []struct {
		kind  personal.FieldType
		value any
		text  string
		want  personal.Input
	}{
		{personal.TypeText, "a", "a", personal.Text("a")},
		{personal.TypeText, nil, "", personal.Input{}},
		{personal.TypeInteger, int64(-9007199254740991), "-9007199254740991", personal.Text("-9007199254740991")},
		{personal.TypeNumber, 1e6, "1000000", personal.Text("1000000")},
		{personal.TypeBoolean, true, "true", personal.Text("true")},
		{personal.TypeBoolean, nil, "false", personal.Text("false")},
		{personal.TypeDateTime, "2000-01-02T03:04:05Z", "2000-01-02T03:04:05", personal.Text("2000-01-02T03:04:05Z")},
		{personal.TypeTags, []string{"a b", "c,d"}, "a b\nc,d", personal.Input{Kind: personal.InputList, List: []string{"a b", "c,d"}}},
		{personal.TypeTags, []string{}, "", personal.Input{}},
	} {
		f := personal.Field{Name: "x", Type: tt.kind}
		text := ui.FieldText(f, tt.value)
		if got := ui.FieldInput(f, text); text != tt.text || !cmp.Equal(got, tt.want) {
			t.Errorf("%s %v: got text %q and input %v, want %q and %v", tt.kind, tt.value, text, got, tt.text, tt.want)
		}
	}
	at := personal.Field{Type: personal.TypeDateTime}
	for text, want := range map[string]string{"2000-01-02T03:04": "2000-01-02T03:04:00Z", "2000-01-02T03:04:05.5": "2000-01-02T03:04:05Z",
		"soon": "soon"} {
		if got := ui.FieldInput(at, text); got.Text != want {
			t.Errorf("%q: got input %q, want %q", text, got.Text, want)
		}
	}
}

func TestForm_ErrorsBesideControlsAndAbove(t *testing.T) {
	form := ui.Form{Controls: []ui.Control{{Name: "login", Label: "Login", Hint: "short", Value: "<a>"},
		{Name: "password", Label: "Password", Type: "password", Value: "secret"}}}
	form.Refuse("Please check.", map[string]string{"login": "Too short.", "groups": "No."})
	body := serve(t, httptest.NewRequest("GET", "/page", nil), form).Body.String()
	for _, want := range []string{
		`role="alert"`, `<a href="#field-login">Login</a>: Too short.`, "groups: No.",
		`aria-invalid="true" aria-describedby="field-login-hint field-login-error"`,
		`<p class="fault" id="field-login-error">Too short.</p>`, `value="&lt;a&gt;"`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("want %s in the form:\n%s", want, body)
		}
	}
	if strings.Contains(body, "secret") {
		t.Error("the form contains the password")
	}
}
