package system

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/testkit/race"
	"github.com/cms-personal/personal/internal/testkit/testdb"
)

// rawForm is a form that is sent as it is, to the API or to a page of the host.
func rawForm(path, form string) call {
	return call{path: path, body: strings.NewReader(form), header: http.Header{"Content-Type": {formType}, "Sec-Fetch-Site": {"same-origin"}}}
}

// hostile sends a request and returns the status and the size of the response, whether
// that is one of the API or a page.
func (s *system) hostile(c call) (status, size int, err error) {
	request, err := c.request(s)
	if err != nil {
		return 0, 0, err
	}
	got, err := s.client.Do(request)
	if err != nil {
		return 0, 0, err
	}
	defer got.Body.Close()
	n, err := io.Copy(io.Discard, got.Body)
	return got.StatusCode, int(n), err
}

// unreadable returns requests with text that is not UTF-8, and with NUL, which PostgreSQL
// cannot store.
func unreadable(as pair) (calls []func() call) {
	add := func(c func() call) { calls = append(calls, c) }
	for _, text := range []string{"%ff", "a%00b", "%ed%a0%80"} {
		for _, path := range []string{"/account/sign-in", "/account/register", "/account/forgot", "/account/recover", "/account/email",
			"/account/verify", "/account/undo-delete"} {
			add(func() call {
				return rawForm(path, strings.ReplaceAll("login=T&email=T&password=T&confirm_password=T&name=T&phone=T&interests=T&token=T", "T", text))
			})
		}
		for _, path := range []string{"auth/", "register/", "recover/", "recover_confirm/", "email_confirm/", "email_resend/", "delete_undo/"} {
			add(func() call {
				return rawForm(path, strings.ReplaceAll("login=T&email=T&password=T&confirm_password=T&name=T&phone=T&interests[]=T&token=T&T=T", "T",
					text))
			})
		}
		for _, path := range []string{"profile/", "password/", "email/", "sessions_revoke/", "export/", "delete/", "two_factor/", "logout/"} {
			add(func() call {
				c := rawForm(path, strings.ReplaceAll("password=T&old_password=T&code=T&email=T&name=T&phone=T&interests[]=T&id=T&all=T&T=T", "T",
					text))
				c.as = as
				return c
			})
		}
		for _, path := range []string{"/account/sign-in?next=", "/admin/users?search=", "/admin/support?login="} {
			add(func() call {
				return call{method: http.MethodGet, path: path + text, header: http.Header{"User-Agent": {"a\xffb"}}}
			})
		}
	}
	return calls
}

// TestSwap_HostileTextDoesNotRollBack sends text that the plugin cannot get while a new
// version bakes, as many requests as honest clients send, after 500 of them alone.
func TestSwap_HostileTextDoesNotRollBack(t *testing.T) {
	testdb.Database(t, func(t *testing.T, database string) {
		s := start(t, options{database: database, settings: cheap + unthrottled + twoFactor, flags: []string{"--bake", "60s"}})
		newer := s.installAnother(t)
		u := s.newUser(t)
		calls := unreadable(u.pair)
		send := func(i int) {
			c := calls[i%len(calls)]()
			if status, _, err := s.hostile(c); err != nil || status/100 == 5 {
				t.Errorf("%s: got status %d, %v, want no 5xx", c.path, status, err)
			}
		}
		s.use(t, newer)
		for i := range 500 {
			send(i)
		}
		for i := range 100 {
			s.wantAlive(t, "a session during the bake", u.pair)
			send(i)
		}
		if active := s.plugin(t).Active; active.Version != newer || active.Generation != 2 || active.State != "baking" {
			t.Errorf("got version %s of generation %d %s, want %s of generation 2 baking", active.Version, active.Generation, active.State, newer)
		}
	})
}

// numbered returns n different texts, separated by sep.
func numbered(n int, format, sep string) string {
	texts := make([]string, n)
	for i := range texts {
		texts[i] = fmt.Sprintf(format, i)
	}
	return strings.Join(texts, sep)
}

