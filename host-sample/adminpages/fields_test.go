package adminpages_test

import (
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/shared/personal"
)

// fieldValues is what a browser sends for a new text field.
func fieldValues(b *browser, more url.Values) url.Values {
	values := url.Values{
		"revision": {b.Fields.Get().Schema.Revision}, "rows": {"3"}, "do": {"save"},
		"name": {"nickname"}, "type": {"text"}, "order": {"5"},
	}
	maps.Copy(values, more)
	return values
}

func (b *browser) fieldNames() string {
	var names []string
	for _, f := range b.Fields.Get().Schema.Fields {
		names = append(names, f.Name)
	}
	return strings.Join(names, " ")
}

func TestFieldsAreListedInTheirOrderWithAPreviewInEveryLanguage(t *testing.T) {
	page := open(t, nil).page(t, "/admin/fields")
	last := -1
	for _, name := range []string{"phone", "birth_date", "city", "internal_note"} {
		at := strings.Index(page, `id="listed-`+name+`"`)
		if at <= last {
			t.Errorf("%s stands at %d", name, at)
		}
		last = at
	}
	for _, want := range []string{`id="field-preview_en_phone"`, `id="field-preview_ru_phone"`, ">Phone", ">Телефон", `<section class="card preview" lang="ru"`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %s", want)
		}
	}
	if strings.Contains(page, "preview_en_internal_note") {
		t.Error("a hidden field is in the preview")
	}
}

func TestEveryPropertyOfAFieldCanBeSet(t *testing.T) {
	b := open(t, nil)
	five := 5.0
	half := 0.5
	tests := map[string]struct {
		values url.Values
		want   personal.Field
	}{
		"text": {
			url.Values{"label_en": {"Nick"}, "label_ru": {"Прозвище"}, "required": {"true"}, "default": {"x"}, "max_length": {"20"}, "pattern": {`[a-z]+`}, "group": {"about"}},
			personal.Field{Name: "nickname", Type: "text", Label: personal.LocalText{"en": "Nick", "ru": "Прозвище"}, Required: true,
				Default: personal.Text("x"), MaxLength: 20, Pattern: "[a-z]+", Order: 5, Group: "about"},
		},
		"number": {
			url.Values{"type": {"number"}, "min": {"0.5"}, "max": {"5"}, "default": {"1.5"}, "read_only": {"true"}, "hidden": {"true"}},
			personal.Field{Name: "nickname", Type: "number", Label: personal.LocalText{}, Min: &half, Max: &five,
				Default: personal.Input{Kind: personal.InputNumber, Text: "1.5"}, ReadOnly: true, Hidden: true, Order: 5},
		},
		"boolean": {
			url.Values{"type": {"boolean"}, "default": {"true"}},
			personal.Field{Name: "nickname", Type: "boolean", Default: personal.Input{Kind: personal.InputBoolean, Text: "true"}, Order: 5},
		},
		"list": {
			url.Values{"type": {"tags"}, "default": {"a\r\nb"}},
			personal.Field{Name: "nickname", Type: "tags", Default: personal.Input{Kind: personal.InputList, List: []string{"a", "b"}}, Order: 5},
		},
		"enum": {
			url.Values{"type": {"enum"}, "option_0_value": {"a"}, "option_0_ru": {"А"}, "option_2_value": {"b"}, "default": {"b"}},
			personal.Field{Name: "nickname", Type: "enum", Default: personal.Text("b"), Order: 5,
				Options: []personal.Option{{Value: "a", Label: personal.LocalText{"ru": "А"}}, {Value: "b"}}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			b.do(t, "/admin/fields/new", fieldValues(b, test.values))
			fields := b.Fields.Get().Schema.Fields
			if len(test.want.Label) == 0 {
				test.want.Label = nil
			}
			if diff := cmp.Diff(test.want, fields[0]); diff != "" {
				t.Error(diff)
			}
			// Saved again as it is shown, it stays what it is.
			b.do(t, "/admin/fields/edit/nickname", shownValues(t, b.page(t, "/admin/fields/edit/nickname")))
			if diff := cmp.Diff(fields, b.Fields.Get().Schema.Fields); diff != "" {
				t.Errorf("what was shown saves as %s", diff)
			}
			b.do(t, "/admin/fields/remove", url.Values{"name": {"nickname"}, "revision": {b.Fields.Get().Schema.Revision}})
			if strings.Contains(b.fieldNames(), "nickname") {
				t.Error("the field was not removed")
			}
		})
	}
}

