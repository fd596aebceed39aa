package system

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// schema has a field of every type. The fields stand in another order than they
// are shown in.
const schema = `[
 {"name":"interests","type":"tags","order":9,"max_length":10},
 {"name":"phone","type":"text","label":{"en":"Phone","ru":"Телефон"},"pattern":"\\+[0-9]{5,15}","group":"contact","order":1},
 {"name":"about","type":"long_text","max_length":10,"order":2},
 {"name":"age","type":"integer","min":0,"max":150,"order":3},
 {"name":"height","type":"number","max":3,"order":4},
 {"name":"newsletter","type":"boolean","default":false,"order":5},
 {"name":"birthday","type":"date","order":6},
 {"name":"visited","type":"datetime","order":6},
 {"name":"colour","type":"enum","options":[{"value":"red","label":{"en":"Red","ru":"Красный"}},{"value":"blue"}],"order":7},
 {"name":"avatar","type":"file","order":8},
 {"name":"company","type":"link","order":8},
 {"name":"friends","type":"link_set","order":8},
 {"name":"secret_note","type":"text","hidden":true,"order":8},
 {"name":"customer_number","type":"text","read_only":true,"order":10}
]`

// shownFields are the fields of the schema that are not hidden, in its order.
var shownFields = []string{"phone", "about", "age", "height", "newsletter", "birthday", "visited", "colour",
	"avatar", "company", "friends", "interests", "customer_number"}

type fieldTest struct {
	field string
	value any
	want  any // nil: unset; a fault: refused with that code
}

func invalid(code string) any { return fault{Code: code} }

var fieldTests = []fieldTest{
	{"phone", "+74951234567", "+74951234567"},
	{"phone", "x+74951234567", invalid("invalid_format")},
	{"phone", "+74951234567x", invalid("invalid_format")},
	{"phone", 74951234567, invalid("invalid_type")},
	{"phone", []string{"+74951234567"}, invalid("invalid_type")},
	{"about", "десять__10", "десять__10"},
	{"about", "одиннадцать", invalid("too_long")},
	{"about", "two\nlines", "two\nlines"},
	{"age", 42, 42.0},
	{"age", "42", 42.0},
	{"age", 0, 0.0},
	{"age", 150, 150.0},
	{"age", -1, invalid("out_of_range")},
	{"age", 151, invalid("out_of_range")},
	{"age", "151", invalid("out_of_range")},
	{"age", 1.5, invalid("invalid_type")},
	{"age", "forty", invalid("invalid_type")},
	{"age", true, invalid("invalid_type")},
	{"age", []string{"1"}, invalid("invalid_type")},
	{"height", 1.85, 1.85},
	{"height", "1.85", 1.85},
	{"height", 2, 2.0},
	{"height", 3.01, invalid("out_of_range")},
	{"height", "NaN", invalid("invalid_type")},
	{"height", "Infinity", invalid("invalid_type")},
	{"height", "0x1p1", invalid("invalid_type")},
	{"newsletter", true, true},
	{"newsletter", "true", true},
	{"newsletter", "1", true},
	{"newsletter", "on", true},
	{"newsletter", false, false},
	{"newsletter", "false", false},
	{"newsletter", "0", false},
	{"newsletter", "off", false},
	{"newsletter", "yes", invalid("invalid_type")},
	{"newsletter", 2, invalid("invalid_type")},
	{"birthday", "2024-02-29", "2024-02-29"},
	{"birthday", "2023-02-29", invalid("invalid_format")},
	{"birthday", "29.02.2024", invalid("invalid_format")},
	{"birthday", "2024-02-29T00:00:00Z", invalid("invalid_format")},
	{"birthday", 20240229, invalid("invalid_type")},
	{"visited", "2024-05-06T07:08:09Z", "2024-05-06T07:08:09Z"},
	{"visited", "2024-05-06", invalid("invalid_format")},
	{"visited", "2024-05-06 07:08:09", invalid("invalid_format")},
	{"visited", "2024-05-06T25:08:09Z", invalid("invalid_format")},
	{"colour", "red", "red"},
	{"colour", "blue", "blue"},
	{"colour", "green", invalid("not_in_list")},
	{"colour", "Red", invalid("not_in_list")},
	{"avatar", "https://files.example/a.png", "https://files.example/a.png"},
	{"avatar", "http://files.example/a.png?x=1", "http://files.example/a.png?x=1"},
	{"avatar", "images/a.png", "images/a.png"},
	{"avatar", "javascript:alert(1)", invalid("invalid_format")},
	{"avatar", "ftp://files.example/a.png", invalid("invalid_format")},
	{"avatar", "../a.png", invalid("invalid_format")},
	{"avatar", "images/../../a.png", invalid("invalid_format")},
	{"avatar", "/etc/passwd", invalid("invalid_format")},
	{"avatar", "//evil.example/a.png", invalid("invalid_format")},
	{"company", "17", "17"},
	{"friends", []string{"1", "2"}, []any{"1", "2"}},
	{"friends", []string{}, []any{}},
	{"interests", []string{"go", "музыка"}, []any{"go", "музыка"}},
	{"interests", "go", []any{"go"}},
	{"interests", []string{"eleven_chars"}, invalid("too_long")},
	{"avatar", strings.Repeat("a", 2048), strings.Repeat("a", 2048)},
	{"avatar", strings.Repeat("a", 2049), invalid("too_long")},
	{"company", strings.Repeat("7", 256), invalid("too_long")},
	{"friends", slices.Repeat([]string{"7"}, 1001), invalid("too_long")},
	{"interests", []any{"go", 1}, invalid("invalid_type")},
	{"interests", params{"go": true}, invalid("invalid_type")},
	{"name", "Анна", "Анна"},
	{"name", "a\x01b", invalid("invalid_format")},
	{"secret_note", "x", invalid("read_only")},
	{"customer_number", "x", invalid("read_only")},
	{"roles", "admin", invalid("read_only")},
	{"nonsense", "x", invalid("unknown_field")},
}

