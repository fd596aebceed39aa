package system

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/testkit"
)

// TestNodes_ChangesTakeEffect changes users through one of two hosts with one database.
// Both remember verifications. Which operations make a host forget a user is tested in package rpc.
func TestNodes_ChangesTakeEffect(t *testing.T) {
	t.Parallel()
	const soon = time.Second // verify_cache of the other host
	database := testkit.Postgres(t)
	near := start(t, options{database: database, settings: cheap + unthrottled + "[session]\nverify_cache = \"30s\"\n"})
	far := start(t, options{database: database, settings: cheap + unthrottled + fmt.Sprintf("[session]\nverify_cache = \"%v\"\n", soon)})
	admin := near.enterAdmin(t)
	for name, end := range map[string]func(t *testing.T, u user){
		"sign-out": func(t *testing.T, u user) { near.postAs(t, u.pair, "logout/", params{}).want(t, "") },
		"disabled by an administrator": func(t *testing.T, u user) {
			near.adminSubmit(t, admin, fmt.Sprintf("/admin/users/%d/disable", u.ID), nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			u := near.newUser(t)
			near.wantPage(t, u.pair, http.StatusOK)
			far.wantPage(t, u.pair, http.StatusOK)
			end(t, u)
			ended := time.Now()
			near.wantPage(t, u.pair, http.StatusUnauthorized)
			outlast(ended, soon)
			far.wantPage(t, u.pair, http.StatusUnauthorized)
		})
	}
	t.Run("changed name", func(t *testing.T) {
		u := near.newUser(t)
		near.wantGreeting(t, u.pair, u.login)
		far.wantGreeting(t, u.pair, u.login)
		near.postAs(t, u.pair, "profile/", params{"name": "Anna Other"}).want(t, "")
		changed := time.Now()
		near.wantGreeting(t, u.pair, "Anna Other")
		outlast(changed, soon)
		far.wantGreeting(t, u.pair, "Anna Other")
	})
	// Without it, the test would not show that anything is remembered.
	t.Run("change through another host is noticed after verify_cache only", func(t *testing.T) {
		const attempts = 5
		for range attempts {
			u := far.newUser(t)
			began := time.Now()
			near.wantPage(t, u.pair, http.StatusOK)
			far.postAs(t, u.pair, "logout/", params{}).want(t, "")
			status := near.page(t, u.pair)
			if time.Since(began) < 30*time.Second {
				if status != http.StatusOK {
					t.Errorf("got status %d, want the remembered page", status)
				}
				return
			}
		}
		t.Errorf("each of %d times, two pages and a sign-out took longer than verify_cache", attempts)
	})
}

// TestNodes_UserFieldsDiffer uses an account through two hosts with different user fields:
// each returns and accepts its own, and neither loses values of the other.
func TestNodes_UserFieldsDiffer(t *testing.T) {
	t.Parallel()
	database := testkit.Postgres(t)
	near := start(t, options{database: database, settings: cheap})
	far := start(t, options{database: database, settings: cheap})
	near.putSchema(t, `[{"name":"motto","type":"text"}]`)
	far.putSchema(t, `[{"name":"title","type":"text"}]`)
	wantProfile := func(s *system, as pair, want map[string]string) {
		t.Helper()
		var data struct {
			Profile map[string]any `json:"user_profile"`
		}
		if err := json.Unmarshal(s.getAs(t, as, "profile/").Raw, &struct{ Data any }{&data}); err != nil {
			t.Fatal(err)
		}
		for _, field := range []string{"motto", "title"} {
			got, has := data.Profile[field]
			if value, wanted := want[field]; has != wanted || wanted && got != value {
				t.Errorf("%s: got %v as %s, want %q", s.url, got, field, value)
			}
		}
	}
	u := near.newUser(t)
	near.postAs(t, u.pair, "profile/", params{"motto": "onward"}).want(t, "")
	far.postAs(t, u.pair, "profile/", params{"motto": "upward"}).want(t, "validation_failed")
	far.postAs(t, u.pair, "profile/", params{"title": "Countess"}).want(t, "")
	wantProfile(near, u.pair, map[string]string{"motto": "onward"})
	wantProfile(far, u.pair, map[string]string{"title": "Countess"})
	for _, s := range []*system{near, far} {
		s.putSchema(t, `[{"name":"motto","type":"text"},{"name":"title","type":"text"}]`)
		wantProfile(s, u.pair, map[string]string{"motto": "onward", "title": "Countess"})
	}
}

// page returns the status of a page of the host's own that only users see.
func (s *system) page(t testing.TB, as pair) int {
	t.Helper()
	got, _ := s.web(t, http.MethodGet, "/demo/greeting", "", "User-Id", fmt.Sprint(as.ID), "User-Hash", as.Hash)
	return got.StatusCode
}

func (s *system) wantPage(t testing.TB, as pair, want int) {
	t.Helper()
	if got := s.page(t, as); got != want {
		t.Fatalf("%s: got status %d of the page, want %d", s.url, got, want)
	}
}

func (s *system) wantGreeting(t testing.TB, as pair, name string) {
	t.Helper()
	got, body := s.web(t, http.MethodGet, "/demo/greeting", "", "User-Id", fmt.Sprint(as.ID), "User-Hash", as.Hash)
	if got.StatusCode != http.StatusOK || !strings.Contains(body, name) {
		t.Fatalf("%s: got %d %s, want a greeting for %s", s.url, got.StatusCode, body, name)
	}
}
