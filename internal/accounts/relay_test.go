package accounts_test

import (
	"bytes"
	"cmp"
	"context"
	"log/slog"
	"net/mail"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/internal/password"
	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/testkit/smtprelay"
	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/personalhost/mailer"
)

// relayHost sends mails over a relay.
type relayHost struct {
	*personaltest.Host
	mails *mailer.SMTP
}

func (h relayHost) SendMail(ctx context.Context, m personal.Mail) error { return h.mails.Send(ctx, m) }

// conversation is what a relay does with the mails of one recovery, and what people see of it.
type conversation struct {
	name     string
	scripts  []smtprelay.Script
	lifetime time.Duration // of the token; 0: 30h
	lasts    time.Duration // 0: 40m

	copies   int           // whose final dot has come
	accepted int           // of these, by the relay
	within   time.Duration // the accepted mail comes; 0: at once
	// what the operator sees
	log     string // a part of it; "": no warning and no error
	refused bool   // the event mail_refused, and what Explain says of the user's mailbox
	status  string // the reply in the status, at the end
}

// TestRelay_Conversations plays conversations with a relay, in time that passes in a moment, through
// outbox, domain and mailer.
func TestRelay_Conversations(t *testing.T) {
	const (
		words   = " marker of ada@example.com"
		retried = "a job failed and will be retried"
		dropped = "a job failed too often and was dropped"
		warned  = "the mail relay refuses mails of the site"
	)
	does := func(step, reply string) smtprelay.Script {
		if reply != smtprelay.Cut {
			reply += words
		}
		return smtprelay.Script{Replies: map[string]string{step: reply}}
	}
	takes := smtprelay.Script{}
	all := func(s ...smtprelay.Script) []smtprelay.Script { return s }
	for _, c := range []conversation{ // one for each verdict of the mailer, whose tests have all replies
		{name: "it takes the mail", scripts: all(takes), copies: 1, accepted: 1},
		{name: "greylisting", scripts: all(does(smtprelay.RCPT, "450 4.2.0"), does(smtprelay.RCPT, "450 4.2.0"), does(smtprelay.RCPT, "451 4.7.1"), takes),
			copies: 1, accepted: 1, within: 5 * time.Minute, log: retried},
		{name: "no such mailbox", scripts: all(does(smtprelay.RCPT, "550 5.1.1")), refused: true, log: "refused permanently"},
		{name: "the sender is refused at RCPT, for a day", scripts: all(does(smtprelay.RCPT, "553 5.1.8")), lasts: 26 * time.Hour,
			log: dropped, status: "553 5.1.8"},
		{name: "a policy after the mail", scripts: all(does(smtprelay.Dot, "550 5.7.26"), takes), copies: 2, accepted: 1, within: 2 * time.Minute,
			log: warned + `" reply="550 5.7.26"`},
		{name: "the token ends before the relay is back", scripts: all(does(smtprelay.MAIL, "421 4.3.2")), lifetime: 20 * time.Minute, log: "the token of the mail has ended"},
		{name: "every step takes minutes", scripts: all(smtprelay.Script{Delays: map[string]time.Duration{
			smtprelay.Greeting: 4 * time.Minute, smtprelay.EHLO: 4 * time.Minute, smtprelay.MAIL: 4 * time.Minute, smtprelay.RCPT: 4 * time.Minute,
			smtprelay.DATA: time.Minute, smtprelay.Content: 2 * time.Minute, smtprelay.Dot: 9 * time.Minute}}),
			copies: 1, accepted: 1, within: 29 * time.Minute},
		{name: "it never replies to the mail", scripts: all(smtprelay.Script{Delays: map[string]time.Duration{smtprelay.Dot: time.Hour}}),
			lasts: 4 * time.Hour, copies: 3, accepted: 3, within: 4 * time.Hour, log: dropped},
		{name: "it is cut after the mail, once", scripts: all(does(smtprelay.Dot, smtprelay.Cut), takes), copies: 2, accepted: 1, within: 2 * time.Minute, log: "perhaps sent"},
		{name: "it is cut after the mail, always", scripts: all(does(smtprelay.Dot, smtprelay.Cut)), copies: 3, log: dropped},
	} {
		t.Run(c.name, func(t *testing.T) {
			url := testdb.SQLite(t)
			synctest.Test(t, func(t *testing.T) { c.play(t, url, &smtprelay.Relay{Scripts: c.scripts}) })
		})
	}
}

