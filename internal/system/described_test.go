package system

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/cms-personal/personal/internal/testkit/openapitest"
)

// errNoDocument: the plugin, who tells the user fields, is away.
var errNoDocument = errors.New("openapi.json is not answered")

// described checks an answer against the API's openapi.json, if it is one of the
// API. The document is asked for when there is none yet, and again when an answer
// does not fit: the schema of user fields may have changed since.
func (s *system) described(a openapitest.Answer) error {
	if !strings.HasPrefix(s.url+a.Path, strings.TrimSuffix(s.api, "/")) {
		return nil
	}
	var misfit error
	if known := s.document.Load(); known != nil {
		if misfit = known.Check(a); misfit == nil {
			return nil
		}
	}
	fresh, err := s.fetchDocument()
	switch {
	case errors.Is(err, errNoDocument) && misfit == nil:
		return nil
	case err != nil:
		return errors.Join(misfit, err)
	}
	s.document.Store(fresh)
	return fresh.Check(a)
}

func (s *system) fetchDocument() (*openapitest.Document, error) {
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, s.api+"openapi.json", nil)
	if err != nil {
		return nil, err
	}
	response, err := s.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoDocument, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || !isDocument(body) {
		return nil, fmt.Errorf("%w but with %d %s, %v", errNoDocument, response.StatusCode, body, err)
	}
	return openapitest.Parse(body)
}

// isDocument tells the one answer of the API that is no envelope.
func isDocument(body []byte) bool { return bytes.HasPrefix(body, []byte(`{"openapi":`)) }

// parameterSchemas are what the tests read of the document: the parameters of
// registering.
func (s *system) parameterSchemas(t *testing.T, language string) map[string]parameterSchema {
	t.Helper()
	a := s.do(t, call{method: http.MethodGet, path: "openapi.json", header: http.Header{"Accept-Language": {language}}})
	var d struct {
		Components struct {
			Schemas struct {
				Register struct {
					Properties map[string]parameterSchema `json:"properties"`
				} `json:"register_parameters"`
			} `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(a.Raw, &d); err != nil {
		t.Fatal(err)
	}
	return d.Components.Schemas.Register.Properties
}

type parameterSchema struct {
	Description string `json:"description"`
	MinLength   int    `json:"minLength"`
	MaxLength   int    `json:"maxLength"`
}

func testDescription(t *testing.T, s *system) {
	t.Cleanup(func() { s.putSchema(t, schema) })
	t.Run("its limits are those that count", func(t *testing.T) {
		parameters := s.parameterSchemas(t, "en")
		for _, name := range []string{"login", "name", "password", "about"} {
			p := parameters[name]
			if p.MaxLength == 0 || name != "name" && name != "about" && p.MinLength < 2 {
				t.Fatalf("%s has the limits %+v", name, p)
			}
			if p.MinLength > 1 {
				s.wantLength(t, name, p.MinLength-1, "too_short")
				s.wantLength(t, name, p.MinLength, "")
			}
			s.wantLength(t, name, p.MaxLength, "")
			s.wantLength(t, name, p.MaxLength+1, "too_long")
		}
	})
	t.Run("it speaks the caller's language", func(t *testing.T) {
		for language, want := range map[string]string{"en": "Phone", "ru": "Телефон"} {
			if got := s.parameterSchemas(t, language)["phone"].Description; got != want {
				t.Errorf("in %s phone is %q", language, got)
			}
		}
	})
	t.Run("it follows the schema of user fields", func(t *testing.T) {
		s.putSchema(t, `[{"name":"brand_new","type":"text"},{"name":"shown","type":"text","read_only":true},{"name":"secret","type":"text","hidden":true}]`)
		parameters := s.parameterSchemas(t, "en")
		for name, want := range map[string]bool{"brand_new": true, "login": true, "phone": false, "shown": false, "secret": false} {
			if _, got := parameters[name]; got != want {
				t.Errorf("%s is a parameter: %t", name, got)
			}
		}
	})
}

// wantLength registers somebody with a parameter of so many characters and
// expects that it is refused by this code, or not refused.
func (s *system) wantLength(t *testing.T, name string, length int, code string) {
	t.Helper()
	value := strings.Repeat("qwzx", length)[:length]
	p := applicant(params{name: value})
	p["confirm_password"] = p["password"]
	if name == "login" && code == "" {
		delete(p, "email") // nobody is registered: another's login of three letters would be in the way
	}
	if got := s.post(t, "register/", p).Result.Fields[name].Code; got != code {
		t.Errorf("%s of %d characters is refused by %q, want %q", name, length, got, code)
	}
}