func TestAFaultyFieldIsRefusedBesideItsControlAndStaysAsTyped(t *testing.T) {
	b := open(t, nil)
	for control, test := range map[string]struct {
		values url.Values
		fault  string
	}{
		"name":           {url.Values{"name": {"Nick Name"}}, "snake case"},
		"type":           {url.Values{"type": {"colour"}}, "unknown type"},
		"required":       {url.Values{"required": {"true"}, "hidden": {"true"}}, "could not fill it in"},
		"default":        {url.Values{"type": {"integer"}, "default": {"many"}}, "refuse its default"},
		"max_length":     {url.Values{"type": {"date"}, "max_length": {"3"}}, "no max_length"},
		"pattern":        {url.Values{"pattern": {"("}}, "bad pattern"},
		"min":            {url.Values{"type": {"number"}, "min": {"2"}, "max": {"1"}}, "above max"},
		"max":            {url.Values{"type": {"number"}, "max": {"NaN"}}, "no number"},
		"order":          {url.Values{"order": {"first"}}, "no whole number"},
		"option_0_value": {url.Values{"type": {"enum"}}, "needs options"},
	} {
		values := fieldValues(b, test.values)
		values.Set("group", script)
		revision := b.Fields.Get().Schema.Revision
		for _, do := range []string{"save", "preview"} {
			values.Set("do", do)
			w := b.post("/admin/fields/new", values)
			page := w.Body.String()
			if w.Code != http.StatusUnprocessableEntity || !strings.Contains(faultAt(page, control), test.fault) {
				t.Errorf("%s, %s: %d %q", control, do, w.Code, faultAt(page, control))
			}
			if !strings.Contains(page, `href="#field-`+control+`"`) {
				t.Errorf("%s: the summary does not lead there", control)
			}
			wantNoMarkup(t, page)
		}
		if b.Fields.Get().Schema.Revision != revision {
			t.Errorf("%s: something was saved", control)
		}
	}
}

func TestANameThatIsTakenIsRefusedAtTheName(t *testing.T) {
	b := open(t, nil)
	values := shownValues(t, b.page(t, "/admin/fields/edit/phone"))
	values.Set("name", "city")
	if w := b.post("/admin/fields/edit/phone", values); w.Code != http.StatusUnprocessableEntity || !strings.Contains(faultAt(w.Body.String(), "name"), "twice") {
		t.Errorf("%d %q", w.Code, faultAt(w.Body.String(), "name"))
	}
}

func TestAFieldIsPreviewedBeforeItIsSaved(t *testing.T) {
	b := open(t, nil)
	before := b.Fields.Get()
	w := b.post("/admin/fields/new", fieldValues(b, url.Values{"do": {"preview"}, "type": {"boolean"}, "label_ru": {script}}))
	page := w.Body.String()
	if w.Code != http.StatusOK || !strings.Contains(page, `id="field-preview_ru_nickname"`) || b.Fields.Get() != before {
		t.Errorf("%d %s", w.Code, page)
	}
	wantNoMarkup(t, page)
}

func TestThereIsRoomForMoreOptions(t *testing.T) {
	b := open(t, nil)
	w := b.post("/admin/fields/new", fieldValues(b, url.Values{"do": {"more"}, "type": {"enum"}, "option_2_value": {"third"}}))
	if page := w.Body.String(); !strings.Contains(page, `name="option_5_value"`) || !strings.Contains(page, `name="option_2_value" type="text" value="third"`) {
		t.Errorf("%d %s", w.Code, page)
	}
}

