package main

import (
	"context"
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

// sampled is the number of sessions that the load uses.
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
	numbers := s.data.Sample(sampled)
	if err := s.data.Reset(ctx, s.url, numbers); err != nil {
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
	s.addLoads(process.Addr, numbers)

	folder := s.folder + "-manager"
	if err := os.Mkdir(folder, 0o700); err != nil {
		return err
	}
	conn, stop, err := harness.StartManager(ctx, build.Plugin, folder, s.url, settings)
	if err != nil {
		return err
	}
	closers.add(stop)
	s.addSearches(pluginrpc.NewAdministration(conn, harness.CMS{}))
	return nil
}

// addLoads adds the loads on the host. Each caller has sessions of its own.
func (s subject) addLoads(addr string, numbers []int64) {
	o, span := s.options, harness.NewSpan(s.options.seconds)
	sessions := make([]harness.Session, len(numbers))
	for i, number := range numbers {
		sessions[i] = s.data.Credentials(number)
	}
	each := len(sessions) / o.callers
	of := func(caller, n int) *harness.Session { return &sessions[caller*each+n%each] }
	page := func(path string) func(caller, n int) []byte {
		return func(caller, n int) []byte { return harness.Message("GET", path, of(caller, n).Header(), "") }
	}
	drive := func(figure string, l harness.Load, prepare func(context.Context) error) {
		l.Addr = addr
		s.jobs.Add(figure, s.name, func(ctx context.Context) (harness.Sample, error) {
			if err := prepare(ctx); err != nil {
				return harness.Sample{}, err
			}
			return l.Drive(ctx, span)
		})
	}
	touch := func(ctx context.Context) error { return harness.Touch(ctx, s.url, numbers) }
	nothing := func(context.Context) error { return nil }
	drive(figureRequire, harness.Load{Callers: o.callers, Request: page("/demo/greeting")}, touch)
	drive(figureProfile, harness.Load{Callers: o.callers, Request: page(harness.API + "profile/")}, touch)
	drive(figureRefresh, harness.Load{
		Callers: o.callers,
		Request: page(harness.API + "auth_refresh/"),
		Accept:  func(caller, n int, body []byte) error { return of(caller, n).Read(body) },
	}, nothing)
	drive(figureSignIn, harness.Load{Callers: o.signInCallers, Request: func(caller, n int) []byte {
		account := of(caller, n).ID
		return harness.Message("POST", harness.API+"auth/", "", fmt.Sprintf(`{"login":%q,"password":%q}`, harness.Login(account), harness.Password))
	}}, nothing)
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
