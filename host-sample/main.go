// Command host-sample is a sample content management system (CMS). It shows how a
// CMS embeds the personal-account module, using only the packages below shared/.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"

	"github.com/cms-personal/personal/host-sample/cli"
)

func main() {
	unix.Umask(0o077) // the data folder holds secrets: tokens, mails, accounts
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		fmt.Fprintln(os.Stderr, "host-sample: core dumps, which would hold passwords, cannot be disabled:", err)
	}
	signal.Ignore(unix.SIGPIPE) // a reader of the output, such as head, may close it early
	ctx, cancel := context.WithCancel(context.Background())
	signalled, restore := signal.NotifyContext(ctx, unix.SIGINT, unix.SIGTERM)
	context.AfterFunc(signalled, func() { // the first signal asks for an orderly stop
		restore() // before the stop begins: a second one has its usual effect
		cancel()
	})
	os.Exit(cli.Run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}
