package personalhttp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/personalhttp"
)

// fieldsService is a service for POST profile/ that records the decoded fields.
func fieldsService(got *map[string]personal.Input) *personaltest.Service {
	s := everything()
	s.UpdateProfileFunc = func(_ context.Context, r personal.UpdateProfileRequest) (personal.Profile, error) {
		*got = r.Fields
		return personal.Profile{}, nil
	}
	return s
}

func text(s string) personal.Input { return personal.Text(s) }

func list(items ...string) personal.Input {
	return personal.Input{Kind: personal.InputList, List: items}
}

func repeated(items ...string) personal.Input {
	return personal.Input{Kind: personal.InputRepeated, List: items}
}

// parts returns a multipart body with the boundary "b" from pairs of name and value.
func parts(pairs ...string) string {
	var b strings.Builder
	for pair := range slices.Chunk(pairs, 2) {
		fmt.Fprintf(&b, "--b\r\nContent-Disposition: form-data; name=%q\r\n\r\n%s\r\n", pair[0], pair[1])
	}
	return b.String() + "--b--\r\n"
}

// names returns a form with n different names, each twice, in another encoding.
func names(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "&n%d&%%6e%d=1", i, i)
	}
	return b.String()[1:]
}

// jsonNames returns a JSON object with n different names.
func jsonNames(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"n%d":1`, i)
	}
	return "{" + b.String()[1:] + "}"
}

const multi = "multipart/form-data; boundary=b"

func TestBody_ValidBodies(t *testing.T) {
	type fields = map[string]personal.Input
	for _, c := range []struct {
		name, media, body string
		want              fields
	}{
		{"no body, whatever the type", "image/png", "", fields{}},
		{"form", form, "a=1&b=x+y%26", fields{"a": text("1"), "b": text("x y&")}},
		{"form with charset", form + `; charset="UTF-8"`, "a=%D0%AF", fields{"a": text("Я")}},
		{"form with charset as some clients spell it", form + "; charset=utf8", "a=%D0%AF", fields{"a": text("Я")}},
		{"semicolon in a form", form, "a=1;b=2", fields{"a": text("1;b=2")}},
		{"percent sign that begins no escape in a form", form, "a=100%&b=%zz", fields{"a": text("100%"), "b": text("%zz")}},
		{"type in capitals", "Application/X-WWW-Form-Urlencoded", "a=1", fields{"a": text("1")}},
		{"empty form value is not set", form, "a=&b", fields{"a": {}, "b": {}}},
		{"repeated name", form, "a=1&a=2", fields{"a": repeated("1", "2")}},
		{"repeated name drops what is empty", form, "a=&a=2", fields{"a": repeated("2")}},
		{"repeated name stays one when empty", form, "a=&a=", fields{"a": repeated()}},
		{"list", form, "a[]=1&a%5B%5D=2", fields{"a": list("1", "2")}},
		{"list of one", form, "a[]=1", fields{"a": list("1")}},
		{"empty list is not set", form, "a[]=&a[]=", fields{"a": {}}},
		{"NUL is left to the service", form, "a=%00", fields{"a": text("\x00")}},

		{"multipart form", multi, parts("a", "1", "b", "x\r\ny"), fields{"a": text("1"), "b": text("x\r\ny")}},
		{"multipart form without parts", multi, "--b--", fields{}},
		{"multipart list", multi, parts("a[]", "1", "a[]", ""), fields{"a": list("1")}},
		{"multipart repeated name", multi, parts("a", "1", "a", "2"), fields{"a": repeated("1", "2")}},
		{"multipart value that holds a boundary inside a line", multi, parts("a", "x --b--\r\n -- --b"), fields{"a": text("x --b--\r\n -- --b")}},
		{"256 parts", multi, parts(slices.Repeat([]string{"a[]", "1"}, 256)...), fields{"a": list(slices.Repeat([]string{"1"}, 256)...)}},

		{"JSON", asJSON, ` {"a":"x","b":12.50,"c":true,"d":null,"e":["1",""],"f":[1],"g":{"h":1},"i":""} ` + "\n",
			fields{"a": text("x"), "b": {Kind: personal.InputNumber, Text: "12.50"}, "c": {Kind: personal.InputBoolean, Text: "true"},
				"d": {}, "e": list("1", ""), "f": {Kind: personal.InputOther}, "g": {Kind: personal.InputOther}, "i": {}}},
		{"JSON with charset", asJSON + "; charset=us-ascii", `{}`, fields{}},
		{"JSON with a parameter that many copy from a tutorial", asJSON + "; utf-8", `{}`, fields{}},
		{"form with a parameter without a value", form + ";charset=utf-8;;=", "a=1", fields{"a": text("1")}},
		{"JSON with a byte order mark", asJSON, "\ufeff{}", fields{}},
		{"JSON with a paired surrogate", asJSON, `{"a":"\uD83D\uDE00 \\uD800"}`, fields{"a": text(`😀 \uD800`)}},
		{"JSON with a NUL", asJSON, `{"a":"\u0000"}`, fields{"a": text("\x00")}},
		{"JSON with the same name at different depths", asJSON, `{"a":{"a":[{"a":1},{"a":1}]},"b":"a"}`,
			fields{"a": {Kind: personal.InputOther}, "b": text("a")}},
		{"JSON nested to the limit", asJSON, `{"a":` + strings.Repeat("[", 31) + strings.Repeat("]", 31) + `}`,
			fields{"a": {Kind: personal.InputOther}}},
		{"JSON with one name in many objects", asJSON, `{"a":[` + strings.Repeat(`{"b":1},`, 300) + `{}]}`, fields{"a": {Kind: personal.InputOther}}},
		{"JSON where [] is part of the name", asJSON, `{"a[]":"1","a":"2"}`, fields{"a[]": text("1"), "a": text("2")}},
		{"largest body", form, "a=" + strings.Repeat("x", 64<<10-2), fields{"a": text(strings.Repeat("x", 64<<10-2))}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, chunked := range []bool{false, true} {
				var got fields
				s := newSite(t, fieldsService(&got), personalhttp.Options{})
				a := s.send(c.media, c.body, chunked)
				if a.want(t, 200, ""); !equalFields(got, c.want) {
					t.Errorf("chunked %t: got %v, want %v", chunked, got, c.want)
				}
			}
		})
	}
}

func TestBody_NoEncodingIsIdentity(t *testing.T) {
	var got map[string]personal.Input
	s := newSite(t, fieldsService(&got), personalhttp.Options{})
	s.send(form, "a=1", false, "Content-Encoding", "Identity").want(t, 200, "")
	if !equalFields(got, map[string]personal.Input{"a": text("1")}) {
		t.Errorf("got %v", got)
	}
}

func equalFields(a, b map[string]personal.Input) bool {
	if len(a) != len(b) {
		return false
	}
	for name, in := range a {
		other, ok := b[name]
		if !ok || in.Kind != other.Kind || in.Text != other.Text || !slices.Equal(in.List, other.List) {
			return false
		}
	}
	return true
}

// send posts a body to profile/, with a Content-Length or chunked.
func (s *site) send(mediaType, body string, chunked bool, headers ...string) reply {
	s.t.Helper()
	if !chunked {
		return s.do("POST", prefix+"profile/?login=never&a=read", mediaType, body, headers...)
	}
	r, err := http.NewRequest("POST", s.URL+prefix+"profile", struct{ io.Reader }{strings.NewReader(body)})
	if err != nil {
		s.t.Fatal(err)
	}
	r.ContentLength = -1
	r.Header.Set("Content-Type", mediaType)
	for pair := range slices.Chunk(headers, 2) {
		r.Header.Add(pair[0], pair[1])
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	return s.read(res)
}

func TestBody_InvalidBodies(t *testing.T) {
	big := strings.Repeat("x", 64<<10+1)
	type headers = []string
	for _, c := range []struct {
		name, media, body string
		headers           headers
		status            int
	}{
		{"no media type", "", "a=1", nil, 415},
		{"another media type", "text/plain", "a=1", nil, 415},
		{"similar media type", "application/vnd.api+json", "{}", nil, 415},
		{"malformed media type", "application/json charset=utf-8", "{}", nil, 415},
		{"two media types in one line", "application/json, text/plain", "{}", nil, 415},
		{"two media types", asJSON, "{}", headers{"Content-Type", asJSON}, 415},
		{"another charset", asJSON + "; charset=utf-16", "{}", nil, 415},
		{"another charset in a form", form + "; charset=windows-1251", "a=1", nil, 415},
		{"content encoding", asJSON, "{}", headers{"Content-Encoding", "gzip"}, 415},
		{"content encodings", asJSON, "{}", headers{"Content-Encoding", "identity", "Content-Encoding", "gzip"}, 415},
		{"large body of another media type", "text/plain", big, nil, 415},

		{"large form", form, "a=" + big, nil, 413},
		{"one byte too many", form, "a=" + big[:64<<10-1], nil, 413},
		{"large malformed JSON", asJSON, "{" + big, nil, 413},
		{"large multipart form", multi, parts("a", big), nil, 413},
		{"257 parts", multi, parts(slices.Repeat([]string{"a[]", "1"}, 257)...), nil, 413},
		{"257 malformed parts", multi, parts(slices.Repeat([]string{"a", "\xff"}, 257)...), nil, 413},
		{"257 names", form, names(257), nil, 413},
		{"257 names in a malformed form", form, names(257) + "&a=%zz", nil, 413},
		{"257 names in JSON", asJSON, jsonNames(257), nil, 413},
		{"257 names in JSON that repeats one", asJSON, `{"a":1,"A":1,` + jsonNames(257)[1:], nil, 413},
		{"257 names in nested JSON", asJSON, `{"n0":` + jsonNames(256) + `,"a":1}`, nil, 413},

		{"form not in UTF-8", form, "a=%ff", nil, 400},
		{"form with one text not in UTF-8", form, "a=1&a=\xff", nil, 400},
		{"name not in UTF-8", form, "%c0%80=1", nil, 400},
		{"list and a text of one name", form, "a=1&a[]=2", nil, 400},

		{"file", multi, "--b\r\nContent-Disposition: form-data; name=\"a\"; filename=\"f\"\r\n\r\n1\r\n--b--", nil, 400},
		{"empty file", multi, "--b\r\nContent-Disposition: form-data; name=\"a\"; filename=\"\"\r\n\r\n\r\n--b--", nil, 400},
		{"extended file name", multi, "--b\r\nContent-Disposition: form-data; name=\"a\"; filename*=UTF-8''f\r\n\r\n1\r\n--b--", nil, 400},
		{"part without a name", multi, "--b\r\nContent-Disposition: form-data\r\n\r\n1\r\n--b--", nil, 400},
		{"part of another disposition", multi, "--b\r\nContent-Disposition: inline; name=a\r\n\r\n1\r\n--b--", nil, 400},
		{"part with two dispositions", multi, "--b\r\nContent-Disposition: form-data; name=a\r\nContent-Disposition: form-data; name=b\r\n\r\n1\r\n--b--", nil, 400},
		{"part without headers", multi, "--b\r\n\r\n1\r\n--b--", nil, 400},
		{"part in base64", multi, "--b\r\nContent-Disposition: form-data; name=a\r\nContent-Transfer-Encoding: base64\r\n\r\nMQ==\r\n--b--", nil, 400},
		{"multipart value not in UTF-8", multi, parts("a", "\xff"), nil, 400},
		{"multipart form without its end", multi, "--b\r\nContent-Disposition: form-data; name=a\r\n\r\n1\r\n", nil, 400},
		{"data after a multipart form", multi, parts("a", "1") + "x", nil, 400},
		{"form after a multipart form", multi, parts("a", "1") + parts("b", "2"), nil, 400},
		{"multipart value with a line like a boundary", multi, parts("a", "--b--x"), nil, 400},
		{"data before a multipart form", multi, "x\r\n" + parts("a", "1"), nil, 400},
		{"multipart form without a boundary", "multipart/form-data", parts("a", "1"), nil, 400},
		{"no multipart form", multi, "a=1", nil, 400},

		{"no JSON", asJSON, "a=1", nil, 400},
		{"JSON of blanks", asJSON, "  ", nil, 400},
		{"JSON list", asJSON, "[]", nil, 400},
		{"JSON null", asJSON, "null", nil, 400},
		{"JSON text", asJSON, `"a"`, nil, 400},
		{"cut JSON", asJSON, `{"a":`, nil, 400},
		{"data after JSON", asJSON, `{} {}`, nil, 400},
		{"trailing comma", asJSON, `{"a":1,}`, nil, 400},
		{"byte order mark within JSON", asJSON, "{}\ufeff", nil, 400},
		{"JSON not in UTF-8", asJSON, "{\"a\":\"\xff\"}", nil, 400},
		{"name given twice", asJSON, `{"a":1,"a":1}`, nil, 400},
		{"name given twice by an escape", asJSON, `{"a":1,"\u0061":1}`, nil, 400},
		{"name in another case", asJSON, `{"login":"a","Login":"b"}`, nil, 400},
		{"name in another Unicode case", asJSON, `{"task":1,"ta\u017f\u212a":1}`, nil, 400},
		{"deep name given twice", asJSON, `{"a":[{"b":{"c":1,"C":2}}]}`, nil, 400},
		{"name given twice around an object", asJSON, `{"a":{"b":1},"a":2}`, nil, 400},
		{"high surrogate alone", asJSON, `{"a":"\uD83D"}`, nil, 400},
		{"high surrogate before a letter", asJSON, `{"a":"\ud83dx\ude00"}`, nil, 400},
		{"low surrogate alone", asJSON, `{"a":"\uDE00"}`, nil, 400},
		{"surrogate alone after a backslash", asJSON, `{"a":"\\\uD800"}`, nil, 400},
		{"surrogate alone in a name", asJSON, `{"\uD800":1}`, nil, 400},
		{"JSON nested too deep", asJSON, `{"a":` + strings.Repeat("[", 32) + strings.Repeat("]", 32) + `}`, nil, 400},
	} {
		t.Run(c.name, func(t *testing.T) {
			codes := map[int]personal.Code{415: personal.CodeUnsupportedMediaType, 413: personal.CodeTooLarge, 400: personal.CodeMalformedRequest}
			for _, chunked := range []bool{false, true} {
				asked := map[string]personal.Input(nil)
				s := newSite(t, fieldsService(&asked), personalhttp.Options{})
				s.send(c.media, c.body, chunked, c.headers...).want(t, c.status, codes[c.status])
				if asked != nil {
					t.Errorf("service called with %v, want no call", asked)
				}
			}
		})
	}
}

func TestBody_256NamesAreRead(t *testing.T) {
	for media, body := range map[string]string{form: names(256), asJSON: jsonNames(256)} {
		var got map[string]personal.Input
		s := newSite(t, fieldsService(&got), personalhttp.Options{})
		s.send(media, body, false).want(t, 200, "")
		if len(got) != 256 {
			t.Errorf("%s: got %d parameters, want 256", media, len(got))
		}
	}
}

func TestErrors_CheckedInContractOrder(t *testing.T) {
	s := newSite(t, everything(), personalhttp.Options{})
	big := strings.Repeat("x", 1<<20)
	s.do("POST", prefix+"nothing", "text/plain", big).want(t, 404, personal.CodeNotFound)
	s.do("PUT", prefix+"auth", "text/plain", big).want(t, 405, personal.CodeMethodNotAllowed)
	foreign := []string{"Sec-Fetch-Site", "cross-site"}
	s.do("POST", prefix+"nothing", "text/plain", big, foreign...).want(t, 404, personal.CodeNotFound)
	s.do("PUT", prefix+"auth", "text/plain", big, foreign...).want(t, 405, personal.CodeMethodNotAllowed)
	s.do("POST", prefix+"auth", "text/plain", big, foreign...).want(t, 403, personal.CodeCrossOrigin)
	s.do("POST", prefix+"auth", "text/plain", big).want(t, 415, personal.CodeUnsupportedMediaType)
	s.do("POST", prefix+"auth", asJSON, big).want(t, 413, personal.CodeTooLarge)
	s.do("POST", prefix+"auth", asJSON, "x").want(t, 400, personal.CodeMalformedRequest)
}

func TestBody_TooLargeIsRejectedUnread(t *testing.T) {
	s := newSite(t, everything(), personalhttp.Options{})
	a := s.raw("POST /api/v1/personal/auth/ HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n{")
	a.want(t, 413, personal.CodeTooLarge)
	if !a.Close || !s.do("POST", prefix+"auth", asJSON, strings.Repeat("x", 70<<10)).Close {
		t.Error("connection kept open, want it closed")
	}
}

func TestBody_StalledBodyTimesOut(t *testing.T) {
	s := newSite(t, everything(), personalhttp.Options{Timeout: 50 * time.Millisecond})
	for _, head := range []string{"Content-Length: 10\r\n\r\n{", "Transfer-Encoding: chunked\r\n\r\n",
		"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n"} {
		a := s.raw("POST /api/v1/personal/auth/ HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n" + head)
		a.want(t, 400, personal.CodeMalformedRequest)
	}
}

// deadlines is a writer that records the read deadlines of its connection.
type deadlines struct {
	*httptest.ResponseRecorder
	set []time.Time
}

func (d *deadlines) SetReadDeadline(at time.Time) error {
	d.set = append(d.set, at)
	return nil
}

// A deadline that stays on the connection would cancel the call, which starts later and
// has its own timeout.
func TestBody_DeadlineEndsWithBody(t *testing.T) {
	h, err := personalhttp.New(everything(), personalhttp.Options{Timeout: time.Minute, Log: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, body string
		server     *http.Server
		want       []bool // for each call: true sets a deadline, false removes it
	}{
		{"no body", "", &http.Server{}, nil},
		{"body", "{}", &http.Server{}, []bool{true, false}},
		{"body that fails", "{", &http.Server{}, []bool{true}},
		{"stricter server", "{}", &http.Server{ReadTimeout: time.Second}, nil},
		{"laxer server", "{}", &http.Server{ReadTimeout: time.Hour}, []bool{true, false}},
	} {
		r := httptest.NewRequest("POST", prefix+"logout", strings.NewReader(c.body))
		r = r.WithContext(context.WithValue(r.Context(), http.ServerContextKey, c.server))
		r.Header.Set("Content-Type", asJSON)
		w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
		h.ServeHTTP(w, r)
		var got []bool
		for _, at := range w.set {
			got = append(got, !at.IsZero())
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got deadlines %v, want %v", c.name, got, c.want)
		}
	}
}

func TestBody_FormatsAreEquivalent(t *testing.T) {
	var got map[string]personal.Input
	h, err := personalhttp.New(fieldsService(&got), personalhttp.Options{Log: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		sent := rapid.MapOfN(rapid.StringMatching("[a-z_]{1,8}"), rapid.String(), 0, 9).Draw(t, "parameters")
		want, values := map[string]personal.Input{}, url.Values{}
		var multiBody bytes.Buffer
		w := multipart.NewWriter(&multiBody)
		for name, value := range sent {
			value = strings.ToValidUTF8(value, "")
			sent[name], want[name] = value, text(value)
			values.Set(name, value)
			if err := w.WriteField(name, value); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		jsonBody, err := json.Marshal(sent)
		if err != nil {
			t.Fatal(err)
		}
		for media, body := range map[string]string{form: values.Encode(), w.FormDataContentType(): multiBody.String(), asJSON: string(jsonBody)} {
			r := httptest.NewRequest("POST", prefix+"profile", strings.NewReader(body))
			r.Header.Set("Content-Type", media)
			h.ServeHTTP(httptest.NewRecorder(), r)
			if !equalFields(got, want) {
				t.Fatalf("%s %q: got %v, want %v", media, body, got, want)
			}
		}
	})
}

func FuzzDecodeBody(f *testing.F) {
	for _, media := range []string{form, multi, asJSON, "text/plain", `multipart/form-data; boundary="-"`} {
		for _, body := range []string{"", "a=1&a[]=2", parts("a", "1", "a", "2"), `{"a":["\ud800"],"A":{}}`, "--b\n\n\n--b--", "{\"\\u"} {
			f.Add(media, body)
		}
	}
	var got map[string]personal.Input
	h, err := personalhttp.New(fieldsService(&got), personalhttp.Options{Log: quiet()})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, media, body string) {
		got = nil
		r := httptest.NewRequest("POST", prefix+"profile", strings.NewReader(body))
		r.Header.Set("Content-Type", media)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		switch w.Code {
		case 200, 400, 413, 415:
		default:
			t.Errorf("%q %q: got %d, want 200, 400, 413 or 415: %s", media, body, w.Code, w.Body)
		}
		for name, in := range got {
			for _, s := range append([]string{name, in.Text}, in.List...) {
				if strings.ToValidUTF8(s, "") != s {
					t.Errorf("%q %q: got %q, want UTF-8", media, body, s)
				}
			}
			if in.Kind == personal.InputUnset && !reflect.ValueOf(in).IsZero() {
				t.Errorf("%q %q: got %v for an unset value, want a zero Input", media, body, in)
			}
		}
	})
}
