package system

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// pair is the User-Id and User-Hash of a session.
type pair struct {
	ID   int64
	Hash string
}

// params are the parameters of a call, sent as a JSON object.
type params map[string]any

// call is one request to the API.
type call struct {
	method string // empty: POST
	path   string // below /api/v1/personal/, or, with a leading slash, below the host
	as     pair
	params params      // sent as JSON
	form   url.Values  // sent as a form
	body   io.Reader   // sent unchanged
	header http.Header // beside what follows from the other members
}

const (
	jsonType = "application/json"
	formType = "application/x-www-form-urlencoded"
)

// response is one response of the API. Its form has been checked.
type response struct {
	method string
	Status int
	Header http.Header
	Raw    []byte
	envelope
}

// exchange makes a call. An error means that there was no response, or one that
// breaks the contract or differs from the API document.
func (s *system) exchange(c call) (*response, error) {
	request, err := c.request(s)
	if err != nil {
		return nil, err
	}
	got, err := s.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer got.Body.Close()
	r := &response{method: request.Method, Status: got.StatusCode, Header: got.Header}
	if r.Raw, err = io.ReadAll(got.Body); err != nil {
		return nil, err
	}
	if err := errors.Join(r.conform(s.alwaysOK), s.described(r.asDescribed(request))); err != nil {
		return nil, fmt.Errorf("%s %s: got %d %s, against the contract:\n%w", request.Method, request.URL, r.Status, r.Raw, err)
	}
	return r, nil
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
		return bytes.NewReader(text), jsonType
	case c.form != nil:
		return strings.NewReader(c.form.Encode()), formType
	}
	return c.body, ""
}

