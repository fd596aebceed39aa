package userfields

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/shared/personal"
)

func TestClean_RefusesDeceptiveCharactersInChangedTexts(t *testing.T) {
	s, err := Compile([]personal.Field{
		{Name: "city", Type: personal.TypeText}, {Name: "topics", Type: personal.TypeTags}, {Name: "about", Type: personal.TypeLongText},
		{Name: "photo", Type: personal.TypeFile},
	})
	if err != nil {
		t.Fatal(err)
	}
	old := "\u202eold"
	stored := Values{"city": old, "topics": []string{old, "x"}}
	fine := map[string]personal.Input{
		"name": personal.Text("Anna \u200e\u200d"), "city": personal.Text("so\u00adft"), "topics": list("a\u00adb", "\u200dc"), "about": personal.Text(old),
	}
	var errs personal.FieldErrors
	got := s.Clean(fine, nil, nil, &errs)
	want := map[string]personal.Input{"name": fine["name"], "city": personal.Text("soft"), "topics": list("ab", "\u200dc"),
		"about": fine["about"]}
	if diff := cmp.Diff(want, got); diff != "" || errs != nil {
		t.Errorf("got errors %v, want none; parameters (-want +got):\n%s", errs, diff)
	}
	if fine["topics"].List[0] != "a\u00adb" {
		t.Error("the request was changed")
	}

	for _, r := range "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200b\u2060\ufeff" {
		text := "a" + string(r) + "b"
		for parameter, input := range map[string]personal.Input{
			"name": personal.Text(text), "city": personal.Text(text), "topics": list("x", text), "photo": personal.Text(text),
		} {
			var errs personal.FieldErrors
			s.Clean(map[string]personal.Input{parameter: input}, &old, stored, &errs)
			if errs[parameter] != personal.FieldErrorInvalidFormat {
				t.Errorf("%s with %U: got error %q, want invalid_format", parameter, r, errs[parameter])
			}
		}
	}

	errs = nil
	unchanged := map[string]personal.Input{"name": personal.Text(old), "city": personal.Text(old), "topics": list("new", old)}
	if diff := cmp.Diff(unchanged, s.Clean(unchanged, &old, stored, &errs)); diff != "" || errs != nil {
		t.Errorf("stored texts: got errors %v, want none; parameters (-want +got):\n%s", errs, diff)
	}
	s.Clean(map[string]personal.Input{"name": personal.Text(old)}, nil, stored, &errs)
	if errs["name"] == "" || strings.Contains(string(errs["name"]), "old") {
		t.Errorf("the stored text of another parameter: got error %q, want invalid_format", errs["name"])
	}
}
