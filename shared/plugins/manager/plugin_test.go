package manager_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/plugins/catalogue"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

// The test binary runs itself: with pluginEnv as a plugin, in whose folder the
// note "mode" says how it misbehaves; and with hostEnv as a host that kills itself.
const (
	pluginEnv = "TEST_PLUGIN_FOLDER"
	hostEnv   = "TEST_HOST_FOLDER"
)

func TestMain(m *testing.M) {
	switch {
	case len(os.Args) == 3 && os.Args[2] == "manifest":
		printManifest()
	case os.Getenv(pluginEnv) != "":
		runPlugin(folder(os.Getenv(pluginEnv)))
	case os.Getenv(hostEnv) != "":
		runHost(folder(os.Getenv(hostEnv)))
	default:
		// Most tests wait for processes. Those that load the machine, or count what this
		// process has open, do not run beside others.
		flag.Parse()
		given := false
		flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
		if !given {
			_ = flag.Set("test.parallel", "6")
		}
		if _, err := pluginBinary(); err != nil { // a build is not within the time limit of a test
			panic(err)
		}
		code := m.Run()
		_ = os.RemoveAll(source.dir)
		_ = os.RemoveAll(unwatched)
		os.Exit(code)
	}
}

func printManifest() {
	one := catalogue.Range{Min: rpc.ProtocolVersion, Max: rpc.ProtocolVersion}
	m := catalogue.Manifest{
		Name: catalogue.Name, Version: ownVersion(), Protocol: one, Schema: one, OS: runtime.GOOS, Arch: runtime.GOARCH,
	}
	if m.Version == otherProtocol {
		m.Protocol = catalogue.Range{Min: 7, Max: 8}
	}
	if m.Version == "2.0.0" {
		m.Settings = []string{newSetting}
	}
	_ = json.NewEncoder(os.Stdout).Encode(m)
}

// otherProtocol is a version that does not speak the protocol of the host.
const otherProtocol = "7.0.0"

// newSetting is a key of the settings file that only 2.0.0 knows.
const newSetting = "mail.notices"

// versionFlag and a version are the first argument of a plugin.
const versionFlag = "-version="

// ownVersion is the version of the running plugin.
func ownVersion() string { return strings.TrimPrefix(os.Args[1], versionFlag) }

// folder holds the notes through which a test and its plugins communicate: one file, because
// processes write many of them. A note has a name and a text.
type folder string

// read returns the last note of a name; "" if there is none.
func (f folder) read(name string) string {
	if all := f.all(name); len(all) > 0 {
		return all[len(all)-1]
	}
	return ""
}

// all returns the notes of a name in the order of all processes that wrote them.
func (f folder) all(name string) (texts []string) {
	data, _ := os.ReadFile(filepath.Join(string(f), "notes"))
	prefix := strconv.Quote(name) + " "
	for line := range strings.Lines(string(data)) {
		if quoted, is := strings.CutPrefix(line, prefix); is && strings.HasSuffix(quoted, "\n") { // a line may be under way
			text, err := strconv.Unquote(strings.TrimSuffix(quoted, "\n"))
			if err != nil {
				panic(err)
			}
			texts = append(texts, text)
		}
	}
	return texts
}

