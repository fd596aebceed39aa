package personaladmin_test

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/shared/personal"
)

// fieldValues returns what a browser posts for a new text field.
func fieldValues(b *browser, more url.Values) url.Values {
	values := url.Values{
		"revision": {b.fields.Get().Schema.Revision}, "rows": {"3"}, "do": {"save"},
		"name": {"nickname"}, "type": {"text"}, "order": {"5"},
	}
	maps.Copy(values, more)
	return values
}

func (b *browser) fieldNames() string {
	var names []string
	for _, f := range b.fields.Get().Schema.Fields {
		names = append(names, f.Name)
	}
	return strings.Join(names, " ")
}

func TestFields_ListIsInOrderWithPreviews(t *testing.T) {
	page := open(t).page(t, "/admin/fields")
	last := -1
	for _, name := range []string{"phone", "birth_date", "city", "internal_note"} {
		at := strings.Index(page, `id="listed-`+name+`"`)
		if at <= last {
			t.Errorf("%s: got position %d in the page, want one after %d", name, at, last)
		}
		last = at
	}
	wantAll(t, page, `id="field-preview_en_phone"`, `id="field-preview_ru_phone"`, ">Phone", ">Телефон",
		`<section class="card preview" lang="ru"`)
	wantNone(t, page, "preview_en_internal_note") // a hidden field
}

func TestFields_EveryPropertyCanBeSet(t *testing.T) {
	b := open(t)
	five := 5.0
	half := 0.5
	tests := map[string]struct {
		values url.Values
		want   personal.Field
	}{
		"text": {
			url.Values{"label_en": {"Nick"}, "label_ru": {"Прозвище"}, "required": {"true"}, "default": {"x"}, "max_length": {"20"}, "pattern": {`[a-z]+`}, "group": {"about"},
				"hint_en": {"Up to 20 letters."}, "hint_ru": {"До 20 букв."}, "pattern_message_en": {"Use small letters."}},
			personal.Field{Name: "nickname", Type: "text", Label: personal.LocalText{"en": "Nick", "ru": "Прозвище"}, Required: true,
				Default: personal.Text("x"), MaxLength: 20, Pattern: "[a-z]+", Order: 5, Group: "about",
				Hint: personal.LocalText{"en": "Up to 20 letters.", "ru": "До 20 букв."}, PatternMessage: personal.LocalText{"en": "Use small letters."}},
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
			fields := b.fields.Get().Schema.Fields
			if len(test.want.Label) == 0 {
				test.want.Label = nil
			}
			if diff := cmp.Diff(test.want, fields[0]); diff != "" {
				t.Errorf("the saved field (-want +got):\n%s", diff)
			}
			// Saving the form as it is shown changes nothing.
			b.do(t, "/admin/fields/edit/nickname", shownValues(t, b.page(t, "/admin/fields/edit/nickname")))
			if diff := cmp.Diff(fields, b.fields.Get().Schema.Fields); diff != "" {
				t.Errorf("after saving the unchanged form (-want +got):\n%s", diff)
			}
			b.do(t, "/admin/fields/remove", url.Values{"name": {"nickname"}, "revision": {b.fields.Get().Schema.Revision}})
			if strings.Contains(b.fieldNames(), "nickname") {
				t.Error("after removing the field: it is in the schema, want it gone")
			}
		})
	}
}

