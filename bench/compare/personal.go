package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	password = "a long one for the comparison"
	api      = "/api/v1/personal/"
)

// The names of the figures in the tables.
const (
	figureStart      = "start to ready"
	figureMemory     = "idle memory"
	figureBare       = "bare page"
	figureRequire    = "RequireUser page"
	figureProfile    = "profile"
	figureRefresh    = "refresh"
	figureSignIn     = "sign-in"
	figureBareSingle = "bare page, 1 caller"
	figureFields     = "fields/, 1 caller"
	figureEcho       = "echo, 1 caller"
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
	_, err := load{addr: addr, callers: at,
		request: func(caller, n int) []byte { return request(caller*per + n) },
		accept: func(caller, n int, body []byte) error {
			if user := caller*per + n; user < c.pageUsers() {
				return accept(user, body)
			}
			return nil
		},
	}.drive(ctx, span{requests: per})
	return err
}

// personal is a build of the sample host and the plugin.
type personal struct {
	host, plugin string
}

// program returns the host with a data folder. The first start installs the plugin.
// database is a URL, or empty for SQLite in the folder.
func (b personal) program(folder, settings, database string) program {
	return program{ready: "/readyz", log: folder + ".log", command: func(addr string) *exec.Cmd {
		args := []string{"serve", "--addr", addr, "--data", folder, "--settings", settings}
		if _, err := os.Stat(filepath.Join(folder, "plugins")); err != nil {
			args = append(args, "--plugin", b.plugin)
		}
		cmd := exec.Command(b.host, args...)
		for _, v := range os.Environ() {
			if !strings.HasPrefix(v, "PERSONAL_") {
				cmd.Env = append(cmd.Env, v)
			}
		}
		if database != "" {
			cmd.Env = append(cmd.Env, "PERSONAL_DATABASE="+database)
		}
		return cmd
	}}
}

// memory returns the memory of the host and its plugin in MB.
func (s *process) memory(ctx context.Context) (float64, error) {
	pids := []int{s.cmd.Process.Pid}
	body, err := s.get(ctx, s.ready)
	if err != nil {
		return 0, err
	}
	var readiness struct{ PID int }
	if err := json.Unmarshal(body, &readiness); err != nil {
		return 0, err
	}
	if readiness.PID != 0 {
		pids = append(pids, readiness.PID)
	}
	return pss(pids...)
}

// session holds the credentials of a signed-in user.
type session struct {
	ID   int64  `json:"user_id"`
	Hash string `json:"user_hash"`
}

func (s session) header() string {
	return fmt.Sprintf("User-Id: %d\r\nUser-Hash: %s\r\n", s.ID, s.Hash)
}

// read sets the session from a response.
func (s *session) read(body []byte) error {
	var envelope struct{ Data session }
	if err := json.Unmarshal(body, &envelope); err != nil {
		return err
	}
	*s = envelope.Data
	return nil
}

// personalLoads registers users and returns the loads on a host by figure.
func personalLoads(ctx context.Context, addr string, c callers) (map[string]load, error) {
	sessions := make([]session, c.pageUsers())
	err := c.each(ctx, addr,
		func(user int) []byte {
			return message("POST", api+"register/", "", fmt.Sprintf(
				`{"login":"user%[1]d","email":"user%[1]d@example.com","password":%[2]q,"confirm_password":%[2]q}`, user, password))
		},
		func(user int, body []byte) error { return sessions[user].read(body) },
	)
	if err != nil {
		return nil, err
	}
	public := func(path string) func(caller, n int) []byte {
		request := message("GET", path, "", "")
		return func(int, int) []byte { return request }
	}
	private := func(path string) func(caller, n int) []byte {
		return func(caller, n int) []byte { return message("GET", path, sessions[c.pageUser(caller, n)].header(), "") }
	}
	return map[string]load{
		figureBare:       {addr: addr, callers: c.all, request: public("/healthz")},
		figureBareSingle: {addr: addr, callers: 1, request: public("/healthz")},
		figureFields:     {addr: addr, callers: 1, request: public(api + "fields/")},
		figureRequire:    {addr: addr, callers: c.all, request: private("/demo/greeting")},
		figureProfile:    {addr: addr, callers: c.all, request: private(api + "profile/")},
		figureRefresh: {addr: addr, callers: c.all,
			request: func(caller, _ int) []byte { return private(api+"auth_refresh/")(caller, 0) },
			accept:  func(caller, _ int, body []byte) error { return sessions[caller].read(body) },
		},
		figureSignIn: {addr: addr, callers: c.signIn, request: func(caller, n int) []byte {
			return message("POST", api+"auth/", "", fmt.Sprintf(`{"login":"user%d","password":%q}`, c.signInUser(caller, n), password))
		}},
	}, nil
}
