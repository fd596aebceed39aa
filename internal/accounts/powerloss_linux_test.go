package accounts_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/cms-personal/personal/internal/store/dbconn"
	"github.com/cms-personal/personal/internal/testkit"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
)

// TestSQLite_PowerLossLosesNothingAcknowledged records the system calls of users on a SQLite
// file. It rebuilds the file as a loss of power could leave it: with all that was synced, and any
// part of what was not. Then the file must be intact, and everything acknowledged be there.
func TestSQLite_PowerLossLosesNothingAcknowledged(t *testing.T) {
	const losses = 12 // others at each run
	if folder := os.Getenv("PERSONAL_TEST_POWERLOSS"); folder != "" {
		actUntilPowerLoss(t, folder)
		return
	}
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("strace is not installed")
	}
	folder := filepath.Dir(strings.TrimPrefix(testkit.SQLite(t), "sqlite://"))
	trace := filepath.Join(t.TempDir(), "trace")
	// Names of files and strings are in hexadecimal.
	child := exec.Command(strace, "-f", "-y", "-xx", "-s", "100000", "-o", trace,
		"-e", "trace=openat,pwrite64,write,fsync,fdatasync,ftruncate,unlink,unlinkat",
		os.Args[0], "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), "PERSONAL_TEST_POWERLOSS="+folder)
	if out, err := child.CombinedOutput(); err != nil {
		t.Fatalf("running under strace: %v\n%s", err, out)
	}
	calls := readTrace(t, trace, folder)
	first := slices.IndexFunc(calls, func(c fileCall) bool { return filepath.Base(c.path) == acknowledged })
	if first < 0 {
		t.Fatal("nothing was acknowledged")
	}
	seed := rand.Uint64()
	t.Logf("seed %d, %d calls", seed, len(calls))
	random := rand.New(rand.NewPCG(seed, 0))
	for range losses {
		at := first + random.IntN(len(calls)-first)
		disk := &disk{random: random, durable: map[string][]byte{}}
		for _, c := range calls[:at] {
			disk.apply(c)
		}
		disk.loseUnsynced()
		checkAfterPowerLoss(t, disk)
		if t.Failed() {
			t.Fatalf("failed after call %d of %d", at, len(calls))
		}
	}
}

func hostWithoutFields() *personaltest.Host {
	return &personaltest.Host{UserFieldsFunc: func(context.Context) (personal.Schema, error) { return personal.Schema{Revision: "1"}, nil }}
}

// acknowledged is the file to which the child appends its progress.
const acknowledged = "acknowledged"

// progress is what a user did: first what they try, then what was acknowledged.
type progress struct {
	Login    string
	Trying   string `json:",omitempty"` // another password; nothing else is acknowledged
	Password string
	UserID   int64
	Hash     string
}