func testUserFields(t *testing.T, s *system) {
	u := s.newUser(t)
	for _, test := range fieldTests {
		sent, err := json.Marshal(test.value)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(fmt.Sprintf("%s of %.60s", test.field, sent), func(t *testing.T) {
			a := s.postAs(t, u.pair, "profile/", params{test.field: test.value})
			if refused, is := test.want.(fault); is {
				a.wantFaults(t, "validation_failed", faults{test.field: refused.Code})
				return
			}
			if diff := cmp.Diff(test.want, a.profile(t)[test.field]); diff != "" {
				t.Fatalf("%s (-want +got):\n%s", test.field, diff)
			}
			if name := s.postAs(t, u.pair, "profile/", params{test.field: nil}).profile(t)[test.field]; name != nil {
				t.Fatalf("%s, cleared by null, is %v", test.field, name)
			}
		})
	}
	t.Run("the same fields by JSON, form and multipart", func(t *testing.T) { testEncodings(t, s) })
}

// testEncodings registers the same person three times over.
func testEncodings(t *testing.T, s *system) {
	fields := params{"name": "Анна", "phone": "+74951234567", "age": 42, "height": 1.5, "newsletter": true,
		"birthday": "1999-12-31", "colour": "blue", "friends": []string{"7"}, "interests": []string{"go", "cms"}}
	form := map[string][]string{"name": {"Анна"}, "phone": {"+74951234567"}, "age": {"42"}, "height": {"1.5"}, "newsletter": {"on"},
		"birthday": {"1999-12-31"}, "colour": {"blue"}, "friends[]": {"7"}, "interests": {"go", "cms"}, "about": {""}}
	byJSON := s.post(t, "register/", applicant(fields)).profile(t)

	login := unique()
	for name, value := range applicant(params{"login": login, "email": login + "@mail.example"}) {
		form[name] = []string{value.(string)}
	}
	byForm := s.do(t, call{path: "register/", form: form}).profile(t)

	other := unique()
	form["login"], form["email"] = []string{other}, []string{other + "@mail.example"}
	form["interests[]"], form["interests"] = form["interests"], nil
	var pairs []string
	for name, values := range form {
		for _, value := range values {
			pairs = append(pairs, name, value)
		}
	}
	body, mediaType := multipartOf(t, pairs...)
	byParts := s.do(t, call{path: "register/", body: strings.NewReader(body), header: map[string][]string{"Content-Type": {mediaType}}}).profile(t)

	for _, profile := range []map[string]any{byJSON, byForm, byParts} {
		delete(profile, "login")
		delete(profile, "email")
	}
	want := map[string]any{"name": "Анна", "phone": "+74951234567", "about": nil, "age": 42.0, "height": 1.5, "newsletter": true,
		"birthday": "1999-12-31", "visited": nil, "colour": "blue", "avatar": nil, "company": nil, "friends": []any{"7"},
		"interests": []any{"go", "cms"}, "customer_number": nil}
	for encoding, profile := range map[string]map[string]any{"JSON": byJSON, "form": byForm, "multipart": byParts} {
		if diff := cmp.Diff(want, profile); diff != "" {
			t.Errorf("registered by %s (-want +got):\n%s", encoding, diff)
		}
	}
}
