package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// healthcheckTimeout is shorter than that of HEALTHCHECK in deploy/Containerfile.
const healthcheckTimeout = 5 * time.Second

// healthcheckCommand asks the running host whether it is ready, for container engines
// and service managers: an image without a shell has no curl.
type healthcheckCommand struct {
	Data string `default:"./data" env:"PERSONAL_DATA" placeholder:"DIR" help:"The data folder of the running host, which holds its address (${default})."`
}

// Run succeeds if the host responds that its plugin serves.
func (c *healthcheckCommand) Run(ctx context.Context, out output) error {
	url, err := findAddress(c.Data)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, healthcheckTimeout)
	defer cancel()
	status, err := askReadiness(ctx, url)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out.stdout, "ready: plugin %s, state %s\n", status.Version, status.State)
	return err
}

// askReadiness returns the response of a host that is ready, else an error.
func askReadiness(ctx context.Context, url string) (status readiness, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/readyz", nil)
	if err != nil {
		return readiness{}, fmt.Errorf("asking the host: %w", err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // no proxy
	response, err := client.Do(r)
	if err != nil {
		return readiness{}, fmt.Errorf("asking the host: %w", err)
	}
	defer response.Body.Close()
	if err := json.NewDecoder(io.LimitReader(response.Body, maxResponse)).Decode(&status); err != nil {
		return readiness{}, fmt.Errorf("%s/readyz responds with status %d, and not as a host: %w", url, response.StatusCode, err)
	}
	if response.StatusCode != http.StatusOK || !status.Ready {
		return readiness{}, fmt.Errorf("not ready: the plugin is in the state %s", cmp.Or(string(status.State), "unknown"))
	}
	return status, nil
}
