package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

// The mail is sent while the calls hang.
func TestPlugin_HangingEventsDelayNoMail(t *testing.T) {
	const slots = 8
	released, calls := make(chan struct{}), make(chan time.Duration, 100)
	host := &personaltest.Host{PublishEventFunc: func(ctx context.Context, _ personal.Event) error {
		deadline, _ := ctx.Deadline()
		calls <- time.Until(deadline)
		<-released
		return nil
	}}
	service := rpc.NewClient(startPlugin(t, testdb.SQLite(t), host), host)
	defer close(released)
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second) // less than the lease of a job
	defer cancel()
	const password = personaltest.Password
	for i := range slots + 1 { // events of one user wait for each other
		login := fmt.Sprint("user", i)
		_, err := service.Register(ctx, personal.RegisterRequest{
			Login: login, Email: login + "@example.com", Password: password, ConfirmPassword: password,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for range slots {
		select {
		case limit := <-calls:
			if limit < -time.Minute || limit > 10*time.Second { // real time: a slow machine makes it shorter
				t.Errorf("got a limit of %v for PublishEvent, want ten seconds at most", limit)
			}
		case <-ctx.Done():
			t.Fatal("got too few calls of PublishEvent, want all slots taken")
		}
	}
	if err := service.Recover(ctx, personal.RecoverRequest{Login: "user0"}); err != nil {
		t.Fatal(err)
	}
	for n, found := 1, false; !found; n++ {
		mails, err := host.AwaitMails(ctx, n)
		if err != nil {
			t.Fatalf("got mails %v, error %v, want a recovery", mails, err)
		}
		found = strings.Contains(mails[n-1].Subject, "password")
	}
}