func TestFields_InvalidFieldIsRefusedAtItsControl(t *testing.T) {
	b := open(t)
	for control, test := range map[string]struct {
		values url.Values
		want   string
	}{
		"name":           {url.Values{"name": {"Nick Name"}}, "snake case"},
		"type":           {url.Values{"type": {"colour"}}, "unknown type"},
		"required":       {url.Values{"required": {"true"}, "hidden": {"true"}}, "could not fill it in"},
		"default":        {url.Values{"type": {"integer"}, "default": {"many"}}, "refuse its default"},
		"max_length":     {url.Values{"type": {"date"}, "max_length": {"3"}}, "no max_length"},
		"pattern":        {url.Values{"pattern": {"("}}, "bad pattern"},
		"min":            {url.Values{"type": {"number"}, "min": {"2"}, "max": {"1"}}, "above max"},
		"max":            {url.Values{"type": {"number"}, "max": {"NaN"}}, "not a number"},
		"order":          {url.Values{"order": {"first"}}, "not a whole number"},
		"option_0_value": {url.Values{"type": {"enum"}}, "needs options"},
	} {
		values := fieldValues(b, test.values)
		values.Set("group", script)
		revision := b.fields.Get().Schema.Revision
		for _, do := range []string{"save", "preview"} {
			values.Set("do", do)
			w := b.post("/admin/fields/new", values)
			page := w.Body.String()
			if w.Code != http.StatusUnprocessableEntity || !strings.Contains(fieldError(page, control), test.want) {
				t.Errorf("%s, %s: got status %d and field error %q, want 422 and %q", control, do, w.Code, fieldError(page, control), test.want)
			}
			if !strings.Contains(page, `href="#field-`+control+`"`) {
				t.Errorf("%s: the summary has no link to the control", control)
			}
			wantNoMarkup(t, page)
		}
		if b.fields.Get().Schema.Revision != revision {
			t.Errorf("%s: an invalid field was saved", control)
		}
	}
}

func TestFields_DuplicateNameIsRefusedAtTheName(t *testing.T) {
	b := open(t)
	values := shownValues(t, b.page(t, "/admin/fields/edit/phone"))
	values.Set("name", "city")
	w := b.post("/admin/fields/edit/phone", values)
	if got := fieldError(w.Body.String(), "name"); w.Code != http.StatusUnprocessableEntity || !strings.Contains(got, "twice") {
		t.Errorf("got status %d and field error %q, want 422 and %q", w.Code, got, "twice")
	}
}

func TestFields_PreviewSavesNothing(t *testing.T) {
	b := open(t)
	before := b.fields.Get()
	w := b.post("/admin/fields/new", fieldValues(b, url.Values{"do": {"preview"}, "type": {"boolean"}, "label_ru": {script}}))
	page := w.Body.String()
	if w.Code != http.StatusOK || !strings.Contains(page, `id="field-preview_ru_nickname"`) || b.fields.Get() != before {
		t.Errorf("got status %d, want 200, a preview and an unchanged schema: %s", w.Code, page)
	}
	wantNoMarkup(t, page)
}

func TestFields_MoreRowsKeepTypedOptions(t *testing.T) {
	b := open(t)
	w := b.post("/admin/fields/new", fieldValues(b, url.Values{"do": {"more"}, "type": {"enum"}, "option_2_value": {"third"}}))
	if page := w.Body.String(); !strings.Contains(page, `name="option_5_value"`) ||
		!strings.Contains(page, `name="option_2_value" type="text" value="third"`) {
		t.Errorf("got status %d, want 6 rows with the third as typed: %s", w.Code, page)
	}
}

func TestFields_TextsInOtherLanguagesAreKept(t *testing.T) {
	b := open(t)
	source := `[{"name":"nickname","type":"text","label":{"de":"Spitzname"},"hint":{"fr":"Court."},"pattern_message":{"it":"Solo lettere."}}]`
	b.do(t, "/admin/fields/json", url.Values{"source": {source}, "revision": {b.fields.Get().Schema.Revision}})
	values := shownValues(t, b.page(t, "/admin/fields/edit/nickname"))
	values.Set("label_en", "Nickname")
	b.do(t, "/admin/fields/edit/nickname", values)
	want := personal.Field{Name: "nickname", Type: personal.TypeText, Label: personal.LocalText{"de": "Spitzname", "en": "Nickname"},
		Hint: personal.LocalText{"fr": "Court."}, PatternMessage: personal.LocalText{"it": "Solo lettere."}}
	if diff := cmp.Diff(want, b.fields.Get().Schema.Fields[0]); diff != "" {
		t.Errorf("the field (-want +got):\n%s", diff)
	}
}

