package system

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/internal/testkit/openapitest"
)

// pair identifies a session.
type pair struct {
	ID   int64
	Hash string
}

// params are the parameters of a call; sent as a JSON object.
type params map[string]any

// call is one request to the API.
type call struct {
	method string // empty: POST
	path   string // below /api/v1/personal/, or, with a leading slash, below the host
	as     pair
	params params      // sent as JSON
	form   url.Values  // sent as a form
	body   io.Reader   // sent as it is
	header http.Header // beside what follows from the rest
}

// answer is one answer, already checked for its form.
type answer struct {
	method string
	Status int
	Header http.Header
	Raw    []byte
	envelope
}

// exchange makes a call. An error means no answer, or one that breaks the
// contract whatever was asked for.
func (s *system) exchange(c call) (*answer, error) {
	request, err := c.request(s)
	if err != nil {
		return nil, err
	}
	response, err := s.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	a := &answer{method: request.Method, Status: response.StatusCode, Header: response.Header}
	if a.Raw, err = io.ReadAll(response.Body); err != nil {
		return nil, err
	}
	if err := errors.Join(a.conform(s.alwaysOK), s.described(a.asDescribed(request))); err != nil {
		return nil, fmt.Errorf("%s %s answers %d %s, against the contract:\n%w", request.Method, request.URL, a.Status, a.Raw, err)
	}
	return a, nil
}

func (a *answer) asDescribed(r *http.Request) openapitest.Answer {
	return openapitest.Answer{Method: r.Method, Path: r.URL.EscapedPath(), Status: a.Status, Header: a.Header, Body: a.Raw}
}

func (c call) request(s *system) (*http.Request, error) {
	target := s.api + c.path
	if strings.HasPrefix(c.path, "/") {
		target = s.url + c.path
	}
	if c.method == "" {
		c.method = http.MethodPost
	}
	body, mediaType := c.content()
	request, err := http.NewRequestWithContext(context.Background(), c.method, target, body)
	if err != nil {
		return nil, err
	}
	maps.Copy(request.Header, c.header)
	if mediaType != "" {
		request.Header.Set("Content-Type", mediaType)
	}
	if c.as != (pair{}) {
		request.Header.Set("User-Id", strconv.FormatInt(c.as.ID, 10))
		request.Header.Set("User-Hash", c.as.Hash)
	}
	if host := request.Header.Get("Host"); host != "" {
		request.Host = host
	}
	return request, nil
}

func (c call) content() (body io.Reader, mediaType string) {
	switch {
	case c.params != nil:
		text, err := json.Marshal(c.params)
		if err != nil {
			panic(err) // a mistake in a test
		}
		return bytes.NewReader(text), "application/json"
	case c.form != nil:
		return strings.NewReader(c.form.Encode()), "application/x-www-form-urlencoded"
	}
	return c.body, ""
}

// do makes a call that must be answered.
func (s *system) do(t testing.TB, c call) *answer {
	t.Helper()
	a, err := s.exchange(c)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (s *system) post(t testing.TB, path string, p params) *answer {
	t.Helper()
	return s.do(t, call{path: path, params: p})
}

func (s *system) postAs(t testing.TB, as pair, path string, p params) *answer {
	t.Helper()
	return s.do(t, call{path: path, as: as, params: p})
}

func (s *system) getAs(t testing.TB, as pair, path string) *answer {
	t.Helper()
	return s.do(t, call{method: http.MethodGet, path: path, as: as})
}

// want expects a CODE, "" for success.
func (a *answer) want(t testing.TB, code string) *answer {
	t.Helper()
	if a.Result.Code != code {
		t.Fatalf("answered %d %s, want CODE %q", a.Status, a.Raw, code)
	}
	return a
}

// faults are parameters with the codes of what is wrong with them.
type faults map[string]string

// wantFaults expects these FIELDS and no others.
func (a *answer) wantFaults(t testing.TB, code string, want faults) {
	t.Helper()
	a.want(t, code)
	got := faults{}
	for name, f := range a.Result.Fields {
		got[name] = f.Code
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("FIELDS (-want +got):\n%s", diff)
	}
}

// wantData expects a success whose data has these keys and no others.
func (a *answer) wantData(t testing.TB, keys ...string) *answer {
	t.Helper()
	a.want(t, "")
	if len(a.Data) != len(keys) || len(keys) > 0 && !isSubset(mapKeys(a.Data), keys...) {
		t.Fatalf("data has %q, want %q", mapKeys(a.Data), keys)
	}
	return a
}

// read reads one member of data.
func (a *answer) read(t testing.TB, name string, v any) {
	t.Helper()
	if err := json.Unmarshal(a.Data[name], v); err != nil {
		t.Fatalf("data.%s of %s: %v", name, a.Raw, err)
	}
}

// pair reads user_id and user_hash.
func (a *answer) pair(t testing.TB) pair {
	t.Helper()
	var p pair
	a.want(t, "").read(t, "user_id", &p.ID)
	a.read(t, "user_hash", &p.Hash)
	return p
}

// profile reads user_profile.
func (a *answer) profile(t testing.TB) map[string]any {
	t.Helper()
	var p map[string]any
	a.want(t, "").read(t, "user_profile", &p)
	return p
}

func mapKeys(m map[string]json.RawMessage) (keys []string) {
	for key := range m {
		keys = append(keys, key)
	}
	return keys
}
