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
	s.addLoads(process.Addr, verified, refreshed)

	folder := s.folder + "-manager"
	if err := os.Mkdir(folder, 0o700); err != nil {
		return err
	}
	conn, stop, err := harness.StartManager(ctx, build.Plugin, folder, s.url, settings)
	if err != nil {
		return err
	}
	closers.add(stop)
	s.addSearches(pluginrpc.NewClient(conn, harness.CMS{}))
	return nil
}

// addLoads adds the loads on the host.
func (s subject) addLoads(addr string, verified, refreshed []int64) {
	o := s.options
	add := func(figure string, l harness.Load) {
		l.Addr = addr
		s.jobs.Add(figure, s.name, func(ctx context.Context) (harness.Sample, error) { return l.Drive(ctx, harness.NewSpan(o.seconds)) })
	}
	verify, refresh := s.sessions(verified), s.sessions(refreshed)
	get := func(path string, of func(caller, n int) *harness.Session) func(caller, n int) []byte {
		return func(caller, n int) []byte { return harness.Message("GET", path, of(caller, n).Header(), "") }
	}
	add(figureRequire, harness.Load{Callers: o.callers, Request: get("/demo/greeting", verify)})
	add(figureProfile, harness.Load{Callers: o.callers, Request: get(harness.API+"profile/", verify)})
	add(figureRefresh, harness.Load{
		Callers: o.callers,
		Request: get(harness.API+"auth_refresh/", refresh),
		Accept:  func(caller, n int, body []byte) error { return refresh(caller, n).Read(body) },
	})
	add(figureSignIn, harness.Load{Callers: o.signInCallers, Request: func(caller, n int) []byte {
		return harness.Message("POST", harness.API+"auth/", "", fmt.Sprintf(
			`{"login":%q,"password":%q}`, harness.Login(verify(caller, n).ID), harness.Password))
	}})
}

// sessions returns a function that returns the session for a caller's n-th request.
// Each caller has sessions of its own.
func (s subject) sessions(numbers []int64) func(caller, n int) *harness.Session {
	sessions := make([]harness.Session, len(numbers))
	for i, number := range numbers {
		sessions[i] = s.data.Credentials(number)
	}
	each := len(sessions) / s.options.callers
	return func(caller, n int) *harness.Session { return &sessions[caller*each+n%each] }
}

// addSearches adds searches by one administrator.
func (s subject) addSearches(users personal.Administration) {
	random := s.data.Sample(sampled)
	search := func(figure string, want int, text func(account int64) string) {
		s.jobs.Add(figure, s.name, func(ctx context.Context) (harness.Sample, error) {
			return harness.Repeat(ctx, 1, harness.NewSpan(s.options.seconds), func(_, n int) error {
				text := text((random[n%len(random)]-1)%s.data.Accounts + 1)
				page, err := users.FindUsers(ctx, personal.FindUsersRequest{Search: text})
				if err == nil && len(page.Users) < want {
					err = fmt.Errorf("search for %q: %d users, want %d or more", text, len(page.Users), want)
				}
				return err
			})
		})
	}
	search(figureFirstPage, personal.DefaultUserLimit, func(int64) string { return "" })
	search(figureLogin, 1, harness.Login)
	search(figurePart, 1, func(account int64) string { return fmt.Sprint("trova ", account) })
}
