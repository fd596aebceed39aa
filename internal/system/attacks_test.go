package system

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/testkit"
)

// TestAttacks plays attacks that a review found, each from an address of its own.
func TestAttacks(t *testing.T) {
	t.Parallel()
	testkit.Databases(t, func(t *testing.T, database string) {
		s := start(t, options{database: database, flags: []string{"--trusted-proxy", "127.0.0.0/8"}, settings: cheap +
			"[session]\ngrace = \"1s\"\n[throttle.session_writes]\nburst = 100\nevery = \"1m\"\n" +
			"[throttle.register]\nburst = 1000\nevery = \"1s\"\n[throttle.sign_in_account]\nburst = 5\nevery = \"1h\"\n"})
		for _, test := range []struct {
			name string
			test func(*testing.T, *system)
		}{
			{"a login that looks like the e-mail of another account", testSquatter},
			{"a thief who refreshes fast", testFastThief},
			{"a thief who refreshes within the grace period", testSlowThief},
			{"a session that refreshes without end", testEndlessRefresh},
			{"an account that signs in without end", testEndlessSignIn},
			{"e-mails that are asked after", testEmailProbes},
			{"addresses of others in the export of a user", testExportOfAddresses},
			{"200 accounts from one address", testManyAccounts}, // last: no more failures are told for a while
		} {
			t.Run(test.name, func(t *testing.T) { test.test(t, s) })
		}
	})
}

func testSquatter(t *testing.T, s *system) {
	u := s.newUser(t)
	for _, at := range []string{"＠", "\uFE6B", "@"} {
		login := strings.Replace(u.email, "@", at, 1)
		s.post(t, "register/", applicant(params{"login": login})).wantFaults(t, "validation_failed", faults{"login": "invalid_format"})
	}
	s.post(t, "auth/", params{"login": u.email, "password": u.password}).want(t, "")
	s.post(t, "register/", applicant(params{"login": "Postmaster"})).wantFaults(t, "already_exists", faults{"login": "taken"})
}

// steal lets a thief refresh from the hash of a user, and expects that the user's
// next request ends the session with an alarm.
func (s *system) steal(t *testing.T, times int, pause time.Duration) {
	t.Helper()
	u := s.newUser(t)
	thief := u.pair
	for range times {
		last := time.Now()
		thief = s.refresh(t, thief)
		pass(last, pause)
	}
	pass(time.Now(), grace)
	s.wantTheft(t, u.pair, thief)
}

func testFastThief(t *testing.T, s *system) { s.steal(t, 70, 0) }
func testSlowThief(t *testing.T, s *system) { s.steal(t, 3, grace*2/3) }

func testEndlessRefresh(t *testing.T, s *system) {
	u, other := s.newUser(t), s.newUser(t)
	p := u.pair
	for range 100 {
		p = s.refresh(t, p)
	}
	a := s.getAs(t, p, "auth_refresh/").want(t, "too_many_attempts")
	if a.Header.Get("Retry-After") == "" {
		t.Error("429 without Retry-After")
	}
	s.postAs(t, p, "profile/", params{"name": "Ada"}).want(t, "too_many_attempts")
	s.wantAlive(t, "the session beyond its limit of writes", p)
	s.refresh(t, other.pair)
	s.postAs(t, p, "logout/", params{}).want(t, "")
}

func testEndlessSignIn(t *testing.T, s *system) {
	u := s.newUser(t)
	for range 5 {
		s.signIn(t, u)
	}
	s.do(t, call{path: "auth/", header: from("192.0.2.61"), params: params{"login": u.email, "password": u.password}}).want(t, "too_many_attempts")
	s.do(t, call{path: "auth/", header: from("192.0.2.61"), params: params{"login": u.email, "password": "wrong wrong"}}).want(t, "invalid_credentials")
}

// testEmailProbes asks 100 times at once whether an e-mail is taken.
func testEmailProbes(t *testing.T, s *system) {
	u := s.newUser(t)
	// With a taken login nothing is told of the e-mail.
	a := s.do(t, call{path: "register/", header: from("192.0.2.71"), params: applicant(params{"login": u.login, "email": u.email})})
	a.wantFaults(t, "already_exists", faults{"login": "taken"})
	var mu sync.Mutex
	codes := map[string]int{}
	var probes sync.WaitGroup
	for range 100 {
		probes.Go(func() {
			a, err := s.exchange(call{path: "register/", header: from("192.0.2.71"), params: applicant(params{"email": u.email})})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				codes[err.Error()]++
				return
			}
			codes[a.Result.Code]++
		})
	}
	probes.Wait()
	if codes["already_exists"] > 31 || codes["already_exists"]+codes["too_many_attempts"] != 100 {
		t.Errorf("codes %v, want 30 times already_exists and else too_many_attempts", codes)
	}
	s.do(t, call{path: "register/", header: from("192.0.2.71"), params: applicant(nil)}).want(t, "too_many_attempts")
	change := params{"password": u.password, "email": unique() + "@mail.example"}
	s.do(t, call{path: "email/", as: u.pair, header: from("192.0.2.71"), params: change}).want(t, "too_many_attempts")
	s.do(t, call{path: "register/", header: from("192.0.2.72"), params: applicant(nil)}).want(t, "")
	eventually(t, "the event", func() bool { return strings.Contains(s.log.String(), "type=email_taken") })
}