// costly returns requests that cost more than others of their size.
func costly() []call {
	asJSON := func(path, body string) call {
		return call{path: path, body: strings.NewReader(body), header: http.Header{"Content-Type": {jsonType}}}
	}
	names := numbered(9990, "n%04d", "&")
	return []call{
		rawForm("register/", names), rawForm("profile/", names), rawForm("auth/", names),
		rawForm("/account/register", names), rawForm("/account/sign-in", names), rawForm("/account/language", names),
		asJSON("register/", "{"+numbered(5000, `"n%04d":1`, ",")+"}"),
		asJSON("register/", `{"name":{`+numbered(5000, `"n%04d":1`, ",")+"}}"),
		asJSON("register/", `{"interests":[`+strings.Repeat(`{"a":1},`, 7000)+"{}]}"),
		asJSON("register/", `{"interests":[`+strings.Repeat(`"",`, 20000)+`""]}`),
		rawForm("register/", strings.Repeat("n=&", 9900)),
		rawForm("register/", numbered(256, strings.Repeat("%%01", 60)+"%04d", "&")),
		rawForm("register/", strings.ReplaceAll(numbered(256, "X%04d", "&"), "X", strings.Repeat("🙂", 60))),
		rawForm("/account/register", "login=a&email="+strings.Repeat("%27", 20000)),
		rawForm("/account/register", "phone="+strings.Repeat("%27", 10000)+"&company="+strings.Repeat("%27", 10000)),
		rawForm("/account/sign-in?next=/"+strings.Repeat("'", 4000), "login="+strings.Repeat("'", 60000)),
		{method: http.MethodGet, path: "/account/sign-in?next=/" + strings.Repeat("'", 20000)},
	}
}

// TestHostileRequests_CostLittle sends 150 costly requests at once, in rounds, and
// asks for a profile during each.
func TestHostileRequests_CostLittle(t *testing.T) {
	const atOnce, rounds = 150, 4
	s := start(t, options{database: testdb.SQLite(t), settings: cheap + unthrottled})
	u := s.newUser(t)
	honest := func() time.Duration {
		began := time.Now()
		s.wantAlive(t, "a session", u.pair)
		return time.Since(began)
	}
	for _, c := range costly() { // also because the first pages take longer
		status, size, err := s.hostile(c)
		if err != nil || size > 16<<10 || status/100 == 5 {
			t.Errorf("%.40s: got status %d and %d bytes, %v, want 16 KiB at most", c.path, status, size, err)
		}
	}
	plugin := s.plugin(t).Active.PID
	processorTime := func() (ticks int) { // of the host and the plugin, in 1/100 s
		t.Helper()
		if now := s.plugin(t).Active.PID; now != plugin {
			t.Fatalf("got the plugin process %d, want still %d", now, plugin)
		}
		for _, pid := range []int{s.process.Pid, plugin} {
			_, stat, _ := strings.Cut(readFile(t, fmt.Sprintf("/proc/%d/stat", pid)), ") ")
			for _, field := range strings.Fields(stat)[11:13] { // utime and stime
				n, err := strconv.Atoi(field)
				if err != nil {
					t.Fatal(err)
				}
				ticks += n
			}
		}
		return ticks
	}
	const calls, enough = rounds * atOnce, 20 // a tick more or less matters little then
	start, plain, times := processorTime(), 0, 0
	for ; plain < enough && times < 100; times++ {
		for range calls {
			honest()
		}
		plain = processorTime() - start
	}
	if plain < enough {
		t.Fatalf("got %d0 ms of processor time for %d honest calls, want %d0 ms at least", plain, times*calls, enough)
	}
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", s.process.Pid), []byte("5"), 0); err != nil {
		t.Skip("the peak of the memory cannot be reset: ", err)
	}
	before := peakMemory(t, s.process.Pid)
	var took []time.Duration
	start = processorTime()
	for range rounds {
		var senders sync.WaitGroup
		var requests []call
		for len(requests) < atOnce {
			requests = append(requests, costly()...)
		}
		var mu sync.Mutex
		var errs []error
		for i := range atOnce {
			senders.Go(func() {
				if _, _, err := s.hostile(requests[i]); err != nil {
					mu.Lock()
					errs = append(errs, err)
					mu.Unlock()
				}
			})
		}
		over := make(chan struct{})
		go func() { senders.Wait(); close(over) }()
		for flowing := true; flowing; {
			took = append(took, honest())
			select {
			case <-over:
				flowing = false
			default:
			}
		}
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	costly := processorTime() - start
	slices.Sort(took)
	grown := peakMemory(t, s.process.Pid) - before
	t.Logf("%d honest calls: median %v, maximum %v; processor time %d0 ms, of %d times as many honest calls %d0 ms; the host grew by %d MiB", len(took),
		took[len(took)/2], took[len(took)-1], costly, times, plain, grown)
	if grown >= 64 && !race.Enabled {
		t.Errorf("the host grew by %d MiB, want less than 64", grown)
	}
	if costly*times > 10*plain {
		t.Errorf("got %d0 ms of processor time, %d0 ms of %d times as many honest calls, want ten times as much per call at most", costly, plain, times)
	}
}