// A made-up 0.3.0 has a type of texts with a unit.
func TestFields_FieldOfALaterVersionIsKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "user-fields.json")
	source := `[{"name":"height","type":"measure","label":{"en":"Height"},"unit":"m"},{"name":"phone","type":"text"}]`
	if err := os.WriteFile(path, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	b := openAt(t, path)
	page := b.page(t, "/admin/fields")
	wantAll(t, page, ">Height<", "· measure")
	wantNone(t, page, "preview_en_height")
	values := shownValues(t, b.page(t, "/admin/fields/edit/phone"))
	values.Set("label_en", "Phone")
	b.do(t, "/admin/fields/edit/phone", values)
	b.do(t, "/admin/fields/move", url.Values{"down": {"height"}, "revision": {b.fields.Get().Schema.Revision}})
	if source := string(b.fields.Get().Source); b.fieldNames() != "phone height" || !strings.Contains(source, `"unit": "m"`) || !strings.Contains(source, "Phone") {
		t.Errorf("got the fields %s, want the unit of height and the label of phone", source)
	}
	b.users.Administration = newUsers()
	user := b.page(t, "/admin/users/42")
	wantAll(t, user, `id="field-phone"`)
	wantNone(t, user, "field-height")
	if w := b.get("/admin/fields/edit/height"); w.Code != http.StatusConflict {
		t.Errorf("its form: got status %d, want 409", w.Code)
	}
	values.Set("revision", b.fields.Get().Schema.Revision)
	if w := b.post("/admin/fields/edit/height", values); w.Code != http.StatusConflict || b.fieldNames() != "phone height" {
		t.Errorf("a change of it: got status %d and the fields %s, want 409 and both", w.Code, b.fieldNames())
	}
}

func TestFields_MoveChangesTheOrder(t *testing.T) {
	b := open(t)
	move := func(direction, name, want string) {
		t.Helper()
		b.do(t, "/admin/fields/move", url.Values{direction: {name}, "revision": {b.fields.Get().Schema.Revision}})
		if got := b.fieldNames(); !strings.HasPrefix(got, want) {
			t.Errorf("after %s %s: got the fields %s, want %s first", direction, name, got, want)
		}
	}
	move("down", "phone", "birth_date phone city")
	move("up", "city", "birth_date city phone")
	move("up", "birth_date", "birth_date city phone") // is the first already
	move("down", "unknown", "birth_date city phone")
	same := `[{"name":"a","type":"text"},{"name":"b","type":"text"}]`
	b.do(t, "/admin/fields/json", url.Values{"source": {same}, "revision": {b.fields.Get().Schema.Revision}})
	move("up", "b", "b a") // also where the orders are equal
}

func TestFields_ChangeOfAnOldRevisionIsRefused(t *testing.T) {
	b := open(t)
	stale := url.Values{"revision": {b.fields.Get().Schema.Revision}, "down": {"phone"}, "name": {"phone"}, "source": {"[]"}}
	b.do(t, "/admin/fields/move", stale)
	before := b.fields.Get()
	for path, want := range map[string]string{"/admin/fields/move": "your change was not made",
		"/admin/fields/remove": "your change was not made", "/admin/fields/json": "was not saved"} {
		if w := b.post(path, stale); w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: got status %d, want 409 and %q", path, w.Code, want)
		}
	}
	typed := fieldValues(b, url.Values{"revision": stale["revision"], "label_en": {"As typed"}})
	w := b.post("/admin/fields/new", typed)
	if page := w.Body.String(); w.Code != http.StatusConflict || !strings.Contains(page, "As typed") ||
		!strings.Contains(page, "was not saved") {
		t.Errorf("the form of a field: got status %d, want 409 and what was typed: %s", w.Code, page)
	}
	if b.fields.Get() != before {
		t.Error("a refused change was saved")
	}
	typed.Set("revision", hidden(w.Body.String(), "revision"))
	b.do(t, "/admin/fields/new", typed) // the current revision
}

func TestFields_InvalidJSONIsRefusedAsTyped(t *testing.T) {
	b := open(t)
	w := b.post("/admin/fields/json", url.Values{"source": {`[{"name":"city","type":"enum"}] ` + script},
		"revision": {b.fields.Get().Schema.Revision}})
	page := w.Body.String()
	if w.Code != http.StatusUnprocessableEntity || fieldError(page, "source") == "" {
		t.Errorf("got status %d, want 422 and a field error: %s", w.Code, page)
	}
	wantNoMarkup(t, page)
	wantAll(t, b.page(t, "/admin/fields/json"), "customer_number") // the file is unchanged
}