var messageID = regexp.MustCompile(`(?m)^Message-ID: .*$`)

// lockedBuffer is a log.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func (c conversation) play(t *testing.T, url string, relay *smtprelay.Relay) {
	var text lockedBuffer
	log := slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelWarn}))
	db, err := store.Open(t.Context(), url, store.Options{Clock: time.Now, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	hasher, err := password.New(password.Params{MemoryKiB: 8, Time: 1, Threads: 1}, 0)
	if err != nil {
		t.Fatal(err)
	}
	smtp, err := mailer.NewSMTP("smtp://127.0.0.1", &mail.Address{Address: "cms@site.example"}, mailer.Options{Dial: relay.Dial})
	if err != nil {
		t.Fatal(err)
	}
	host := relayHost{Host: &personaltest.Host{}, mails: smtp}
	settings := testSettings()
	settings.RecoveryLifetime = c.lifetime
	if c.lifetime == 0 {
		settings.RecoveryLifetime = 30 * time.Hour
	}
	poll := time.Minute
	if c.lasts > 0 {
		poll = 10 * time.Minute
	}
	worker := &outbox.Worker{
		Store: db, Log: log, Poll: poll, RetriedWhileStored: accounts.RetriedWhileStored,
		Groups: []outbox.Group{{Kinds: accounts.MailKinds, Longest: time.Hour, Most: 40}},
	}
	service := accounts.New(settings, db, hasher, host, log, worker.Wake)
	worker.Handlers = service.Jobs()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { worker.Run(ctx) })

	_, err = service.Register(ctx, personal.RegisterRequest{Login: "ada", Password: goodPassword, ConfirmPassword: goodPassword, Email: "ada@example.com"})
	if err != nil {
		t.Fatal(err)
	}
	if err := service.Recover(ctx, personal.RecoverRequest{Login: "ada"}); err != nil {
		t.Errorf("the user sees %v, want what every user sees", err)
	}
	time.Sleep(max(c.within, time.Second))
	if got := len(relay.Accepted()); got < min(c.accepted, 1) {
		t.Errorf("got %d accepted mails after %v\n%s", got, c.within, text.String())
	}
	time.Sleep(cmp.Or(c.lasts, 40*time.Minute))
	cancel()
	running.Wait()
	relay.Wait()

	mails := relay.Mails()
	if accepted := len(relay.Accepted()); len(mails) != c.copies || accepted != c.accepted {
		t.Errorf("got %d copies, %d accepted; want %d and %d", len(mails), accepted, c.copies, c.accepted)
	}
	for _, m := range mails {
		if id := messageID.Find(m.Data); id == nil || !bytes.Equal(id, messageID.Find(mails[0].Data)) {
			t.Errorf("got %s, want that of the first copy, %s", id, messageID.Find(mails[0].Data))
		}
	}
	seen := text.String()
	if !strings.Contains(seen, c.log) || c.log == "" && seen != "" || strings.Contains(seen, "marker") || strings.Contains(seen, "@example.com") {
		t.Errorf("the operator sees in the log\n%s\nwant %q, and no words of the relay", seen, c.log)
	}
	if got := service.RefusedSite(); got != c.status {
		t.Errorf("the operator sees %q in the status, want %q", got, c.status)
	}
	events := 0
	for _, e := range host.Events() {
		if e.Type == personal.EventMailRefused {
			events++
		}
	}
	explained, err := service.Explain(t.Context(), personal.ExplainRequest{Login: "ada"})
	blamed := false
	for _, v := range explained.Verdicts {
		blamed = blamed || v.Reason == personal.ReasonMailRefused
	}
	if err != nil || (events == 1) != c.refused || blamed != c.refused {
		t.Errorf("got %d events and the mailbox blamed: %t (%v), want %t", events, blamed, err, c.refused)
	}
	if len(mails) == 0 || c.refused {
		return
	}
	// Any copy that arrives works.
	links := regexp.MustCompile(`(?m)^[A-Za-z0-9_-]{43}\r$`).FindAll(mails[len(mails)-1].Data, 1)
	if len(links) != 1 {
		t.Fatalf("got no token in\n%s", mails[len(mails)-1].Data)
	}
	_, err = service.RecoverConfirm(t.Context(), personal.RecoverConfirmRequest{
		Token: strings.TrimSpace(string(links[0])), Password: otherPassword, ConfirmPassword: otherPassword,
	})
	if err != nil {
		t.Errorf("the user opens the mail: got %v, want a new password", err)
	}
}
