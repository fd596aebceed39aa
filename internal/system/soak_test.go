//go:build soak

package system

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/testkit"
)

// count returns the number in an environment variable, which may ask for fewer
// repetitions than usual, or else the usual number.
func count(variable string, usual int) int {
	if n, err := strconv.Atoi(os.Getenv(variable)); err == nil {
		return n
	}
	return usual
}

// TestSoakSwaps makes 1,000 swaps under load, one after the other: no request may fail,
// and the host must not use more resources at the end than at the beginning. Some swaps
// before have a pause between them, so that not every request meets one: p99 may rise less
// with these.
func TestSoakSwaps(t *testing.T) {
	total := count("PERSONAL_SOAK_SWAPS", 1000)
	testkit.Binaries(t)             // which other tests use too, must not be in this test's temporary folder
	t.Setenv("TMPDIR", t.TempDir()) // of the host and the plugins
	s := start(t, options{database: testkit.SQLite(t), settings: cheap + unthrottled, flags: []string{"--log-level", "error"}})
	older := s.plugin(t).Active.Version
	versions := []string{s.installAnother(t), older}
	crowd := s.crowd(t)
	time.Sleep(10 * time.Second) // the load must run for some time
	quiet := crowd.latencies()
	for i := range 6 {
		s.use(t, versions[i%2])
		time.Sleep(2 * time.Second)
	}
	single := crowd.latencies()
	samples := map[string][]float64{}
	var took []time.Duration
	for i := range total {
		began := time.Now()
		s.use(t, versions[i%2])
		took = append(took, time.Since(began))
		for name, value := range s.resources(t) {
			samples[name] = append(samples[name], value)
		}
	}
	swapping := crowd.latencies()
	crowd.end(t)

	t.Logf("%d swaps, median %v, p99 %v, maximum %v", total, median(took), p99(took), slices.Max(took))
	t.Logf("%d requests; p99 %v without swaps, %v with one every two seconds, %v with one after the other",
		len(quiet)+len(single)+len(swapping), p99(quiet), p99(single), p99(swapping))
	if p99(single) > 2*p99(quiet) {
		t.Errorf("p99 of requests rises from %v to %v with a swap every two seconds, want twice at most", p99(quiet), p99(single))
	}
	if median(took) > time.Second {
		t.Errorf("got a median of %v for a swap, want 1s at most", median(took))
	}
	if p99(swapping) > 3*p99(quiet) {
		t.Errorf("p99 of requests rises from %v to %v, want 3 times at most", p99(quiet), p99(swapping))
	}
	for name, values := range samples {
		part := max(1, len(values)/10)
		first, last := median(values[:part]), median(values[len(values)-part:])
		t.Logf("%s: %v at first, %v at last", name, first, last)
		if last > first*1.05+1 {
			t.Errorf("%s grows from %v to %v", name, first, last)
		}
	}
}

// TestSoakKills kills the plugin repeatedly under load: every response is a success or
// 503, and the plugin serves again soon.
func TestSoakKills(t *testing.T) {
	s := start(t, options{database: testkit.SQLite(t), settings: cheap + unthrottled, flags: []string{"--log-level", "error"}})
	u := s.newUser(t)
	l := s.mixedLoad(t, u)
	var longest time.Duration
	for range count("PERSONAL_SOAK_KILLS", 50) {
		pid, served := s.plugin(t).Active.PID, l.seen("")
		eventually(t, "calls are served", func() bool { return l.seen("") > served+20 })
		served = l.seen("")
		began := time.Now()
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		eventually(t, "another process serves", func() bool {
			now := s.plugin(t).Active.PID
			return now != 0 && now != pid && l.seen("") > served
		})
		longest = max(longest, time.Since(began))
	}
	l.end(t)
	t.Logf("served again after %v at most", longest)
	if longest > 2*time.Second {
		t.Errorf("served again after %v, want 2s at most", longest)
	}
}

// resources returns the host's open descriptors, goroutines, memory, and its files.
func (s *system) resources(t testing.TB) map[string]float64 {
	t.Helper()
	got, text := s.web(t, http.MethodGet, "/metrics", "")
	if got.StatusCode != http.StatusOK {
		t.Fatalf("/metrics: got %d", got.StatusCode)
	}
	used := map[string]float64{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch name {
		case "process_open_fds", "go_goroutines", "process_resident_memory_bytes": // descriptors include sockets
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				t.Fatal(err)
			}
			used[name] = n
		}
	}
	sockets, err := os.Readlink(filepath.Join(s.data, "run", "sockets"))
	if err != nil {
		t.Fatal(err)
	}
	for name, folder := range map[string]string{"files in the run folder": filepath.Join(s.data, "run"), "sockets": sockets,
		"temporary files": os.TempDir()} {
		files := 0
		_ = filepath.WalkDir(folder, func(string, os.DirEntry, error) error { files++; return nil }) // a file may be removed during the walk
		used[name] = float64(files)
	}
	return used
}