// do makes a call. The test fails if there is no proper response.
func (s *system) do(t testing.TB, c call) *response {
	t.Helper()
	r, err := s.exchange(c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (s *system) post(t testing.TB, path string, p params) *response {
	t.Helper()
	return s.do(t, call{path: path, params: p})
}

func (s *system) postAs(t testing.TB, as pair, path string, p params) *response {
	t.Helper()
	return s.do(t, call{path: path, as: as, params: p})
}

func (s *system) getAs(t testing.TB, as pair, path string) *response {
	t.Helper()
	return s.do(t, call{method: http.MethodGet, path: path, as: as})
}

// web requests a page of the host, or sends a preflight of the API. Headers are
// pairs of name and value.
func (s *system) web(t testing.TB, method, path, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(context.Background(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name := range slices.Chunk(headers, 2) {
		request.Header.Set(name[0], name[1])
	}
	got, err := s.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	if err != nil {
		t.Fatal(err)
	}
	r := &response{Status: got.StatusCode, Header: got.Header, Raw: text}
	if err := s.described(r.asDescribed(request)); err != nil {
		t.Fatalf("%s %s: got %d %s:\n%v", method, path, got.StatusCode, text, err)
	}
	return got, string(text)
}

// want checks the CODE, "" for success.
func (r *response) want(t testing.TB, code string) *response {
	t.Helper()
	if r.Result.Code != code {
		t.Fatalf("got %d %s, want CODE %q", r.Status, r.Raw, code)
	}
	return r
}

// fieldErrors are the codes of FIELDS by parameter.
type fieldErrors map[string]string

// wantFields checks that FIELDS holds these parameters and no others.
func (r *response) wantFields(t testing.TB, code string, want fieldErrors) {
	t.Helper()
	r.want(t, code)
	got := fieldErrors{}
	for name, f := range r.Result.Fields {
		got[name] = f.Code
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("FIELDS (-want +got):\n%s", diff)
	}
}

// wantData checks for success, and that data has these keys and no others.
func (r *response) wantData(t testing.TB, keys ...string) *response {
	t.Helper()
	r.want(t, "")
	slices.Sort(keys)
	if got := slices.Sorted(maps.Keys(r.Data)); !slices.Equal(got, keys) {
		t.Fatalf("got data with %q, want %q", got, keys)
	}
	return r
}

// read reads one member of data.
func (r *response) read(t testing.TB, name string, v any) {
	t.Helper()
	if err := json.Unmarshal(r.Data[name], v); err != nil {
		t.Fatalf("data.%s of %s: %v", name, r.Raw, err)
	}
}

// pair reads user_id and user_hash.
func (r *response) pair(t testing.TB) pair {
	t.Helper()
	var p pair
	r.want(t, "").read(t, "user_id", &p.ID)
	r.read(t, "user_hash", &p.Hash)
	return p
}

// profile reads user_profile.
func (r *response) profile(t testing.TB) map[string]any {
	t.Helper()
	var p map[string]any
	r.want(t, "").read(t, "user_profile", &p)
	return p
}

// user is a registered user.
type user struct {
	login, email, password string
	pair
}

// unique returns a login that is not taken.
func unique() string { return "u" + strings.ToLower(rand.Text()[:12]) }

// applicant returns the parameters of a registration, with changes.
func applicant(changes params) params {
	login := unique()
	p := params{"login": login, "email": login + "@mail.example", "password": "correct horse 7", "confirm_password": "correct horse 7"}
	maps.Copy(p, changes)
	return p
}

// newUser registers a user.
func (s *system) newUser(t testing.TB) user {
	t.Helper()
	p := applicant(nil)
	r := s.post(t, "register/", p)
	return user{login: p["login"].(string), email: p["email"].(string), password: p["password"].(string), pair: r.pair(t)}
}

// signIn opens another session.
func (s *system) signIn(t testing.TB, u user) pair {
	t.Helper()
	return s.post(t, "auth/", params{"login": u.login, "password": u.password}).pair(t)
}

// refresh rotates the hash of a session.
func (s *system) refresh(t testing.TB, p pair) pair {
	t.Helper()
	return s.getAs(t, p, "auth_refresh/").wantData(t, "user_id", "user_hash").pair(t)
}

// recovered is the password that tests set in place of a user's first.
const recovered = "recovered horse 3"

// confirm returns the parameters of recover_confirm.
func confirm(token, password string) params {
	return params{"token": token, "password": password, "confirm_password": password}
}

// wantAlive checks that the pair identifies its user.
func (s *system) wantAlive(t testing.TB, what string, p pair) {
	t.Helper()
	if r := s.getAs(t, p, "profile/"); r.Success != 1 {
		t.Fatalf("%s is refused: %s", what, r.Raw)
	}
}

// wantDead checks that the pair is refused as unauthenticated.
func (s *system) wantDead(t testing.TB, what string, p pair) {
	t.Helper()
	if r := s.getAs(t, p, "profile/"); r.Result.Code != "unauthenticated" {
		t.Fatalf("%s is not refused as unauthenticated: %s", what, r.Raw)
	}
}

// session is a row of sessions/.
type session struct {
	ID      string `json:"id"`
	Address string `json:"address"`
	Current bool   `json:"current"`
}

// currentSession returns the session of the pair.
func (s *system) currentSession(t testing.TB, as pair) session {
	t.Helper()
	var list []session
	s.getAs(t, as, "sessions/").wantData(t, "sessions").read(t, "sessions", &list)
	for _, session := range list {
		if session.Current {
			return session
		}
	}
	t.Fatalf("no session is current: %+v", list)
	return session{}
}

// flip replaces one character of a hash by another of the same alphabet.
func flip(hash string, at int) string {
	other := "A"
	if hash[at] == 'A' {
		other = "B"
	}
	return hash[:at] + other + hash[at+1:]
}

// from is the header by which a trusted proxy passes on a client's address.
func from(address string) http.Header { return http.Header{"X-Forwarded-For": {address}} }

// guess repeats a call until it is throttled, and returns the number of responses with
// the given CODE before that.
func (s *system) guess(t testing.TB, c call, code string) int {
	t.Helper()
	for i := range 200 {
		r := s.do(t, c)
		if r.Result.Code == "too_many_attempts" {
			if i == 0 {
				t.Fatal("the first attempt is throttled")
			}
			return i
		}
		r.want(t, code)
	}
	t.Fatal("200 attempts are not throttled")
	return 0
}

// load repeats calls from several clients until it is stopped.
type load struct {
	stop    chan struct{}
	workers sync.WaitGroup

	mu    sync.Mutex
	codes map[string]int // responses by CODE
	errs  []error        // calls without a response as in the contract
}

// load repeats each call in its own client, at most 200 times a second: other tests need the
// processors, too.
func (s *system) load(calls ...call) *load {
	l := &load{stop: make(chan struct{}), codes: map[string]int{}}
	for _, c := range calls {
		l.workers.Go(func() {
			pace := time.NewTicker(5 * time.Millisecond)
			defer pace.Stop()
			for {
				l.count(s.exchange(c))
				select {
				case <-l.stop:
					return
				case <-pace.C:
				}
			}
		})
	}
	return l
}

func (l *load) count(r *response, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.errs = append(l.errs, err)
		return
	}
	l.codes[r.Result.Code]++
}

// seen returns the number of responses with a CODE so far.
func (l *load) seen(code string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.codes[code]
}

// end stops the load and checks that every response was a success or 503.
func (l *load) end(t testing.TB) {
	t.Helper()
	close(l.stop)
	l.workers.Wait()
	if len(l.errs) > 0 {
		t.Errorf("%d calls without a proper response, the first: %v", len(l.errs), l.errs[0])
	}
	for code, n := range l.codes {
		if code != "" && code != "unavailable" {
			t.Errorf("got %d responses with CODE %s", n, code)
		}
	}
	t.Logf("responses by CODE: %v", l.codes)
}

// mixedLoad is the load of one user, and of another who signs in again and again:
// an account has 100 sessions at most.
func (s *system) mixedLoad(t testing.TB, u user) *load {
	other := s.newUser(t)
	return s.load(
		call{method: http.MethodGet, path: "profile/", as: u.pair},
		call{path: "profile/", as: u.pair, params: params{"name": "Anna"}},
		call{path: "auth/", params: params{"login": other.login, "password": other.password}},
		call{path: "recover/", params: params{"login": u.login}},
	)
}
