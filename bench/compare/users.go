package main

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/cms-personal/personal/bench/harness"
)

// callers is the number of concurrent callers.
type callers struct{ all, signIn int }

// Every caller has two users for pages, of which it also refreshes the first, and four
// users for sign-ins. No two callers share a user.
func (c callers) pageUsers() int   { return 2 * c.all }
func (c callers) signInUsers() int { return 4 * c.signIn }

// pageUser returns the number of the user for a caller's n-th page. For the first page
// it is the caller's number.
func (c callers) pageUser(caller, n int) int { return caller + n%2*c.all }

// signInUser returns the number of the user for a caller's n-th sign-in. These numbers
// follow those of the users for pages.
func (c callers) signInUser(caller, n int) int { return c.pageUsers() + caller + n%4*c.signIn }

// each sends one request for each user, by four callers, and passes the response to
// accept if the user is one for pages.
func (c callers) each(ctx context.Context, addr string, request func(user int) []byte, accept func(user int, body []byte) error) error {
	const at = 4
	users := c.pageUsers() + c.signInUsers() // rounded up to a multiple of at
	per := (users + at - 1) / at
	_, err := harness.Load{Addr: addr, Callers: at,
		Request: func(caller, n int) []byte { return request(caller*per + n) },
		Accept: func(caller, n int, body []byte) error {
			if user := caller*per + n; user < c.pageUsers() {
				return accept(user, body)
			}
			return nil
		},
	}.Drive(ctx, harness.Span{Requests: per})
	return err
}

// personalLoads registers users and returns the loads on a host by figure.
func personalLoads(ctx context.Context, addr string, c callers) (map[string]harness.Load, error) {
	sessions := make([]harness.Session, c.pageUsers())
	err := c.each(ctx, addr,
		func(user int) []byte {
			return harness.Message("POST", harness.API+"register/", "", fmt.Sprintf(
				`{"login":"user%[1]d","email":"user%[1]d@example.com","password":%[2]q,"confirm_password":%[2]q}`, user, harness.Password))
		},
		func(user int, body []byte) error { return sessions[user].Read(body) },
	)
	if err != nil {
		return nil, err
	}
	public := func(path string) func(caller, n int) []byte {
		request := harness.Message("GET", path, "", "")
		return func(int, int) []byte { return request }
	}
	private := func(path string) func(caller, n int) []byte {
		return func(caller, n int) []byte {
			return harness.Message("GET", path, sessions[c.pageUser(caller, n)].Header(), "")
		}
	}
	return map[string]harness.Load{
		figureBare:       {Addr: addr, Callers: c.all, Request: public("/healthz")},
		figureBareSingle: {Addr: addr, Callers: 1, Request: public("/healthz")},
		figureFields:     {Addr: addr, Callers: 1, Request: public(harness.API + "fields/")},
		figureRequire:    {Addr: addr, Callers: c.all, Request: private(guarded)},
		figureProfile:    {Addr: addr, Callers: c.all, Request: private(harness.API + "profile/")},
		figureRefresh: {Addr: addr, Callers: c.all,
			Request: func(caller, _ int) []byte { return private(harness.API+"auth_refresh/")(caller, 0) },
			Accept:  func(caller, _ int, body []byte) error { return sessions[caller].Read(body) },
		},
		figureSignIn: {Addr: addr, Callers: c.signIn, Request: func(caller, n int) []byte {
			return harness.Message("POST", harness.API+"auth/", "", fmt.Sprintf(
				`{"login":"user%d","password":%q}`, c.signInUser(caller, n), harness.Password))
		}},
	}, nil
}

// guarded is the path of a page behind RequireUser.
const guarded = "/demo/greeting"

// manyAccounts is the number of users of figureMany.
const manyAccounts = 10_000

// manyUsers generates the users of figureMany in a database without accounts, and
// returns the measurement.
func (c *comparison) manyUsers(ctx context.Context, addr, url string) (func(context.Context) (harness.Sample, error), error) {
	if err := harness.Generate(ctx, url, manyAccounts); err != nil {
		return nil, err
	}
	each := manyAccounts / c.options.callers.all
	l := harness.Load{Addr: addr, Callers: c.options.callers.all, Request: func(caller, _ int) []byte {
		return harness.Message("GET", guarded, harness.Credentials(int64(1+caller*each+rand.IntN(each))).Header(), "")
	}}
	return func(ctx context.Context) (harness.Sample, error) {
		if err := harness.Use(ctx, url); err != nil {
			return harness.Sample{}, err
		}
		return l.Drive(ctx, c.span)
	}, nil
}