// crowd is a number of clients, see [system.live].
type crowd struct {
	stop     chan struct{}
	clients  sync.WaitGroup
	mu       sync.Mutex
	took     []time.Duration
	failures []error
}

func (s *system) crowd(t testing.TB) *crowd {
	c := &crowd{stop: make(chan struct{})}
	for range clients {
		u := s.newUser(t)
		c.clients.Go(func() {
			err := s.live(u, c.stop, 0, func(d time.Duration) {
				c.mu.Lock()
				defer c.mu.Unlock()
				c.took = append(c.took, d)
			})
			c.mu.Lock()
			defer c.mu.Unlock()
			if err != nil {
				c.failures = append(c.failures, err)
			}
		})
	}
	return c
}

// latencies returns the durations of the requests since the previous call.
func (c *crowd) latencies() []time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	took := c.took
	c.took = nil
	return took
}

func (c *crowd) end(t testing.TB) {
	t.Helper()
	close(c.stop)
	c.clients.Wait()
	for _, err := range c.failures {
		t.Error(err)
	}
}

func p99(took []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(took))
	return sorted[len(sorted)*99/100]
}

func median[T cmp.Ordered](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// TestSoakFlood has the bounds of a flood of sign-ins on an otherwise idle machine.
func TestSoakFlood(t *testing.T) {
	f := flooded(t, 500)
	if p50 := f.quick[len(f.quick)/2]; p50 > 100*time.Millisecond {
		t.Errorf("got a median of %v for a signed-in user's call, want 100ms at most", p50)
	}
	if f.peak > 300 {
		t.Errorf("got a peak memory of %d MiB, want 300 at most", f.peak)
	}
}

// TestSoakAddressFlood has the bounds of a flood from one address for other addresses.
func TestSoakAddressFlood(t *testing.T) {
	testkit.Databases(t, func(t *testing.T, database string) {
		f := floodedFromOneAddress(t, database, "", 0)
		if p50 := f.took[len(f.took)/2]; f.served < 14 || p50 > 700*time.Millisecond {
			t.Errorf("%d of 15 sign-ins succeeded, median %v; want 14 at least, and 700ms at most", f.served, p50)
		}
	})
}

// TestSoakThrottled measures how fast guesses beyond the limit are refused.
func TestSoakThrottled(t *testing.T) {
	s := start(t, options{database: testkit.SQLite(t), flags: []string{"--log-level", "error"}})
	u := s.newUser(t)
	var took []time.Duration
	for range 300 {
		began := time.Now()
		r := s.do(t, call{path: "auth/", params: params{"login": u.login, "password": "wrong wrong"}})
		if r.Result.Code == "too_many_attempts" {
			took = append(took, time.Since(began))
		}
	}
	t.Logf("%d of 300 guesses were refused, median %v, p99 %v", len(took), median(took), p99(took))
	if len(took) < 270 || p99(took) > 10*time.Millisecond {
		t.Errorf("%d refused, p99 %v; want 270 at least, and 10ms at most", len(took), p99(took))
	}
}

// TestSoakTiming compares the response times for accounts that exist with those for
// accounts that do not, at the default costs of a password.
func TestSoakTiming(t *testing.T) {
	s := start(t, options{database: testkit.SQLite(t), settings: unthrottled, flags: []string{"--log-level", "error"}})
	known := make([]user, 20)
	for i := range known {
		known[i] = s.newUser(t)
	}
	for _, test := range []struct {
		what  string
		bound float64
		call  func(login string) call
		code  string
	}{
		{"a wrong password", 0.03, func(login string) call {
			return call{path: "auth/", params: params{"login": login, "password": "wrong wrong"}}
		}, "invalid_credentials"},
		{"a recovery", 0.1, func(login string) call { return call{path: "recover/", params: params{"login": login}} }, ""},
	} {
		took := map[bool][]time.Duration{}
		for i := range count("PERSONAL_SOAK_PAIRS", 1000) {
			first := rand.N(2) == 0
			for _, exists := range []bool{first, !first} {
				login := unique()
				if exists {
					login = known[i%len(known)].login
				}
				began := time.Now()
				r := s.do(t, test.call(login))
				took[exists] = append(took[exists], time.Since(began))
				r.want(t, test.code)
			}
		}
		with, without := median(took[true]), median(took[false])
		t.Logf("%s: %v where the account exists, %v where it does not", test.what, with, without)
		if ratio := float64(with) / float64(without); math.Abs(ratio-1) > test.bound {
			t.Errorf("%s takes %.3f times as long where the account exists, want 1±%v", test.what, ratio, test.bound)
		}
	}
}

// TestSoakImport imports 1,000,000 rows into each database in less than 200 MiB, while
// accounts are written, and 2,000 MD5 hashes at the default costs.
func TestSoakImport(t *testing.T) {
	const bcrypt, md5 = "$2y$10$32NViFI06tEIA85AKhLuI.oKKe.Pz.nndt.Dl8nJiju5UIxRBJkRy", "3cb4e732631f47e6eb961f34554b7cde"
	many := accountFile(t, count("PERSONAL_SOAK_ROWS", 1_000_000), bcrypt)
	wrapped := accountFile(t, count("PERSONAL_SOAK_MD5", 2000), md5)
	testkit.Databases(t, func(t *testing.T, url string) {
		importFile(t, url, accountFile(t, 1, bcrypt))
		ctx, cancel := context.WithCancel(t.Context())
		var writing sync.WaitGroup
		writing.Go(func() { writeMeanwhile(ctx, t, url) })
		importFile(t, url, many)
		cancel()
		writing.Wait()
	})
	t.Run("MD5", func(t *testing.T) { importFile(t, testkit.SQLite(t), wrapped) })
	t.Run("MD5, wrapped later", func(t *testing.T) { importFile(t, testkit.SQLite(t), wrapped, "--wrap=later") })
}

func accountFile(t *testing.T, rows int, hash string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "users.csv")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	out := bufio.NewWriter(file)
	fmt.Fprintln(out, "login,email,name,password_hash")
	for i := range rows {
		fmt.Fprintf(out, "user%d,user%d@example.com,User %d,%s\n", i, i, i, hash)
	}
	if err := out.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func importFile(t *testing.T, url, path string, flags ...string) {
	t.Helper()
	importing := exec.CommandContext(t.Context(), testkit.Binaries(t).Plugin, append([]string{"import", path}, flags...)...)
	importing.Env = append(importing.Environ(), "PERSONAL_DATABASE="+url)
	began := time.Now()
	out, err := importing.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	memory := importing.ProcessState.SysUsage().(*syscall.Rusage).Maxrss >> 10
	t.Logf("%s in %v, peak memory %d MiB", out, time.Since(began), memory)
	if memory >= 200 {
		t.Errorf("got a peak memory of %d MiB, want less than 200", memory)
	}
}

// writeMeanwhile updates an account repeatedly, as a serving plugin does.
func writeMeanwhile(ctx context.Context, t *testing.T, url string) {
	db, err := store.Open(ctx, url, store.Options{})
	if err != nil {
		t.Error(err)
		return
	}
	defer db.Close()
	var took []time.Duration
	for ctx.Err() == nil {
		began := time.Now()
		_, err := db.UpdateProfile(ctx, 1, func(*accounts.Account) []accounts.NewJob { return nil })
		if err != nil && ctx.Err() == nil {
			t.Errorf("a write failed after %v: %v", time.Since(began), err)
		}
		took = append(took, time.Since(began))
		time.Sleep(10 * time.Millisecond)
	}
	t.Logf("%d writes, median %v, p99 %v, maximum %v", len(took), median(took), p99(took), slices.Max(took))
	if slices.Max(took) > 2*time.Second {
		t.Errorf("got a write of %v, want 2s at most", slices.Max(took))
	}
}

// TestSoakMove imports 1,000,000 users of a WordPress dump with usermeta, is killed in the middle
// and run again. The importer takes less than 64 MiB.
func TestSoakMove(t *testing.T) {
	users := count("PERSONAL_SOAK_ROWS", 1_000_000)
	path := wordPressFile(t, users)
	url := testkit.SQLite(t)
	testkit.Binaries(t) // not within the time that is measured
	began := time.Now()
	importing := exec.CommandContext(t.Context(), testkit.Binaries(t).Plugin, "import", "--from=wordpress", "--map=city=city",
		"--fields="+cityField(t), "--wrap=later", path)
	importing.Env = append(importing.Environ(), "PERSONAL_DATABASE="+url)
	if err := importing.Start(); err != nil {
		t.Fatal(err)
	}
	db, err := store.Open(t.Context(), url, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for n := int64(0); n < int64(users)/3; time.Sleep(200 * time.Millisecond) { // polls: a batch is committed every few milliseconds
		if n, _, err = db.CountAccounts(t.Context()); err != nil {
			n = 0 // the import migrates the database
		}
	}
	if err := importing.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = importing.Wait()
	t.Logf("killed after %v", time.Since(began))
	stored, _, err := db.CountAccounts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	resumed := moveFile(t, url, path)
	if want := fmt.Sprintf("%d accounts imported, %d were there already, 0 rows refused\n", int64(users)-stored,
		stored); !strings.Contains(resumed, want) {
		t.Errorf("got %s, want %s", resumed, want)
	}
	t.Run("at once", func(t *testing.T) { moveFile(t, testkit.SQLite(t), path) })
}

func cityField(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "user-fields.json")
	if err := os.WriteFile(path, []byte(`[{"name":"city","type":"text"}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// moveFile imports a dump of WordPress and returns what was printed.
func moveFile(t *testing.T, url, path string) string {
	t.Helper()
	importing := exec.CommandContext(t.Context(), testkit.Binaries(t).Plugin, "import", "--from=wordpress", "--map=city=city",
		"--fields="+cityField(t), "--wrap=later", path)
	importing.Env = append(importing.Environ(), "PERSONAL_DATABASE="+url)
	began := time.Now()
	out, err := importing.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	took, memory := time.Since(began), importing.ProcessState.SysUsage().(*syscall.Rusage).Maxrss>>10
	computed := importing.ProcessState.UserTime() + importing.ProcessState.SystemTime()
	t.Logf("%s in %v: %.0f users/s, %v of processor time, peak memory %d MiB", out, took,
		float64(count("PERSONAL_SOAK_ROWS", 1_000_000))/took.Seconds(), computed, memory)
	if memory >= 64 {
		t.Errorf("got a peak memory of %d MiB, want less than 64", memory)
	}
	return string(out)
}

// wordPressFile writes a dump of WordPress as mysqldump does, with the keys of usermeta that
// WordPress writes for each user, and a field of the site. One password in ten is an old MD5.
func wordPressFile(t *testing.T, users int) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "wordpress.sql")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	out := bufio.NewWriterSize(file, 1<<20)
	fmt.Fprint(out, "-- MySQL dump 10.13  Distrib 8.0.36\n/*!50503 SET NAMES utf8mb4 */;\n",
		"CREATE TABLE `wp_usermeta` (`umeta_id` bigint, `user_id` bigint, `meta_key` varchar(255), `meta_value` longtext);\n")
	meta := []string{
		"nickname", "first_name", "last_name", "description", "rich_editing", "syntax_highlighting", "comment_shortcuts", "admin_color",
		"use_ssl", "show_admin_bar_front", "locale", "wp_capabilities", "wp_user_level", "session_tokens", "city",
	}
	values := []string{"user", "Ada", "Lovelace", "", "true", "true", "false", "fresh", "0", "true", "", `a:1:{s:10:\"subscriber\";b:1;}`, "0",
		`a:1:{s:64:\"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\";a:4:{s:10:\"expiration\";i:1712000000;s:2:\"ip\";s:9:\"127.0.0.1\";}}`, "kazan"}
	// rows writes extended inserts of about the length that mysqldump gives them.
	rows := func(table string, n int, row func(i int)) {
		for i := range n {
			switch {
			case i%5000 == 0 && i > 0:
				fmt.Fprintf(out, ";\nINSERT INTO `%s` VALUES ", table)
			case i == 0:
				fmt.Fprintf(out, "INSERT INTO `%s` VALUES ", table)
			default:
				fmt.Fprint(out, ",")
			}
			row(i)
		}
		fmt.Fprint(out, ";\n")
	}
	rows("wp_usermeta", users*len(meta), func(i int) {
		fmt.Fprintf(out, "(%d,%d,'%s','%s')", i+1, i/len(meta)+1, meta[i%len(meta)], values[i%len(meta)])
	})
	fmt.Fprint(out, "CREATE TABLE `wp_users` (`ID` bigint, `user_login` varchar(60), `user_pass` varchar(255), `user_nicename` varchar(50), `user_email` varchar(100), "+
		"`user_url` varchar(100), `user_registered` datetime, `user_activation_key` varchar(255), `user_status` int, `display_name` varchar(250));\n")
	rows("wp_users", users, func(i int) {
		hash := "$P$BfEAVu23ObjBkUbr6.1RaiASnSr9u9/"
		if i%10 == 0 {
			hash = "3cb4e732631f47e6eb961f34554b7cde"
		}
		fmt.Fprintf(out, "(%d,'user%d','%s','user%d','user%d@example.com','','2015-03-04 05:06:07','',0,'User %d')", i+1, i, hash, i, i, i)
	})
	fmt.Fprint(out, "-- Dump completed on 2025-04-01 10:00:00\n")
	if err := errors.Join(out.Flush(), file.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}