func TestFields_TextsOfTheSchemaAreEscaped(t *testing.T) {
	b := open(t)
	b.do(t, "/admin/fields/new", fieldValues(b, url.Values{"label_en": {script}, "group": {script}, "default": {script},
		"type": {"long_text"}}))
	wantNoMarkup(t, b.page(t, "/admin/fields"))
	wantNoMarkup(t, b.page(t, "/admin/fields/edit/nickname"))
	wantNoMarkup(t, b.page(t, "/admin/fields/json"))
	if w := b.get("/admin/fields/edit/%3Cscript%3E"); w.Code != http.StatusNotFound {
		t.Errorf("an unknown field: got status %d, want 404", w.Code)
	}
}

// nicknames is a plugin that finds that users lack a nickname, if it is required, and
// nothing else. It returns the schemas that it was asked about.
func (b *browser) nicknames() (asked *[][]personal.Field) {
	asked = &[][]personal.Field{}
	b.debt.PreviewFieldsFunc = func(_ context.Context, fields []personal.Field) (personal.FieldsPreview, error) {
		*asked = append(*asked, fields)
		found := personal.FieldsPreview{Accounts: 40000, Complete: true}
		for _, f := range fields {
			if f.Name == "nickname" && f.Required {
				found.Violations, found.Fillable, found.Complete = 1203, 1180, false
				found.Examples = []personal.FieldsViolation{
					{UserID: 42, Login: "anna", Fields: personal.FieldErrors{"nickname": personal.FieldErrorRequired}},
					{UserID: 43, Login: script, Fields: personal.FieldErrors{"nickname": personal.FieldErrorInvalidFormat}},
				}
			}
		}
		return found, nil
	}
	b.debt.FieldsFillFunc = func(context.Context) (personal.FieldsFill, error) { return personal.FieldsFill{}, nil }
	return asked
}

// required are the values of a field that existing users lack.
func required() url.Values {
	return url.Values{"required": {"true"}, "default": {"guest"}, "label_en": {"Nick"}, "pattern_message_en": {"Small letters."}}
}

func TestFields_ShowsWhatAChangeDoesBeforeItIsSaved(t *testing.T) {
	b := open(t)
	b.nicknames()
	before := b.fields.Get()
	revision := before.Schema.Revision
	withNickname := `[{"name":"nickname","type":"text","label":{"en":"Nick"},"required":true,"default":"guest","pattern_message":{"en":"Small letters."}}]`
	for path, values := range map[string]url.Values{
		"/admin/fields/new":  fieldValues(b, required()),
		"/admin/fields/json": {"source": {withNickname}, "revision": {revision}},
	} {
		w := b.post(path, values)
		page := w.Body.String()
		if w.Code != http.StatusOK || b.fields.Get() != before {
			t.Fatalf("%s: got status %d, want 200 and nothing saved: %s", path, w.Code, page)
		}
		wantAll(t, page, "Nothing is saved yet", "At least 1203 of 40000 checked users", "1180 of them only need default values",
			`<h2>Nick: no value</h2>`, `<a href="/admin/users/42">anna</a></bdi>`, `<a href="/admin/users/43">`, "Nick: Small letters.",
			`name="violations" value="ask"`, `name="violations" value="default"`, `href="/admin/fields">Do not save`)
		wantNoMarkup(t, page)
		edited := b.post("/admin/fields/json", url.Values{"do": {"edit"}, "source": {hidden(page, "source")},
			"revision": {revision}}).Body.String()
		if !strings.Contains(edited, "nickname") || hidden(edited, "revision") != revision || b.fields.Get() != before {
			t.Errorf("changing the proposal: got %s, want a form with it, and nothing saved", edited)
		}
		if path == "/admin/fields/json" && hidden(page, "source") != withNickname {
			t.Errorf("got source %s, want it as typed", hidden(page, "source"))
		}
		if hidden(page, "revision") != revision {
			t.Errorf("%s: got revision %s, want that of the form", path, hidden(page, "revision"))
		}
	}
}

