package pluginmanager

import (
	"context"
	"errors"
	"io"
	"strconv"

	"github.com/hashicorp/go-plugin/runner"
)

// What follows, and Start, is what go-plugin asks of a process.
var _ runner.Runner = (*child)(nil)

// Wait waits for the end of the process. go-plugin calls it when it has read
// the output.
func (c *child) Wait(context.Context) error {
	<-c.exited
	<-c.logged
	return errors.Join(c.err, c.stdout.Close())
}

// Kill kills the process and its group.
func (c *child) Kill(context.Context) error {
	c.kill()
	return nil
}

// Stdout returns the process's output: the handshake.
func (c *child) Stdout() io.ReadCloser { return c.stdout }

// Stderr returns nothing: the log is not left to go-plugin, which crashes on a
// line whose @message is no text.
func (c *child) Stderr() io.ReadCloser { return io.NopCloser(eof{}) }

// Name returns the path of the binary.
func (c *child) Name() string { return c.path }

// ID returns the number of the process.
func (c *child) ID() string { return strconv.Itoa(c.pid()) }

// Diagnose adds nothing to an error.
func (c *child) Diagnose(context.Context) string { return "" }

// PluginToHost returns the address as it is: both sides see the same files.
func (c *child) PluginToHost(network, address string) (string, string, error) {
	return network, address, nil
}

// HostToPlugin returns the address as it is.
func (c *child) HostToPlugin(network, address string) (string, string, error) {
	return network, address, nil
}
