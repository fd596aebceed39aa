package system

import (
	"bytes"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"
)

const (
	jsonType = "application/json"
	formType = "application/x-www-form-urlencoded"
)

func testBodies(t *testing.T, s *system) {
	u := s.newUser(t)
	good := fmt.Sprintf(`{"login":%q,"password":%q}`, u.login, u.password)
	form := "login=" + u.login + "&password=" + strings.ReplaceAll(u.password, " ", "+")
	parts := func(pairs ...string) (body, mediaType string) { return multipartOf(t, pairs...) }
	credentials := []string{"login", u.login, "password", u.password}
	multi, multiType := parts(credentials...)
	repeated, repeatedType := parts(append(credentials, "login", u.login)...)
	most, mostType := parts(padded(credentials, 256)...)
	tooMany, tooManyType := parts(padded(credentials, 257)...)
	file, fileType := multipartWithFile(t)
	limit := 64 << 10
	pad := func(size int) string { return `{"x":"` + strings.Repeat("x", size-len(good)-7) + `",` + good[1:] }

	tests := []struct {
		name, mediaType, body, want string
	}{
		{"JSON", jsonType, good, ""},
		{"JSON with a charset", "application/json; charset=utf-8", good, ""},
		{"JSON with a type in capitals", "Application/JSON", good, ""},
		{"JSON between white space", jsonType, " \n" + good + "\n ", ""},
		{"a form", formType, form, ""},
		{"a form with a charset", formType + "; charset=UTF-8", form, ""},
		{"multipart", multiType, multi, ""},
		{"256 parts", mostType, most, ""},
		{"JSON of 64 KiB", jsonType, pad(limit), ""},
		{"unknown parameters", formType, form + "&unknown=1&roles=admin", ""},

		{"a body without a type", "", good, "unsupported_media_type"},
		{"plain text", "text/plain", good, "unsupported_media_type"},
		{"another JSON type", "application/problem+json", good, "unsupported_media_type"},
		{"XML", "application/xml", "<login/>", "unsupported_media_type"},
		{"a broken type", "application/", good, "unsupported_media_type"},
		{"another multipart", strings.Replace(multiType, "form-data", "mixed", 1), multi, "unsupported_media_type"},

		{"JSON over 64 KiB", jsonType, pad(limit + 1), "too_large"},
		{"a form over 64 KiB", formType, form + "&x=" + strings.Repeat("x", limit), "too_large"},
		{"multipart over 64 KiB", multiType, multi + strings.Repeat("x", limit), "too_large"},
		{"too large and malformed", jsonType, strings.Repeat("x", limit+1), "too_large"},

		{"cut JSON", jsonType, good[:len(good)-1], "malformed_request"},
		{"text as JSON", jsonType, "login=anna", "malformed_request"},
		{"a JSON list", jsonType, "[" + good + "]", "malformed_request"},
		{"a JSON text", jsonType, `"anna"`, "malformed_request"},
		{"JSON null", jsonType, "null", "malformed_request"},
		{"blank JSON", jsonType, " ", "malformed_request"},
		{"two JSON objects", jsonType, good + good, "malformed_request"},
		{"data behind the JSON", jsonType, good + "x", "malformed_request"},
		{"invalid UTF-8 in JSON", jsonType, strings.Replace(good, u.login, "a\xff", 1), "malformed_request"},
		{"invalid UTF-8 in a JSON name", jsonType, `{"a` + "\xff" + `":1,` + good[1:], "malformed_request"},
		{"a JSON name twice", jsonType, `{"login":"a",` + good[1:], "malformed_request"},
		{"a JSON name in another case", jsonType, `{"Login":"a",` + good[1:], "malformed_request"},
		{"an unknown JSON name twice", jsonType, `{"x":1,"x":1,` + good[1:], "malformed_request"},
		{"a repeated scalar in a form", formType, form + "&login=a", "malformed_request"},
		{"a broken escape in a form", formType, form + "&x=%zz", "malformed_request"},
		{"invalid UTF-8 in a form", formType, "login=%ff&password=x", "malformed_request"},
		{"a repeated scalar in multipart", repeatedType, repeated, "malformed_request"},
		{"multipart cut off", multiType, multi[:len(multi)-20], "malformed_request"},
		{"multipart without a boundary", "multipart/form-data", multi, "malformed_request"},
		{"multipart with a file", fileType, file, "malformed_request"},
		{"257 parts", tooManyType, tooMany, "too_large"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			header := http.Header{}
			if test.mediaType != "" {
				header.Set("Content-Type", test.mediaType)
			}
			s.do(t, call{path: "auth/", body: strings.NewReader(test.body), header: header}).want(t, test.want)
		})
	}
	t.Run("a body of unknown length over 64 KiB", func(t *testing.T) {
		stream := io.MultiReader(strings.NewReader(pad(limit + 1))) // its length does not show
		s.do(t, call{path: "auth/", body: stream, header: http.Header{"Content-Type": {jsonType}}}).want(t, "too_large")
	})
	for _, encoding := range []string{"gzip", "deflate", "br", "x"} {
		header := http.Header{"Content-Type": {jsonType}, "Content-Encoding": {encoding}}
		s.do(t, call{path: "auth/", body: strings.NewReader(good), header: header}).want(t, "unsupported_media_type")
	}
	t.Run("no body means no parameters", func(t *testing.T) {
		for _, mediaType := range []string{"", jsonType, formType, "text/plain"} {
			header := http.Header{}
			if mediaType != "" {
				header.Set("Content-Type", mediaType)
			}
			s.do(t, call{path: "auth/", header: header}).
				wantFaults(t, "validation_failed", faults{"login": "required", "password": "required"})
		}
	})
	t.Run("the query string is not read", func(t *testing.T) {
		query := "auth/?" + form
		s.do(t, call{path: query}).wantFaults(t, "validation_failed", faults{"login": "required", "password": "required"})
		s.do(t, call{path: "auth/?login=other&password=other&%zz", body: strings.NewReader(good), header: http.Header{"Content-Type": {jsonType}}}).want(t, "")
		s.do(t, call{path: "register/?nonsense=1", params: applicant(nil)}).want(t, "")
	})
	t.Run("an empty value or null is not set", func(t *testing.T) {
		s.do(t, call{path: "auth/", form: map[string][]string{"login": {""}, "password": {"x"}}}).
			wantFaults(t, "validation_failed", faults{"login": "required"})
		s.post(t, "auth/", params{"login": nil, "password": ""}).
			wantFaults(t, "validation_failed", faults{"login": "required", "password": "required"})
	})
	t.Run("a JSON value of another type is invalid_type", func(t *testing.T) {
		s.post(t, "auth/", params{"login": 5, "password": []string{"x"}}).
			wantFaults(t, "validation_failed", faults{"login": "invalid_type", "password": "invalid_type"})
		s.post(t, "auth/", params{"login": true, "password": params{"x": 1}}).
			wantFaults(t, "validation_failed", faults{"login": "invalid_type", "password": "invalid_type"})
	})
}

// multipartOf writes names and values as parts of a form.
func multipartOf(t testing.TB, pairs ...string) (body, mediaType string) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for i := 0; i < len(pairs); i += 2 {
		if err := w.WriteField(pairs[i], pairs[i+1]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String(), w.FormDataContentType()
}

func multipartWithFile(t testing.TB) (body, mediaType string) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	part, err := w.CreateFormFile("login", "login.txt")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(part, "anna"); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String(), w.FormDataContentType()
}

// padded appends parameters that nobody knows until there are count.
func padded(pairs []string, count int) []string {
	pairs = append([]string(nil), pairs...)
	for i := len(pairs) / 2; i < count; i++ {
		pairs = append(pairs, fmt.Sprintf("x%d", i), "1")
	}
	return pairs
}