func TestFields_SavesAsTheAdministratorChooses(t *testing.T) {
	for choice, want := range map[string]string{"ask": "The user fields have been saved.", "default": "The defaults are being filled in"} {
		b := open(t)
		b.nicknames()
		var filled []string
		b.debt.FillFieldsFunc = func(_ context.Context, revision string) error {
			filled = append(filled, revision)
			return nil
		}
		page := b.post("/admin/fields/new", fieldValues(b, required())).Body.String()
		proposed := url.Values{"source": {hidden(page, "source")}, "revision": {hidden(page, "revision")}, "violations": {choice}}
		unknown := maps.Clone(proposed)
		unknown["violations"] = []string{"all"}
		if w := b.post("/admin/fields/choose", unknown); w.Code != http.StatusBadRequest {
			t.Errorf("an unknown choice: got status %d, want 400", w.Code)
		}
		browsers := maps.Clone(proposed) // which send the ends of lines like this
		browsers.Set("source", strings.ReplaceAll(proposed.Get("source"), "\n", "\r\n"))
		w := b.post("/admin/fields/choose", browsers)
		if w.Code != http.StatusSeeOther || string(b.fields.Get().Source) != proposed.Get("source") ||
			!strings.HasPrefix(b.fieldNames(), "nickname") {
			t.Errorf("%s: got status %d and the schema %s, want the proposed one", choice, w.Code, b.fields.Get().Source)
		}
		wantAll(t, b.page(t, "/admin/fields"), want)
		if fills := len(filled); fills != map[string]int{"default": 1}[choice] || fills > 0 && filled[0] != b.fields.Get().Schema.Revision {
			t.Errorf("%s: got fillings of %q, want one of the saved revision if chosen", choice, filled)
		}
		after := b.fields.Get()
		if w := b.post("/admin/fields/choose", proposed); w.Code != http.StatusConflict ||
			!strings.Contains(w.Body.String(), "your change was not made") || b.fields.Get() != after {
			t.Errorf("%s, of an old revision: got status %d, want 409 and nothing saved", choice, w.Code)
		}
	}
}

func TestFields_FillingThatDoesNotStartIsTold(t *testing.T) {
	b := open(t)
	b.nicknames() // and FillFields fails
	page := b.post("/admin/fields/new", fieldValues(b, required())).Body.String()
	b.do(t, "/admin/fields/choose", url.Values{"source": {hidden(page, "source")}, "revision": {hidden(page, "revision")},
		"violations": {"default"}})
	wantAll(t, b.page(t, "/admin/fields"), "did not start to fill in the defaults", "nickname")
}

func TestFields_ChangesThatCannotViolateAreSavedUnchecked(t *testing.T) {
	b := open(t)
	asked := b.nicknames()
	b.do(t, "/admin/fields/new", fieldValues(b, nil))
	if len(*asked) != 1 {
		t.Fatalf("a new field: got %d checks, want 1", len(*asked))
	}
	edit := func(more url.Values) {
		t.Helper()
		values := shownValues(t, b.page(t, "/admin/fields/edit/nickname"))
		maps.Copy(values, more)
		values.Set("do", "save")
		b.do(t, "/admin/fields/edit/nickname", values)
	}
	edit(url.Values{"label_en": {"Nick"}, "hint_en": {"Short."}, "pattern_message_en": {"Small letters."}, "group": {"about"}, "order": {"15"},
		"default": {"guest"}})
	b.do(t, "/admin/fields/move", url.Values{"down": {"phone"}, "revision": {b.fields.Get().Schema.Revision}})
	b.do(t, "/admin/fields/remove", url.Values{"name": {"nickname"}, "revision": {b.fields.Get().Schema.Revision}})
	if len(*asked) != 1 {
		t.Errorf("label, place, default, removal: got %d checks, want none", len(*asked)-1)
	}
	b.do(t, "/admin/fields/new", fieldValues(b, nil)) // values of the removed field may be stored
	for _, more := range []url.Values{{"max_length": {"3"}}, {"pattern": {"[a-z]+"}}, {"type": {"link"}, "pattern": {""}}} {
		before := len(*asked)
		edit(more)
		if len(*asked) != before+1 {
			t.Errorf("%v: got %d checks, want 1", more, len(*asked)-before)
		}
	}
}

