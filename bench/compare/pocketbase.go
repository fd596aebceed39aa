package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"

	"github.com/cms-personal/personal/bench/harness"
)

// pocketBase returns PocketBase with a data folder.
func pocketBase(binary, folder string) harness.Program {
	return harness.Program{Ready: "/api/health", Log: folder + ".log", Command: func(addr string) *exec.Cmd {
		return exec.Command(binary, "serve", "--http", addr, "--dir", folder)
	}}
}

// pocketUser is a signed-in record of PocketBase's built-in collection users.
type pocketUser struct {
	Token  string
	Record struct{ ID string }
}

func (u pocketUser) header() string { return "Authorization: " + u.Token + "\r\n" }

// pocketLoads registers users and returns the loads on PocketBase that can be compared
// with those of [personalLoads].
func pocketLoads(ctx context.Context, addr string, c callers) (map[string]harness.Load, error) {
	const collection = "/api/collections/users/"
	users := make([]pocketUser, c.pageUsers())
	create := func(user int) []byte {
		return harness.Message("POST", collection+"records", "", fmt.Sprintf(
			`{"email":"user%[1]d@example.com","password":%[2]q,"passwordConfirm":%[2]q}`, user, harness.Password))
	}
	signIn := func(user int) []byte {
		return harness.Message("POST", collection+"auth-with-password", "", fmt.Sprintf(
			`{"identity":"user%d@example.com","password":%q}`, user, harness.Password))
	}
	if err := c.each(ctx, addr, create, func(int, []byte) error { return nil }); err != nil {
		return nil, err
	}
	err := c.each(ctx, addr, signIn, func(user int, body []byte) error { return json.Unmarshal(body, &users[user]) })
	if err != nil {
		return nil, err
	}
	return map[string]harness.Load{
		figureProfile: {Addr: addr, Callers: c.all, Request: func(caller, n int) []byte {
			u := users[c.pageUser(caller, n)]
			return harness.Message("GET", collection+"records/"+u.Record.ID, u.header(), "")
		}},
		figureRefresh: {Addr: addr, Callers: c.all,
			Request: func(caller, _ int) []byte {
				return harness.Message("POST", collection+"auth-refresh", users[caller].header(), "")
			},
			Accept: func(caller, _ int, body []byte) error { return json.Unmarshal(body, &users[caller]) },
		},
		figureSignIn: {Addr: addr, Callers: c.signIn, Request: func(caller, n int) []byte { return signIn(c.signInUser(caller, n)) }},
	}, nil
}