func TestLabelsInOtherLanguagesAreKept(t *testing.T) {
	b := open(t, nil)
	source := `[{"name":"nickname","type":"text","label":{"de":"Spitzname"}}]`
	b.do(t, "/admin/fields/json", url.Values{"source": {source}, "revision": {b.Fields.Get().Schema.Revision}})
	values := shownValues(t, b.page(t, "/admin/fields/edit/nickname"))
	values.Set("label_en", "Nickname")
	b.do(t, "/admin/fields/edit/nickname", values)
	if diff := cmp.Diff(personal.LocalText{"de": "Spitzname", "en": "Nickname"}, b.Fields.Get().Schema.Fields[0].Label); diff != "" {
		t.Error(diff)
	}
}

func TestFieldsChangePlaces(t *testing.T) {
	b := open(t, nil)
	move := func(direction, name, want string) {
		t.Helper()
		b.do(t, "/admin/fields/move", url.Values{direction: {name}, "revision": {b.Fields.Get().Schema.Revision}})
		if got := b.fieldNames(); !strings.HasPrefix(got, want) {
			t.Errorf("after %s %s the fields are %s", direction, name, got)
		}
	}
	move("down", "phone", "birth_date phone city")
	move("up", "city", "birth_date city phone")
	move("up", "birth_date", "birth_date city phone") // has nowhere to go
	move("down", "nobody", "birth_date city phone")
	same := `[{"name":"a","type":"text"},{"name":"b","type":"text"}]`
	b.do(t, "/admin/fields/json", url.Values{"source": {same}, "revision": {b.Fields.Get().Schema.Revision}})
	move("up", "b", "b a") // by their places, where the orders are the same
}

func TestAChangeOfWhatSomebodyElseChangedIsRefused(t *testing.T) {
	b := open(t, nil)
	stale := url.Values{"revision": {b.Fields.Get().Schema.Revision}, "down": {"phone"}, "name": {"phone"}, "source": {"[]"}}
	b.do(t, "/admin/fields/move", stale)
	before := b.Fields.Get()
	for path, want := range map[string]string{"/admin/fields/move": "nothing was done", "/admin/fields/remove": "nothing was done", "/admin/fields/json": "was not saved"} {
		if w := b.post(path, stale); w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
	typed := fieldValues(b, url.Values{"revision": stale["revision"], "label_en": {"As typed"}})
	w := b.post("/admin/fields/new", typed)
	if page := w.Body.String(); w.Code != http.StatusConflict || !strings.Contains(page, "As typed") || !strings.Contains(page, "was not saved") {
		t.Errorf("%d %s", w.Code, page)
	}
	if b.Fields.Get() != before {
		t.Error("something was changed")
	}
	typed.Set("revision", hidden(w.Body.String(), "revision"))
	b.do(t, "/admin/fields/new", typed) // now that it is known
}

func TestAFaultyJSONIsRefusedAndStays(t *testing.T) {
	b := open(t, nil)
	w := b.post("/admin/fields/json", url.Values{"source": {`[{"name":"city","type":"enum"}] ` + script}, "revision": {b.Fields.Get().Schema.Revision}})
	page := w.Body.String()
	if w.Code != http.StatusUnprocessableEntity || faultAt(page, "source") == "" {
		t.Errorf("%d %s", w.Code, page)
	}
	wantNoMarkup(t, page)
	if got := open(t, nil).page(t, "/admin/fields/json"); !strings.Contains(got, "customer_number") {
		t.Error("the file is not shown")
	}
}

func TestTextsOfTheSchemaAreNeverMarkup(t *testing.T) {
	b := open(t, nil)
	b.do(t, "/admin/fields/new", fieldValues(b, url.Values{"label_en": {script}, "group": {script}, "default": {script}, "type": {"long_text"}}))
	wantNoMarkup(t, b.page(t, "/admin/fields"))
	wantNoMarkup(t, b.page(t, "/admin/fields/edit/nickname"))
	wantNoMarkup(t, b.page(t, "/admin/fields/json"))
	if w := b.get("/admin/fields/edit/%3Cscript%3E"); w.Code != http.StatusNotFound {
		t.Errorf("a field that is not there: %d", w.Code)
	}
}