func testManyAccounts(t *testing.T, s *system) {
	judged := 0
	for range 200 {
		guess := call{path: "auth/", header: from("192.0.2.81"), params: params{"login": unique(), "password": "wrong wrong"}}
		if s.do(t, guess).Result.Code == "invalid_credentials" {
			judged++
		}
	}
	if judged < 100 || judged > 120 {
		t.Errorf("200 accounts were guessed at from one address, %d guesses were judged, want 100 and one every 5s", judged)
	}
}

func testExportOfAddresses(t *testing.T, s *system) {
	u := s.newUser(t)
	s.do(t, call{path: "auth/", header: from("192.0.2.91"), params: params{"login": u.login, "password": "wrong wrong"}}).want(t, "invalid_credentials")
	s.do(t, call{path: "auth/", header: from("192.0.2.92"), params: params{"login": u.login, "password": u.password}}).want(t, "")
	export := exec.CommandContext(t.Context(), testkit.Binaries(t).Plugin, "export", "--user", u.login)
	export.Env = append(os.Environ(), "PERSONAL_DATABASE="+s.database)
	out, err := export.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !strings.Contains(string(out), `"sign_in_failed"`) || strings.Contains(string(out), "192.0.2.91") || !strings.Contains(string(out), "192.0.2.92") {
		t.Errorf("the export lacks the failed attempt or the user's own address, or holds the address of the attempt:\n%s", out)
	}
}

// A flood of sign-ins with right passwords from one address leaves room for others.
func TestAttacks_FloodOfSignInsFromOneAddress(t *testing.T) {
	f := floodedFromOneAddress(t, testkit.SQLite(t))
	if f.served < 14 {
		t.Errorf("%d of 15 sign-ins from elsewhere succeeded", f.served)
	}
	if f.refused == 0 {
		t.Error("the attacker was never refused")
	}
}

// addressFlood is what came of a flood from one address.
type addressFlood struct {
	served  int             // of 15 sign-ins from another address
	took    []time.Duration // those, the shortest first
	refused int64           // of the attacker's, with 429 or 503
}

func floodedFromOneAddress(t *testing.T, database string) (f addressFlood) {
	s := start(t, options{database: database, flags: []string{"--trusted-proxy", "127.0.0.0/8", "--log-level", "error"}})
	accounts := make([]user, 15)
	for i := range accounts {
		accounts[i] = s.newUser(t)
	}
	honest := s.newUser(t)
	over := make(chan struct{})
	var attackers sync.WaitGroup
	var refused atomic.Int64
	for i := range 180 {
		u := accounts[i%len(accounts)]
		attackers.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				a, err := s.exchange(call{path: "auth/", header: from("192.0.2.1"), params: params{"login": u.login, "password": u.password}})
				if err == nil && (a.Status == http.StatusTooManyRequests || a.Status == http.StatusServiceUnavailable) {
					refused.Add(1)
				}
			}
		})
	}
	for i := range 15 {
		began := time.Now()
		a := s.do(t, call{path: "auth/", header: from(fmt.Sprintf("198.51.100.%d", i)), params: params{"login": honest.login, "password": honest.password}})
		if a.Success == 1 {
			f.served++
		}
		f.took = append(f.took, time.Since(began))
	}
	close(over)
	attackers.Wait()
	f.refused = refused.Load()
	slices.Sort(f.took)
	t.Logf("%d of 15 sign-ins from elsewhere succeeded, half within %v; the attacker was refused %d times", f.served, f.took[len(f.took)/2], f.refused)
	return f
}

// Wrong passwords of an imported account with a slow hash and of an unknown login
// take the same time.
func TestAttacks_ImportedHashDoesNotTellByTime(t *testing.T) {
	testkit.Databases(t, func(t *testing.T, database string) {
		const slow = "$2b$12$32NViFI06tEIA85AKhLuI.oKKe.Pz.nndt.Dl8nJiju5UIxRBJkRy"
		file := filepath.Join(t.TempDir(), "users.csv")
		if err := os.WriteFile(file, []byte("login,email,password_hash\nimported,imported@mail.example,"+slow+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		importing := exec.CommandContext(t.Context(), testkit.Binaries(t).Plugin, "import", file)
		importing.Env = append(os.Environ(), "PERSONAL_DATABASE="+database)
		if out, err := importing.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		s := start(t, options{database: database, settings: unthrottled})
		own := s.newUser(t)
		took := map[string][]time.Duration{}
		for i := range 4 {
			for _, login := range []string{"imported", own.login, "nobody-at-all"} {
				began := time.Now()
				s.post(t, "auth/", params{"login": login, "password": "wrong wrong"}).want(t, "invalid_credentials")
				if i > 0 { // formats are measured by then
					took[login] = append(took[login], time.Since(began))
				}
			}
		}
		middle := func(login string) float64 {
			slices.Sort(took[login])
			return float64(took[login][len(took[login])/2])
		}
		for _, login := range []string{"imported", own.login} {
			if ratio := middle(login) / middle("nobody-at-all"); ratio < 0.5 || ratio > 2 { // about 9 if nothing were done; the machine may be busy
				t.Errorf("%s takes %.2f times as long as an unknown login", login, ratio)
			}
		}
	})
}
