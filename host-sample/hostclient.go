package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cms-personal/personal/shared/pluginadmin"
)

// maxAnswer bounds what is read of an answer, in bytes.
const maxAnswer = 16 << 20

// pluginAPI is where [pluginadmin] is mounted.
const pluginAPI = "/admin/api/plugin"

// hostClient calls the admin's API of the host that runs on a data folder.
type hostClient struct {
	url   string
	token string
	http  *http.Client
}

// findHost finds the running host. That the lock is held is what counts: at an
// address that a host left behind when it was killed somebody else may listen by
// now, who must not get the token.
func findHost(dir string) (*hostClient, error) {
	none := fmt.Errorf("no host runs on the data folder %s", dir)
	data, err := os.ReadFile(filepath.Join(dir, "host.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, none
	}
	if err != nil {
		return nil, fmt.Errorf("finding the host: %w", err)
	}
	var at address
	if err := json.Unmarshal(data, &at); err != nil {
		return nil, fmt.Errorf("finding the host: host.json: %w", err)
	}
	owner, err := lockOwner(filepath.Join(dir, "host.lock"))
	if err != nil {
		return nil, fmt.Errorf("finding the host: %w", err)
	}
	switch owner {
	case "":
		return nil, none
	case fmt.Sprint(at.PID):
	default:
		return nil, fmt.Errorf("process %s has the data folder %s, and does not listen yet", owner, dir)
	}
	token, err := os.ReadFile(filepath.Join(dir, "admin-token"))
	if err != nil {
		return nil, fmt.Errorf("reading the admin token: %w", err)
	}
	return &hostClient{url: at.URL, token: strings.TrimSpace(string(token)), http: directClient()}, nil
}

// lockOwner returns the process that holds a lock, empty if none does.
func lockOwner(path string) (string, error) {
	lock, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer lock.Close() // frees the lock, should we have got it
	err = unix.Flock(int(lock.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ownerOf(lock), nil
	}
	return "", err
}

// directClient shows the token to nobody between: no proxy, no redirect. A swap
// takes as long as it takes.
func directClient() *http.Client {
	return &http.Client{
		Transport:     &http.Transport{DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// faultError is a refusal by the host.
type faultError struct{ fault pluginadmin.ErrorResponse }

// Error names the step and the reason, if it is about a swap.
func (e *faultError) Error() string {
	if e.fault.Step == "" {
		return e.fault.Error
	}
	return fmt.Sprintf("refused at the step %s: %s", e.fault.Step, e.fault.Reason)
}

// status returns the host's report on the plugin, and as it was sent.
func (c *hostClient) status(ctx context.Context) (pluginadmin.Report, []byte, error) {
	return c.report(ctx, http.MethodGet, "", nil)
}

// report sends a request that is answered by a report; its error is a
// [*faultError] if it was refused.
func (c *hostClient) report(ctx context.Context, method, path string, body []byte) (pluginadmin.Report, []byte, error) {
	var report pluginadmin.Report
	data, err := c.ask(ctx, method, pluginAPI+path, body, &report)
	return report, data, err
}

// ask sends a request and reads the answer into v, which it also returns as it was
// sent. Its error is a [*faultError] if it was refused.
func (c *hostClient) ask(ctx context.Context, method, path string, body []byte, v any) ([]byte, error) {
	code, data, err := c.send(ctx, method, path, body)
	if err != nil {
		return nil, fmt.Errorf("asking the host: %w", err)
	}
	if code/100 != 2 {
		refused := &faultError{}
		if json.Unmarshal(data, &refused.fault) != nil || refused.fault.Error == "" {
			return nil, fmt.Errorf("the host answers with status %d", code)
		}
		return nil, refused
	}
	if err := json.Unmarshal(data, v); err != nil {
		return nil, fmt.Errorf("reading the host's answer: %w", err)
	}
	return data, nil
}

func (c *hostClient) send(ctx context.Context, method, path string, body []byte) (int, []byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Authorization", "Bearer "+c.token)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	response, err := c.http.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	return response.StatusCode, data, err
}