// A field that becomes read-only keeps what users typed.
func TestFields_WarnsOfValuesThatUsersTyped(t *testing.T) {
	b := open(t)
	kept := map[string]int64{}
	b.debt.PreviewFieldsFunc = func(context.Context, []personal.Field) (personal.FieldsPreview, error) {
		return personal.FieldsPreview{Accounts: 40, Complete: true, Kept: kept}, nil
	}
	b.do(t, "/admin/fields/new", fieldValues(b, url.Values{"label_en": {"Nick"}}))
	before := b.fields.Get()
	kept["nickname"] = 7
	values := shownValues(t, b.page(t, "/admin/fields/edit/nickname"))
	values.Set("read_only", "true")
	values.Set("do", "save")
	w := b.post("/admin/fields/edit/nickname", values)
	page := w.Body.String()
	if w.Code != http.StatusOK || b.fields.Get() != before {
		t.Fatalf("got status %d, want 200 and nothing saved: %s", w.Code, page)
	}
	wantAll(t, page, "Nothing is saved yet", "Nick becomes read-only and keeps the values of 7 users, who may have typed them", `value="ask">Save<`)
	if strings.Contains(page, "checked users") {
		t.Errorf("got %s, want nothing about violations", page)
	}
	b.do(t, "/admin/fields/choose", url.Values{"source": {hidden(page, "source")}, "revision": {hidden(page, "revision")}, "violations": {"ask"}})
	if f := b.fields.Get().Schema.Fields[0]; f.Name != "nickname" || !f.ReadOnly {
		t.Errorf("got %+v, want it saved once the administrator has chosen that", f)
	}
}

func TestFields_UnfinishedCheckAsks(t *testing.T) {
	b := open(t)
	b.debt.PreviewFieldsFunc = func(context.Context, []personal.Field) (personal.FieldsPreview, error) {
		return personal.FieldsPreview{Accounts: 100}, nil
	}
	w := b.post("/admin/fields/new", fieldValues(b, nil))
	if w.Code != http.StatusOK {
		t.Fatalf("got status %d, want 200", w.Code)
	}
	wantAll(t, w.Body.String(), "Users checked: 100.", "before it had read all users", `value="ask"`)
}

func TestFields_UnavailablePluginSavesNothing(t *testing.T) {
	b := open(t)
	b.debt.PreviewFieldsFunc = func(context.Context, []personal.Field) (personal.FieldsPreview, error) {
		return personal.FieldsPreview{}, personal.NewError(personal.CodeUnavailable, nil)
	}
	before := b.fields.Get()
	for path, values := range map[string]url.Values{
		"/admin/fields/new":  fieldValues(b, required()),
		"/admin/fields/json": {"source": {`[{"name":"nickname","type":"text","required":true}]`}, "revision": {before.Schema.Revision}},
	} {
		w := b.post(path, values)
		if w.Code != http.StatusServiceUnavailable || b.fields.Get() != before {
			t.Errorf("%s: got status %d, want 503 and nothing saved", path, w.Code)
		}
		wantAll(t, w.Body.String(), "Nothing was saved: the plugin is not responding", "nickname")
	}
}

func TestFields_ProgressOfTheFilling(t *testing.T) {
	b := open(t)
	b.nicknames()
	fill := personal.FieldsFill{
		Revision: "another", State: personal.FillRunning, Checked: 500, Total: 1200, Filled: 499, Started: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
	}
	b.debt.FieldsFillFunc = func(context.Context) (personal.FieldsFill, error) { return fill, nil }
	page := b.page(t, "/admin/fields")
	wantAll(t, page, `<progress max="1200" value="500" aria-label="Progress of the filling"`, "Users checked: 500 of 1200, filled in: 499.",
		`datetime="2026-01-02T03:04:05Z"`)
	next := regexp.MustCompile(`hx-get="([^"]*)"`).FindStringSubmatch(page)
	if next == nil {
		t.Fatalf("want a part that asks for the progress:\n%s", page)
	}
	if w := b.get(next[1]); w.Code != http.StatusNoContent {
		t.Errorf("without progress: got status %d, want 204", w.Code)
	}
	fill.Checked = 1000
	if w := b.get(next[1]); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `value="1000"`) ||
		strings.Contains(w.Body.String(), "<h1") {
		t.Errorf("with progress: got %d %s, want the part", w.Code, w.Body)
	}
	for state, want := range map[personal.FillState]string{
		personal.FillDone: "Users whose defaults were filled in: 499 of 1000.", personal.FillSuperseded: "The filling ended early",
	} {
		fill.State, fill.Ended, fill.Revision = state, fill.Started.Add(time.Minute), b.fields.Get().Schema.Revision
		for _, page := range []string{b.page(t, "/admin/fields"), b.get(next[1]).Body.String()} {
			wantAll(t, page, want, `datetime="2026-01-02T03:05:05Z"`)
			wantNone(t, page, "hx-get", "<progress")
		}
	}
	fill.State, fill.Revision = personal.FillDone, "another"
	wantNone(t, b.page(t, "/admin/fields"), "Defaults were filled in") // for a schema that is no longer in force
}

