package urlencoded

import (
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The first rows are those of the web platform's own tests (url/urlencoded-parser).
func TestParse_FollowsTheRulesOfBrowsers(t *testing.T) {
	for body, want := range map[string]url.Values{
		"":                 {},
		"test":             {"test": {""}},
		"test=":            {"test": {""}},
		"&&&a=b&&&&c=d&":   {"a": {"b"}, "c": {"d"}},
		"a=a&a=b&a=c":      {"a": {"a", "b", "c"}},
		"a==a":             {"a": {"=a"}},
		"a=a+b+c+d":        {"a": {"a b c d"}},
		"%=a":              {"%": {"a"}},
		"%a=a":             {"%a": {"a"}},
		"%a_=a":            {"%a_": {"a"}},
		"%61=a":            {"a": {"a"}},
		"%61+%4d%4D=":      {"a MM": {""}},
		"id=0&value=%":     {"id": {"0"}, "value": {"%"}},
		"b=%2sf%2a":        {"b": {"%2sf*"}},
		"b=%2%2af%2a":      {"b": {"%2*f*"}},
		"b=%%2a":           {"b": {"%*"}},
		"password=a;b":     {"password": {"a;b"}},
		"a=1;b=2&c":        {"a": {"1;b=2"}, "c": {""}},
		"a=%D0%AF%2B":      {"a": {"Я+"}},
		"a=%ff":            {"a": {"\xff"}},
		"=value&next=/a%2": {"": {"value"}, "next": {"/a%2"}},
	} {
		if diff := cmp.Diff(want, Parse(body)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", body, diff)
		}
	}
}

// What net/url reads, this package reads alike.
func FuzzParse_AgreesWithNetURL(f *testing.F) {
	f.Add("a=%41&b=c+d&&e")
	f.Fuzz(func(t *testing.T, body string) {
		got := Parse(body)
		if want, err := url.ParseQuery(body); err == nil {
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%q (-want +got):\n%s", body, diff)
			}
		}
		if diff := cmp.Diff(got, Parse(got.Encode())); diff != "" {
			t.Errorf("%q: the encoded values (-want +got):\n%s", body, diff)
		}
	})
}
