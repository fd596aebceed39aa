package ui_test

import (
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalweb/ui"
)

// posted returns a form as a browser sends it.
func posted(t *testing.T, values url.Values) ui.Posted {
	t.Helper()
	r := httptest.NewRequest("POST", "/", strings.NewReader(values.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	p, err := ui.ReadForm(httptest.NewRecorder(), r)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestChanges_OnlyWhatDiffersFromThePage(t *testing.T) {
	long := strings.Repeat("длинно ", 1000)
	fields := []personal.Field{{Name: "bio", Type: personal.TypeLongText}, {Name: "city", Type: personal.TypeText},
		{Name: "number", Type: personal.TypeText, ReadOnly: true}}
	form := ui.Form{Controls: []ui.Control{{Name: "name", Value: "Anna"}, {Name: "bio", Value: long}, {Name: "city", Value: "Kazan"}}}
	form.Remember()
	values := url.Values{"name": {"Anna"}, "bio": {long}, "city": {"Kazan"}, "number": {"7"}}
	for _, h := range form.Hidden {
		if len(h.Value) > 100 {
			t.Errorf("%s: got %d bytes, want a digest", h.Name, len(h.Value))
		}
		values.Set(h.Name, h.Value)
	}
	if got := posted(t, values).Changes(fields); len(got) != 0 {
		t.Errorf("got changes %v, want none", got)
	}
	values.Set("bio", long+".")
	values.Set("city", "")
	want := map[string]personal.Input{"bio": personal.Text(long + "."), "city": {}}
	p := posted(t, values)
	if diff := cmp.Diff(want, p.Changes(fields)); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	again := ui.Form{Controls: []ui.Control{{Name: "city", Value: "Moscow"}}}
	again.Remember()
	again.Fill(p)
	if h := again.Hidden[0]; h.Value != "Kazan" {
		t.Errorf("after Fill: got %v, want the value that the form showed first", h)
	}
}

func TestFill_CutsWhatIsLongerThanItsControlAllows(t *testing.T) {
	const many = 3000
	controls := []ui.Control{
		{Name: "login"}, {Name: "bio", Kind: ui.KindLongText, MaxLength: 1000},
		{Name: "tags", Kind: ui.KindLongText, MaxLength: 2, MaxLines: 3}, {Name: "short", MaxLength: 1000},
	}
	form := ui.Form{Controls: controls}
	form.Remember()
	values := url.Values{"tags": {"жжж\r\nb\r\nccc\r\nd\r\ne"}, "short": {"abc"}}
	for _, name := range []string{"login", "bio", "shown:login"} {
		values.Set(name, strings.Repeat("ж", many))
	}
	form.Fill(posted(t, values))
	want := []string{strings.Repeat("ж", 255), strings.Repeat("ж", 1000), "жж\nb\ncc", "abc"}
	for i, c := range form.Controls {
		if c.Value != want[i] {
			t.Errorf("%s: got %d bytes %.20q, want %.20q", c.Name, len(c.Value), c.Value, want[i])
		}
	}
	if shown := form.Hidden[0].Value; len(shown) > 200 {
		t.Errorf("%s: got %d bytes, want no more than the page sent", form.Hidden[0].Name, len(shown))
	}
}