func TestFields_RemovedFieldCanBePutBack(t *testing.T) {
	b := open(t)
	asked := b.nicknames()
	before := b.fields.Get().Schema
	removed := func() url.Values {
		t.Helper()
		b.do(t, "/admin/fields/remove", url.Values{"name": {"birth_date"}, "revision": {b.fields.Get().Schema.Revision}})
		wantAll(t, b.page(t, "/admin/fields"), "The field birth_date was removed.", `action="/admin/fields/put-back"`, "Undo")
		return url.Values{"revision": {b.fields.Get().Schema.Revision}}
	}
	b.do(t, "/admin/fields/put-back", removed())
	if diff := cmp.Diff(before.Fields, b.fields.Get().Schema.Fields); diff != "" {
		t.Errorf("the schema after undoing (-want +got):\n%s", diff)
	}
	wantNone(t, b.page(t, "/admin/fields"), "put-back")

	undo := removed()
	b.do(t, "/admin/fields/move", url.Values{"down": {"phone"}, "revision": undo["revision"]})
	wantNone(t, b.page(t, "/admin/fields"), "put-back")
	changed := b.fields.Get()
	for _, revision := range []string{undo.Get("revision"), changed.Schema.Revision} {
		if w := b.post("/admin/fields/put-back", url.Values{"revision": {revision}}); w.Code != http.StatusConflict || b.fields.Get() != changed {
			t.Errorf("after another change: got status %d, want 409 and nothing changed", w.Code)
		}
	}
	if len(*asked) != 0 {
		t.Errorf("got %d checks, want none", len(*asked))
	}
}

func TestFields_ReasonsAreGroupedAndZerosLeftOut(t *testing.T) {
	b := open(t)
	b.debt.PreviewFieldsFunc = func(context.Context, []personal.Field) (personal.FieldsPreview, error) {
		missing := personal.FieldErrors{"nickname": personal.FieldErrorRequired}
		return personal.FieldsPreview{Accounts: 9, Violations: 3, Complete: true, Examples: []personal.FieldsViolation{
			{UserID: 1, Login: "anna", Fields: missing}, {UserID: 2, Login: script, Fields: missing}, {UserID: 3, Login: "vera", Fields: personal.FieldErrors{"nickname": personal.FieldErrorTooLong}},
		}}, nil
	}
	page := b.post("/admin/fields/new", fieldValues(b, required())).Body.String()
	wantAll(t, page, "3 of 9 users", "anna</a></bdi>, <bdi>")
	wantNone(t, page, "For 0 of them")
	wantNoMarkup(t, page)
	if got := strings.Count(page, "<h2>Nick: "); got != 2 {
		t.Errorf("got %d reasons, want 2: each once", got)
	}
}

func TestFields_ErrorsOfTheJSONNameTheLine(t *testing.T) {
	b := open(t)
	for source, want := range map[string]string{
		"[\n  {\"name\": \"a\", \"type\": \"text\"},\n  {\"name\": \"b\",\n   \"type\": \"poem\"}\n]": "Line 4: user field b: ",
		"[\n  {\"name\": \"a\", \"type\": \"text\"},\n\n  {\"name\": \"a\", \"type\": \"text\"}]":     "Line 4: user field a: ",
		"[\n  {\"name\": \"a\",\n \"kind\": 1}]":                                                      "Line 2: user field a: ",
		"[\n  {\"name\" \"a\"}]":                                                                      "line 2, column ",
	} {
		w := b.post("/admin/fields/json", url.Values{"source": {source}, "revision": {b.fields.Get().Schema.Revision}})
		if got := fieldError(w.Body.String(), "source"); w.Code != http.StatusUnprocessableEntity || !strings.Contains(got, want) {
			t.Errorf("%s: got status %d and the error %q, want 422 and %q", source, w.Code, got, want)
		}
	}
}