// actUntilPowerLoss lets users register, refresh and change passwords.
func actUntilPowerLoss(t *testing.T, folder string) {
	const users, steps = 4, 24
	s := newDomain(t, "sqlite://"+filepath.Join(folder, "personal.db"), hostWithoutFields())
	file, err := os.OpenFile(filepath.Join(folder, acknowledged), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	report := func(p progress) {
		line, _ := json.Marshal(p)
		if _, err := file.Write(append(line, '\n')); err != nil {
			t.Error(err)
		}
	}
	var all sync.WaitGroup
	for i := range users {
		all.Go(func() {
			p := progress{Login: fmt.Sprint("user", i), Password: "password 0 of the user"}
			in, err := s.Register(t.Context(), personal.RegisterRequest{Login: p.Login, Password: p.Password, ConfirmPassword: p.Password,
				Email: p.Login + "@example.com"})
			current := in.Credentials
			for step := 1; err == nil && step <= steps; step++ {
				p.UserID, p.Hash = current.UserID, current.UserHash
				report(p)
				if step%6 != 0 {
					current, err = s.Refresh(t.Context(), current)
					continue
				}
				next := fmt.Sprintf("password %d of the user", step)
				trying := p
				trying.Trying = next
				report(trying)
				current, err = s.ChangePassword(t.Context(), personal.ChangePasswordRequest{
					Credentials: current, OldPassword: p.Password, Password: next, ConfirmPassword: next,
				})
				p.Password = next
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// checkAfterPowerLoss starts a process on what is on the disk.
func checkAfterPowerLoss(t *testing.T, d *disk) {
	t.Helper()
	url := testkit.SQLite(t)
	for path, content := range d.durable {
		if name := filepath.Base(path); name != acknowledged {
			target := filepath.Join(filepath.Dir(strings.TrimPrefix(url, "sqlite://")), name)
			if err := os.WriteFile(target, content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	s := newDomain(t, url, hostWithoutFields())
	pools, err := dbconn.Open(url, dbconn.RequestLimits)
	if err != nil {
		t.Fatal(err)
	}
	defer pools.Close()
	var integrity string
	if err := pools.Read.QueryRowContext(t.Context(), "PRAGMA integrity_check").Scan(&integrity); err != nil || integrity != "ok" {
		t.Errorf("got the integrity %q (%v), want ok", integrity, err)
	}
	last := map[string]progress{}
	for line := range strings.Lines(string(d.durable[acknowledged])) {
		var p progress
		if err := json.Unmarshal([]byte(line), &p); err != nil {
			t.Fatal(err)
		}
		last[p.Login] = p
	}
	for _, p := range last {
		_, err := s.Authorize(t.Context(), personal.AuthorizeRequest{Login: p.Login, Password: p.Password})
		if err != nil && p.Trying != "" {
			_, err = s.Authorize(t.Context(), personal.AuthorizeRequest{Login: p.Login, Password: p.Trying})
		}
		if err == nil && p.Trying == "" {
			_, err = s.Refresh(t.Context(), personal.Credentials{UserID: p.UserID, UserHash: p.Hash})
		}
		if err != nil {
			t.Errorf("%s (%+v): %v", p.Login, p, err)
		}
	}
}

// fileCall is a system call on a file.
type fileCall struct {
	name   string // open, write, sync, truncate, unlink
	path   string
	data   []byte
	offset int64 // of data; of a truncation, the new length
	syncs  int   // of a sync: only calls before this one
}

var (
	// callLine matches: 12 pwrite64(5</folder/file>, "data", 4, 0) = 4
	callLine = regexp.MustCompile(`^(\d+) +(\w+)\((.*)$`)
	resumed  = regexp.MustCompile(`^(\d+) +<\.\.\. (\w+) resumed>`)
	quoted   = regexp.MustCompile(`"((?:\\x[0-9a-f]{2})*)"`)
	ofFile   = regexp.MustCompile(`^\d+<([^>]*)>`)
)

// readTrace returns the calls on files of the folder, and on the folder. A write counts from its
// beginning, a sync at its end and only for what was before its beginning.
func readTrace(t *testing.T, trace, folder string) (calls []fileCall) {
	t.Helper()
	f, err := os.Open(trace)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	pending := map[string]fileCall{} // syncs that have started, by thread
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if m := resumed.FindStringSubmatch(line); m != nil {
			if c, ok := pending[m[1]]; ok {
				calls = append(calls, c)
				delete(pending, m[1])
			}
			continue
		}
		m := callLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		c, ok := parseCall(m[2], m[3])
		if !ok || c.path != folder && filepath.Dir(c.path) != folder || strings.HasSuffix(c.path, "-shm") {
			continue
		}
		c.syncs = len(calls)
		if c.name == "sync" && strings.Contains(line, "unfinished") {
			pending[m[1]] = c
			continue
		}
		calls = append(calls, c)
	}
	if lines.Err() != nil {
		t.Fatal(lines.Err())
	}
	return calls
}

func parseCall(name, args string) (c fileCall, ok bool) {
	texts := quoted.FindAllStringSubmatch(args, -1)
	if m := ofFile.FindStringSubmatch(args); m != nil {
		c.path = string(unhex(m[1]))
	}
	numbers := strings.Split(strings.TrimSuffix(strings.SplitN(strings.SplitN(args, ") = ", 2)[0], " <unfinished", 2)[0], ")"), ", ")
	number, _ := strconv.ParseInt(numbers[len(numbers)-1], 10, 64)
	switch name {
	case "fsync", "fdatasync":
		c.name = "sync"
	case "ftruncate":
		c.name, c.offset = "truncate", number
	case "pwrite64", "write":
		if len(texts) == 0 {
			return c, false
		}
		c.name, c.data, c.offset = "write", unhex(texts[0][1]), number
		if name == "write" {
			c.offset = -1 // at the end
		}
	case "unlink", "unlinkat", "openat":
		if len(texts) == 0 || name == "openat" && !strings.Contains(args, "O_CREAT") {
			return c, false
		}
		c.name, c.path = strings.TrimSuffix(name, "at"), string(unhex(texts[0][1]))
	}
	return c, c.path != ""
}

// unhex returns the bytes of text such as \x01\x02; other text is returned as it is.
func unhex(s string) []byte {
	if !strings.HasPrefix(s, `\x`) {
		return []byte(s)
	}
	out := make([]byte, 0, len(s)/4)
	for i := 0; i+4 <= len(s); i += 4 {
		b, _ := strconv.ParseUint(s[i+2:i+4], 16, 8)
		out = append(out, byte(b))
	}
	return out
}

// disk is what survives a loss of power: what was synced, and any part of the rest.
type disk struct {
	random  *rand.Rand
	durable map[string][]byte
	calls   []fileCall // all calls so far
	pending []int      // those that were not synced, as indexes of calls
}

func (d *disk) apply(c fileCall) {
	at := len(d.calls)
	d.calls = append(d.calls, c)
	if filepath.Base(c.path) == acknowledged { // the test's own knowledge, which is never lost
		if c.name == "write" {
			d.durable[acknowledged] = append(d.durable[acknowledged], c.data...)
		}
		return
	}
	if c.name != "sync" {
		d.pending = append(d.pending, at)
		return
	}
	d.pending = slices.DeleteFunc(d.pending, func(i int) bool {
		p := d.calls[i]
		entry := p.name == "open" || p.name == "unlink"
		synced := i < c.syncs && (p.path == c.path && !entry || entry && filepath.Dir(p.path) == c.path)
		if synced {
			d.write(p, func() bool { return true })
		}
		return synced
	})
}

// loseUnsynced applies any part of what was not synced: whole calls, and sectors of them.
func (d *disk) loseUnsynced() {
	for _, i := range d.pending {
		switch d.random.IntN(3) {
		case 0:
		case 1:
			d.write(d.calls[i], func() bool { return true })
		case 2:
			d.write(d.calls[i], func() bool { return d.random.IntN(2) == 0 })
		}
	}
}

// write applies a call, and of a write those sectors that keep reports true for.
func (d *disk) write(c fileCall, keep func() bool) {
	const sector = 512
	content := d.durable[c.path]
	switch c.name {
	case "open":
		if content == nil {
			d.durable[c.path] = []byte{}
		}
	case "unlink":
		delete(d.durable, c.path)
	case "truncate":
		if int64(len(content)) > c.offset {
			d.durable[c.path] = content[:c.offset]
		}
	case "write":
		for from := int64(0); from < int64(len(c.data)); {
			at := c.offset + from
			part := c.data[from:min(int64(len(c.data)), from+sector-at%sector)]
			if keep() {
				if grow := at + int64(len(part)) - int64(len(content)); grow > 0 {
					content = append(content, make([]byte, grow)...)
				}
				copy(content[at:], part)
			}
			from += int64(len(part))
		}
		d.durable[c.path] = content
	}
}
