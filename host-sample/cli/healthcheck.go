package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// healthcheckCommand asks the running host whether it is ready, for container engines
// and service managers: an image without a shell has no curl.
type healthcheckCommand struct {
	Data    string        `default:"./data" env:"PERSONAL_DATA" placeholder:"DIR" help:"The data folder of the running host, which holds its address (${default})."`
	Addr    string        `placeholder:"HOST:PORT" help:"Ask the host at this address instead of the one that runs on the data folder."`
	Timeout time.Duration `default:"5s" help:"How long to wait for the response (${default})."`
}

// Run succeeds if the host responds that its plugin serves.
func (c *healthcheckCommand) Run(ctx context.Context, out output) error {
	url, err := c.url()
	if err != nil {
		return err
	}
	if c.Timeout <= 0 {
		return errors.New("--timeout: it must be longer than 0")
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/readyz", nil)
	if err != nil {
		return fmt.Errorf("asking the host: %w", err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // no proxy
	response, err := client.Do(r)
	if err != nil {
		return fmt.Errorf("asking the host: %w", err)
	}
	defer response.Body.Close()
	var status readiness
	err = json.NewDecoder(io.LimitReader(response.Body, maxResponse)).Decode(&status)
	if err != nil {
		return fmt.Errorf("%s/readyz responds with status %d, and not as a host: %w", url, response.StatusCode, err)
	}
	if response.StatusCode != http.StatusOK || !status.Ready {
		return fmt.Errorf("not ready: the plugin is in the state %s", cmp.Or(string(status.State), "unknown"))
	}
	_, err = fmt.Fprintf(out.stdout, "ready: plugin %s, state %s\n", status.Version, status.State)
	return err
}

// url returns the URL of the host.
func (c *healthcheckCommand) url() (string, error) {
	if c.Addr == "" {
		return findAddress(c.Data)
	}
	host, port, err := net.SplitHostPort(c.Addr)
	if err != nil {
		return "", fmt.Errorf("--addr: %w", err)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(strings.Trim(host, "[]"), port), nil
}