// write adds a note. Several processes may write at once.
func (f folder) write(name, text string) {
	file, err := os.OpenFile(filepath.Join(string(f), "notes"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	_, err = fmt.Fprintf(file, "%q %q\n", name, text)
	if err := errors.Join(err, file.Close()); err != nil {
		panic(err)
	}
}

// The modes of a plugin.
const (
	good                = "good"
	garbageLine         = "garbage line"
	hangsBefore         = "hangs before the handshake"
	exitsBefore         = "exits before the handshake"
	killedBefore        = "is killed before the handshake"
	hangsConfiguring    = "hangs in configure"
	exitsConfiguring    = "exits in configure"
	refusesSettings     = "refuses the settings"
	failsPreflight      = "fails the preflight"
	failsTemplates      = "has invalid templates of mails"
	databaseUnavailable = "its database is unavailable"
	preventsRollback    = "migrates to what the old one cannot work on"
	warns               = "warns in the preflight"
	failsMigrating      = "fails to migrate"
	failsSettling       = "fails to settle"
	neverHealthy        = "never healthy"
	healthySoon         = "fails its first health checks"
	unhealthyLater      = "unhealthy once active"
	refusedLater        = "refused by the database once active"
	silentLater         = "leaves health checks unanswered once active"
	exitsActive         = "exits once active"
	ignoresShutdown     = "ignores shutdown"
	hasGrandchild       = "forks a grandchild that holds stderr"
	hasLostGrandchild   = "forks a grandchild in its own session"
	floods              = "floods the log"
	quiescesForever     = "never quiesces"
	listsEnvironment    = "lists its environment"
	panicsReading       = "panics in the first call"
	failsCalls          = "fails every call but the first"
	hangsCalls          = "responds to no call but the first"
	announcesCheck      = "passes its check once the previous version is silent"
	silentDuringCheck   = "leaves health checks unanswered while another process is checked"
	oneByOne            = "serves one call at a time, and health checks in their turn"
	oneByOneSilent      = "serves one call at a time, and leaves health checks unanswered before their turn"
	keepsTurn           = "serves one call at a time, and never ends the second"
	servesFew           = "serves one call of three, late"
	failsLate           = "fails every call but the first, late"
	unhurried           = "takes its time for a call"
	signsOut            = "refuses every session"
	hangsUnhealthy      = "makes the other version unhealthy in its migration"
	lacksRights         = "lacks a right in the database"
	panicsInMetrics     = "panics when its metrics are read"
	blocksIn            = "blocks in " // and the name of a step
)

// Notes by which two processes synchronise.
const (
	beingChecked = "being checked"
	beingSilent  = "being silent"
)

// failedChecks is the note of the number of health checks that failed because
// they did not get a turn in time.
const failedChecks = "failed checks"

// The duration of a call that is not late, so that many callers make few calls, of one
// where calls are served one at a time, and of a late call. With floodCallers and
// floodHealth the last two are too late for a health check.
const (
	promptTime = 100 * time.Millisecond
	turnTime   = 20 * time.Millisecond
	lateTime   = 600 * time.Millisecond
)

func runPlugin(f folder) {
	version := ownVersion()
	mode := f.read("mode " + version) // of one version, or of all
	if mode == "" {
		mode = f.read("mode")
	}
	pid := strconv.Itoa(os.Getpid())
	f.write("pid", pid)
	switch mode {
	case blocksIn + "start":
		for host := os.Getppid(); os.Getppid() == host; {
			time.Sleep(time.Millisecond)
		}
	case garbageLine:
		fmt.Println("Hello, World!")
		block()
	case hangsBefore:
		block()
	case exitsBefore:
		os.Exit(3)
	case killedBefore:
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		block()
	}
	stderr := os.NewFile(uintptr(syscall.Stderr), "stderr")
	build := func(_ context.Context, c rpc.Configuration, _ personal.Host) (rpc.Module, error) {
		switch mode {
		case hangsConfiguring:
			block()
		case exitsConfiguring:
			os.Exit(4)
		case refusesSettings:
			return nil, fmt.Errorf("reading the settings: %w", &rpc.PermanentError{Reason: "[session] idle: no duration"})
		case hasGrandchild, hasLostGrandchild:
			f.write("grandchild", strconv.Itoa(fork(stderr, mode == hasLostGrandchild)))
		case floods:
			go flood(stderr)
		case listsEnvironment:
			f.write("environment", strings.Join(os.Environ(), "\n"))
		}
		f.write("settings", string(c.Settings))
		f.write("account URL", c.AccountURL)
		f.write("keys", string(bytes.Join(c.SecretKeys, []byte(" "))))
		return &module{folder: f, version: version, mode: mode, turn: make(chan struct{}, 1)}, nil
	}
	rpc.Serve(build, rpc.ServeOptions{})
	if mode == ignoresShutdown {
		block()
	}
}

// block never returns. It waits for a signal, so that the runtime detects no
// deadlock.
func block() { <-signals() }

func signals() <-chan os.Signal {
	never := make(chan os.Signal, 1)
	signal.Notify(never, syscall.SIGUSR2)
	return never
}

func fork(stderr *os.File, session bool) int {
	cmd := exec.Command("/bin/sleep", "600")
	cmd.Stdout, cmd.Stderr = stderr, stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: session}
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	return cmd.Process.Pid
}

func flood(stderr *os.File) {
	long := strings.Repeat("x", 200<<10)
	for i := 0; ; i++ {
		fmt.Fprintf(stderr, `{"@message":1,"@level":{},"@timestamp":[],"pid":"mine"}`+"\n")
		fmt.Fprintf(stderr, `{"@level":"warn","@message":"line","number":%d}`+"\nnull\n[]\n{\n\x00\xff\n", i)
		fmt.Fprintln(stderr, long)
	}
}

// module is the plugin's module.
type module struct {
	folder  folder
	version string
	mode    string
	active  bool
	turn    chan struct{} // holds the call that is served, where calls are served one at a time
	failed  atomic.Int64  // health checks that got no turn in time
	served  atomic.Int64  // calls of Profile

	checked atomic.Int64 // health checks
}

func (m *module) Service() personal.Service {
	return &service{folder: m.folder, mode: m.mode, turn: m.turn, served: &m.served}
}

// Metrics counts the calls of Profile.
func (m *module) Metrics(context.Context) ([]byte, error) {
	if m.mode == panicsInMetrics {
		panic("metrics")
	}
	return fmt.Appendf(nil, "calls %d\n", m.served.Load()), nil
}

// hold blocks in the step of the mode "blocks in STEP".
func (m *module) hold(step string) {
	if m.mode == blocksIn+step {
		block()
	}
}

func (m *module) Preflight(context.Context) (rpc.PreflightResult, error) {
	m.hold("preflight")
	var checks []rpc.Check
	switch m.mode {
	case failsPreflight:
		checks = append(checks, rpc.Check{Name: "schema", Reason: "the database is newer"})
	case databaseUnavailable:
		checks = append(checks, rpc.Check{Name: "schema", Reason: "unknown"},
			rpc.Check{Name: "database", Reason: "connection refused"})
	case warns:
		checks = append(checks, rpc.Check{Name: "mail", Warning: true, Reason: "away"})
	case failsTemplates:
		checks = append(checks, rpc.Check{Name: "mail", Reason: "invalid.txt"})
	}
	switch m.preflightResult() {
	case refuses:
		checks = append(checks, rpc.Check{Name: "schema", Reason: "the database needs a newer version"})
	case noResult:
		m.folder.write("asked "+strconv.Itoa(os.Getpid()), "")
		block()
	}
	report := rpc.PreflightResult{Checks: checks}
	if key := m.folder.read("unknown " + m.version); key != "" {
		report.UnknownSettings = []rpc.UnknownSetting{{Key: key, Meant: "session.idle"}}
	}
	if m.mode == preventsRollback {
		report.SchemaCompatible = rpc.ProtocolVersion + 1 // see printManifest
	}
	return report, nil
}

// Results of a preflight on a database that changes while plugins run.
const (
	refuses  = "refuses"
	noResult = "no result"
)

// preflightResult returns what the note "preflight PID" says, or "preflight VERSION".
func (m *module) preflightResult() string {
	return cmp.Or(m.folder.read("preflight "+strconv.Itoa(os.Getpid())), m.folder.read("preflight "+m.version))
}

// Settle notes the call. It fails as long as the note "settle" says so.
func (m *module) Settle(context.Context) error {
	fails := m.folder.read("settle") == failsSettling // before the attempt is seen: a test then changes it
	m.folder.write("settled", strconv.Itoa(os.Getpid()))
	if fails {
		return errors.New("the database is read-only")
	}
	return nil
}

func (m *module) Migrate(ctx context.Context, stepLimit time.Duration) error {
	m.hold("migrate")
	m.folder.write("step limit "+m.version, stepLimit.String())
	if m.mode == hangsUnhealthy {
		m.folder.write("mode 1.0.0 healthy", "no")
		<-ctx.Done()
		return ctx.Err()
	}
	if m.mode == failsMigrating {
		return errors.New("the lock is held")
	}
	return nil
}

func (m *module) CheckDatabase(context.Context) error {
	if m.mode == lacksRights {
		return errors.New("the role lacks a right")
	}
	return nil
}

// Accepts notes the call, and accepts a session unless a note says that it has ended.
func (m *module) Accepts(_ context.Context, c personal.Credentials, settings []byte) (bool, error) {
	m.folder.write("looked", fmt.Sprintf("%s %s %s", m.version, c.UserHash, settings))
	return m.folder.read("ended "+c.UserHash) == "", nil
}

func (m *module) Activate(context.Context) error {
	m.hold("workers")
	m.active = true
	if m.mode == exitsActive {
		os.Exit(6)
	}
	m.folder.write("active", strconv.Itoa(os.Getpid()))
	return nil
}

func (m *module) Quiesce(context.Context) error {
	if m.mode == quiescesForever {
		block()
	}
	m.folder.write("quiesced", strconv.Itoa(os.Getpid()))
	return nil
}

// healthWarning is what the test plugin warns of while it is healthy.
const healthWarning = "the clocks disagree"

func (m *module) Health(ctx context.Context) ([]string, error) {
	m.hold("check")
	switch {
	case m.folder.read("mode "+m.version+" healthy") != "":
		return nil, errors.New("the database hangs")
	case m.mode == announcesCheck:
		m.folder.write(beingChecked, "yes")
		for m.folder.read(beingSilent) == "" {
			time.Sleep(time.Millisecond)
		}
	case m.mode == silentDuringCheck && m.folder.read(beingChecked) != "":
		m.folder.write(beingSilent, "yes")
		block()
	case m.mode == healthySoon && m.checked.Add(1) < 3:
		return nil, errors.New("the cache is cold")
	case m.mode == neverHealthy, m.mode == unhealthyLater && m.active:
		m.folder.write("unhealthy", strconv.Itoa(os.Getpid()))
		return nil, errors.New("the database is unavailable")
	case m.mode == refusedLater && m.active:
		m.folder.write("mode", failsPreflight)
		return nil, &rpc.PermanentError{Reason: "the database is newer"}
	case m.mode == silentLater && m.active:
		m.folder.write("mode", good)
		block()
	case m.mode == oneByOne, m.mode == keepsTurn:
		end, _ := ctx.Deadline()
		ctx, cancel := context.WithTimeout(ctx, time.Until(end)/2)
		defer cancel()
		return nil, m.awaitTurn(ctx)
	case m.mode == oneByOneSilent:
		return nil, m.awaitTurn(ctx)
	}
	return []string{healthWarning}, nil
}

// awaitTurn waits for the calls before it, and counts how often that took too long.
func (m *module) awaitTurn(ctx context.Context) error {
	select {
	case m.turn <- struct{}{}:
		<-m.turn
		return nil
	case <-ctx.Done():
		m.folder.write(failedChecks, strconv.FormatInt(m.failed.Add(1), 10))
		return errors.New("no turn in time")
	}
}

func (m *module) Close() error {
	m.folder.write("closed", strconv.Itoa(os.Getpid()))
	return nil
}

// service responds with its process ID, and misbehaves as its mode or the call says.
type service struct {
	personaltest.Service
	folder folder
	mode   string
	turn   chan struct{}
	calls  atomic.Int64
	served *atomic.Int64
}

func (s *service) Fields(context.Context) ([]personal.Field, error) {
	if s.mode == panicsReading {
		panic("secret")
	}
	return nil, nil
}

func (s *service) Profile(ctx context.Context, c personal.Credentials) (personal.Profile, error) {
	s.served.Add(1)
	if s.mode == signsOut || s.folder.read("ended "+c.UserHash) != "" {
		return personal.Profile{}, personal.NewError(personal.CodeUnauthenticated, nil)
	}
	switch s.mode {
	case failsCalls:
		return personal.Profile{}, errors.New("a bug")
	case hangsCalls:
		<-ctx.Done()
		return personal.Profile{}, ctx.Err()
	case oneByOne, oneByOneSilent, keepsTurn:
		select {
		case s.turn <- struct{}{}:
		case <-ctx.Done():
			return personal.Profile{}, ctx.Err()
		}
		if s.mode == keepsTurn && s.calls.Add(1) > 1 {
			block()
		}
		time.Sleep(turnTime)
		<-s.turn
	case servesFew:
		if s.calls.Add(1)%3 != 0 {
			<-ctx.Done()
			return personal.Profile{}, ctx.Err()
		}
		time.Sleep(lateTime)
	case unhealthyLater, silentLater, unhurried:
		time.Sleep(promptTime)
	case failsLate:
		time.Sleep(lateTime)
		return personal.Profile{}, errors.New("a bug")
	}
	return personal.Profile{Login: strconv.Itoa(os.Getpid())}, nil
}

func (s *service) Recover(ctx context.Context, r personal.RecoverRequest) error {
	switch r.Login {
	case "exit":
		os.Exit(5)
	case "wait":
		s.folder.write("waiting", "")
		for s.folder.read("go on") == "" && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		return ctx.Err()
	case "unavailable":
		return &personal.Error{Code: personal.CodeUnavailable, RetryAfter: 42 * time.Second}
	}
	return nil
}
