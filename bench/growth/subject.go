package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/cms-personal/personal/bench/harness"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/pluginrpc"
)

// The names of the figures in the tables.
const (
	figureRequire   = "RequireUser page"
	figureProfile   = "profile"
	figureRefresh   = "refresh"
	figureSignIn    = "sign-in"
	figureFirstPage = "users, first page"
	figureLogin     = "users, exact login"
	figurePart      = "users, part of one name"
)

// sampled is the number of sessions that are verified, and of others that are
// refreshed. If there are fewer, a half is verified and the other half refreshed.
const sampled = 10_000

// sessionsEach is the number of sessions of each account.
const sessionsEach = 10

// maxCallers returns how many callers can have sessions of their own.
func maxCallers(accounts int64) int { return int(min(sampled, accounts*sessionsEach/2)) }

// subject is a size of the database.
type subject struct {
	options options
	name    string
	data    harness.Data
	url     string
	folder  string // temporary
	jobs    harness.Jobs
}

// start starts a host and, to search users, a manager with a plugin of its own, and
// adds the measurements.
func (s subject) start(ctx context.Context, closers *closers) error {
	numbers := s.data.Sample(2 * sampled)
	verified, refreshed := numbers[:len(numbers)/2], numbers[len(numbers)/2:]
	if err := errors.Join(s.data.Reset(ctx, s.url, numbers), harness.Touched(ctx, s.url, verified)); err != nil {
		return err
	}
	uncached, err := harness.NoVerifyCache(".")
	if err != nil {
		return err
	}
	// The kept sessions must not expire.
	settings := "[throttle]\nenabled = false\n[session]\nidle = \"876000h\"\nabsolute = \"876000h\"\n" + uncached
	if err := os.WriteFile(s.folder+".toml", []byte(settings), 0o600); err != nil {
		return err
	}
	host := build.Program(s.folder, s.folder+".toml", s.url)
	process, _, err := host.Start(ctx)
	if err != nil {
		return err
	}
	closers.add(process.Stop)
	if err := s.addLoads(ctx, process.Addr, verified, refreshed); err != nil {
		return err
	}

	folder := s.folder + "-manager"
	if err := os.Mkdir(folder, 0o700); err != nil {
		return err
	}
	conn, stop, err := harness.StartManager(ctx, build.Plugin, folder, s.url, settings)
	if err != nil {
		return err
	}
	closers.add(stop)
	return s.addSearches(ctx, pluginrpc.NewClient(conn, harness.CMS{}))
}

// addLoads adds the loads on the host, and uses every session once, so that no round
// differs from the others.
func (s subject) addLoads(ctx context.Context, addr string, verified, refreshed []int64) error {
	o := s.options
	verify, refresh := s.sessions(verified, o.callers), s.sessions(refreshed, o.callers)
	signIn := s.sessions(verified, o.signInCallers)
	get := func(path string, of func(caller, n int) *harness.Session) func(caller, n int) []byte {
		return func(caller, n int) []byte { return harness.Message("GET", path, of(caller, n).Header(), "") }
	}
	loads := map[string]harness.Load{
		figureRequire: {Addr: addr, Callers: o.callers, Request: get("/demo/greeting", verify)},
		figureProfile: {Addr: addr, Callers: o.callers, Request: get(harness.API+"profile/", verify)},
		figureRefresh: {
			Addr: addr, Callers: o.callers, Request: get(harness.API+"auth_refresh/", refresh),
			Accept: func(caller, n int, body []byte) error { return refresh(caller, n).Read(body) },
		},
		figureSignIn: {Addr: addr, Callers: o.signInCallers, Request: func(caller, n int) []byte {
			return harness.Message("POST", harness.API+"auth/", "", fmt.Sprintf(
				`{"login":%q,"password":%q}`, harness.Login(signIn(caller, n).ID), harness.Password))
		}},
	}
	for _, figure := range []string{figureProfile, figureRefresh} {
		if _, err := loads[figure].Drive(ctx, harness.Span{Requests: len(verified) / o.callers}); err != nil {
			return fmt.Errorf("%s: %w", figure, err)
		}
	}
	for figure, l := range loads {
		s.jobs.Add(figure, s.name, func(ctx context.Context) (harness.Sample, error) { return l.Drive(ctx, harness.NewSpan(o.seconds)) })
	}
	return nil
}

// sessions returns a function that returns the session for a caller's n-th request.
// Each caller has sessions of its own.
func (s subject) sessions(numbers []int64, callers int) func(caller, n int) *harness.Session {
	sessions := make([]harness.Session, len(numbers))
	for i, number := range numbers {
		sessions[i] = s.data.Credentials(number)
	}
	each := len(sessions) / callers
	return func(caller, n int) *harness.Session { return &sessions[caller*each+n%each] }
}

// searched is the number of accounts whose logins and names are searched.
const searched = 1000

// addSearches adds searches by one administrator, and searches every login once.
func (s subject) addSearches(ctx context.Context, users personal.Administration) error {
	sessions := s.data.Sample(searched)
	find := func(text func(account int64) string, minUsers int) func(ctx context.Context, n int) error {
		return func(ctx context.Context, n int) error {
			text := text(s.data.Credentials(sessions[n%len(sessions)]).ID)
			page, err := users.FindUsers(ctx, personal.FindUsersRequest{Search: text})
			if err == nil && len(page.Users) < minUsers {
				err = fmt.Errorf("search for %q: %d users, want %d or more", text, len(page.Users), minUsers)
			}
			return err
		}
	}
	login := find(harness.Login, 1)
	for n := range sessions {
		if err := login(ctx, n); err != nil {
			return err
		}
	}
	for figure, search := range map[string]func(ctx context.Context, n int) error{
		figureFirstPage: find(func(int64) string { return "" }, personal.DefaultUserLimit),
		figureLogin:     login,
		figurePart:      find(func(account int64) string { return fmt.Sprint("trova ", account) }, 1),
	} {
		s.jobs.Add(figure, s.name, func(ctx context.Context) (harness.Sample, error) {
			return harness.Repeat(ctx, 1, harness.NewSpan(s.options.seconds), func(_, n int) error { return search(ctx, n) })
		})
	}
	return nil
}
