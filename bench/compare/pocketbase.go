package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
)

// pocketBase returns PocketBase with a data folder.
func pocketBase(binary, folder string) program {
	return program{ready: "/api/health", log: folder + ".log", command: func(addr string) *exec.Cmd {
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
func pocketLoads(ctx context.Context, addr string, c callers) (map[string]load, error) {
	const collection = "/api/collections/users/"
	users := make([]pocketUser, c.pageUsers())
	create := func(user int) []byte {
		return message("POST", collection+"records", "", fmt.Sprintf(
			`{"email":"user%[1]d@example.com","password":%[2]q,"passwordConfirm":%[2]q}`, user, password))
	}
	signIn := func(user int) []byte {
		return message("POST", collection+"auth-with-password", "", fmt.Sprintf(
			`{"identity":"user%d@example.com","password":%q}`, user, password))
	}
	if err := c.each(ctx, addr, create, func(int, []byte) error { return nil }); err != nil {
		return nil, err
	}
	err := c.each(ctx, addr, signIn, func(user int, body []byte) error { return json.Unmarshal(body, &users[user]) })
	if err != nil {
		return nil, err
	}
	return map[string]load{
		figureProfile: {addr: addr, callers: c.all, request: func(caller, n int) []byte {
			u := users[c.pageUser(caller, n)]
			return message("GET", collection+"records/"+u.Record.ID, u.header(), "")
		}},
		figureRefresh: {addr: addr, callers: c.all,
			request: func(caller, _ int) []byte {
				return message("POST", collection+"auth-refresh", users[caller].header(), "")
			},
			accept: func(caller, _ int, body []byte) error { return json.Unmarshal(body, &users[caller]) },
		},
		figureSignIn: {addr: addr, callers: c.signIn, request: func(caller, n int) []byte { return signIn(c.signInUser(caller, n)) }},
	}, nil
}
