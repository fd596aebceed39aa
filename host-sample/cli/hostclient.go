package cli

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
	"path/filepath"
	"strings"
	"time"

	"github.com/cms-personal/personal/shared/durable"
	"github.com/cms-personal/personal/shared/plugins/adminapi"
)

// maxResponse bounds what is read of a response, in bytes.
const maxResponse = 16 << 20

// hostClient calls the admin API of the host that runs on a data folder.
type hostClient struct {
	url   string
	token string
	http  *http.Client
}

// findAddress returns the URL of the host that runs on the folder of --data. It checks
// the lock too: the address that a killed host left behind may belong to another
// program by now, which must not get the token.
func findAddress(data string) (url string, err error) {
	dir, err := absolute(data)
	if err != nil {
		return "", &flagError{"data", err}
	}
	none := fmt.Errorf("no host runs on the data folder %s", dir)
	// Any user who can write there chooses the address that gets the token.
	if err := durable.CheckFolder(dir, nil); errors.As(err, new(*durable.UntrustedError)) {
		return "", &flagError{"data", err}
	}
	announced, err := durable.ReadTrusted(filepath.Join(dir, "host.json")) // the group may be able to write to the folder
	if errors.Is(err, fs.ErrNotExist) {
		return "", none
	}
	if err != nil {
		return "", fmt.Errorf("finding the host: %w", err)
	}
	var at address
	if err := json.Unmarshal(announced, &at); err != nil {
		return "", fmt.Errorf("finding the host: host.json: %w", err)
	}
	owner, err := lockOwner(filepath.Join(dir, "host.lock"))
	if err != nil {
		return "", fmt.Errorf("finding the host: %w", err)
	}
	if owner == "" {
		return "", none
	}
	if owner != fmt.Sprint(at.PID) {
		return "", fmt.Errorf("process %s has locked the data folder %s, but does not listen yet", owner, dir)
	}
	return at.URL, nil
}

// findHost finds the host that runs on the folder of --data.
func findHost(data string) (*hostClient, error) {
	url, err := findAddress(data)
	if err != nil {
		return nil, err
	}
	token, err := durable.ReadSecret(filepath.Join(data, "admin-token"))
	if err != nil {
		return nil, fmt.Errorf("reading the admin token: %w", err)
	}
	// No proxy and no redirect, which would see the token. No time limit for
	// responses, because a swap may take long.
	client := &http.Client{
		Transport:     &http.Transport{DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return &hostClient{url: url, token: strings.TrimSpace(string(token)), http: client}, nil
}

// hostError is an error response of the host.
type hostError struct{ response adminapi.ErrorResponse }

// Error names the step and the reason if the host refused a swap.
func (e *hostError) Error() string {
	if e.response.Step == "" {
		return e.response.Error
	}
	return fmt.Sprintf("refused at the step %s: %s", e.response.Step, e.response.Reason)
}

// status returns the host's report on the plugin, also as it was received.
func (c *hostClient) status(ctx context.Context) (report adminapi.Overview, raw []byte, err error) {
	raw, err = c.call(ctx, http.MethodGet, pluginAPI, nil, &report)
	return report, raw, err
}

// call sends a request and decodes the response into result. It also returns the
// response as it was received. The error of an error response is a [*hostError].
func (c *hostClient) call(ctx context.Context, method, path string, body []byte, result any) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("calling the host: %w", err)
	}
	r.Header.Set("Authorization", "Bearer "+c.token)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	response, err := c.http.Do(r)
	if err != nil {
		return nil, fmt.Errorf("calling the host: %w", err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, maxResponse))
	if err != nil {
		return nil, fmt.Errorf("reading the host's response: %w", err)
	}
	if response.StatusCode/100 != 2 {
		refused := &hostError{}
		if json.Unmarshal(data, &refused.response) != nil || refused.response.Error == "" {
			return nil, fmt.Errorf("the host responds with status %d", response.StatusCode)
		}
		return nil, refused
	}
	if err := json.Unmarshal(data, result); err != nil {
		return nil, fmt.Errorf("reading the host's response: %w", err)
	}
	return data, nil
}

// adminLinkCommand gets a link from the running host.
type adminLinkCommand struct {
	Data string `default:"./data" env:"PERSONAL_DATA" placeholder:"DIR" help:"The data folder of the running host (${default})."`
}

// Run prints the link.
func (a *adminLinkCommand) Run(ctx context.Context, out output) error {
	host, err := findHost(a.Data)
	if err != nil {
		return err
	}
	var link adminLink
	if _, err := host.call(ctx, http.MethodPost, "/admin/api/link", nil, &link); err != nil {
		return err
	}
	_, err = fmt.Fprintln(out.stdout, link.URL)
	return err
}
