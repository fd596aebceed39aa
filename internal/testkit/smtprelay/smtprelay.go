// Package smtprelay is a scripted mail relay (RFC 5321) for tests: it replies, waits and
// hangs up as a test says, and keeps what it got.
package smtprelay

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/textproto"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// The steps of a conversation, as scripts name them.
const (
	Greeting = "GREETING"
	EHLO     = "EHLO" // and HELO
	STARTTLS = "STARTTLS"
	AUTH     = "AUTH"
	MAIL     = "MAIL"
	RCPT     = "RCPT"
	DATA     = "DATA"
	Content  = "CONTENT" // the mail without the final dot; it has no reply
	Dot      = "DOT"
	QUIT     = "QUIT"
)

// Cut is the reply of a relay that hangs up instead.
const Cut = "cut"

// Script is what the relay does in one conversation. It accepts all that the script does not
// name.
type Script struct {
	// Replies are the replies by step. "RCPT bob@" is for commands that contain bob@, "DOT bob@" for
	// mails to bob@.
	Replies map[string]string
	// Delays are the times before replies, likewise; of Content, before the relay reads the mail.
	Delays map[string]time.Duration
	// Offers are the keywords that EHLO returns. STARTTLS is not offered within TLS.
	Offers []string
	// Implicit begins with TLS.
	Implicit bool
}

// Relay is a mail relay. Its fields are set before it is used.
type Relay struct {
	Scripts []Script // of the conversations in their order; the last one is that of all later ones
	TLS     *tls.Config

	User, Password string // that AUTH accepts

	stopped chan struct{} // ends delays; nil for a relay that is only dialled
	running sync.WaitGroup
	mu      sync.Mutex
	next    int
	mails   []Mail
	talks   []*Talk
}

// Mail is a mail whose final dot has come, whatever the relay replied.
type Mail struct {
	From, To string // the arguments of MAIL and RCPT
	Data     []byte // with CR LF
	TLS      bool
	Accepted bool
}

// Talk is a conversation.
type Talk struct {
	Helo      string   // the argument of the last EHLO or HELO
	Mechanism string   // of the accepted AUTH
	Clear     []string // the verbs that came without TLS
	Verbs     []string // of all commands
}

// Serve accepts connections on loopback until the test ends, and returns its address.
func (r *Relay) Serve(t testing.TB) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.stopped = make(chan struct{})
	r.running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			r.start(conn)
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		close(r.stopped)
		r.running.Wait()
	})
	return listener.Addr().String()
}

// Dial connects to the relay within the process, also in a bubble of synctest.
func (r *Relay) Dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	r.start(server)
	return client, nil
}

// Wait waits for the end of all conversations.
func (r *Relay) Wait() { r.running.Wait() }

// Mails returns what has come.
func (r *Relay) Mails() []Mail {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.mails)
}

// Accepted returns the content of the mails that the relay has accepted.
func (r *Relay) Accepted() (contents [][]byte) {
	for _, m := range r.Mails() {
		if m.Accepted {
			contents = append(contents, m.Data)
		}
	}
	return contents
}

// Talks returns the conversations that have ended.
func (r *Relay) Talks() []*Talk {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.talks)
}

func (r *Relay) start(conn net.Conn) {
	r.mu.Lock()
	script := Script{}
	if len(r.Scripts) > 0 {
		script = r.Scripts[min(r.next, len(r.Scripts)-1)]
	}
	r.next++
	r.mu.Unlock()
	r.running.Go(func() {
		defer conn.Close()
		talk := &talk{relay: r, script: script, conn: conn, Talk: &Talk{}}
		talk.run()
		r.mu.Lock()
		defer r.mu.Unlock()
		r.talks = append(r.talks, talk.Talk)
	})
}

// talk is a conversation under way.
type talk struct {
	*Talk
	relay     *Relay
	script    Script
	conn      net.Conn
	text      *textproto.Conn
	encrypted bool
	mail      Mail
}

// reply sends the reply of a step, or the given one. It reports whether that accepts, and
// whether the connection goes on.
func (t *talk) reply(step, line, accepts string) (accepted, goesOn bool) {
	t.wait(scripted(t.script.Delays, step, line, 0))
	accepts = scripted(t.script.Replies, step, line, accepts)
	if accepts == Cut {
		return false, false
	}
	err := t.text.PrintfLine("%s", accepts)
	return accepts[0] == '2' || accepts[0] == '3', err == nil
}

// scripted returns what a script has for a step, or the given value.
func scripted[T any](script map[string]T, step, line string, otherwise T) T {
	for key, value := range script {
		if verb, of, _ := strings.Cut(key, " "); verb == step && strings.Contains(line, of) {
			return value
		}
	}
	return otherwise
}

// wait waits, but not longer than the test runs.
func (t *talk) wait(d time.Duration) {
	select {
	case <-time.After(d):
	case <-t.relay.stopped:
	}
}

func (t *talk) startTLS() bool {
	conn := tls.Server(t.conn, t.relay.TLS)
	if conn.Handshake() != nil {
		return false
	}
	t.conn, t.text, t.encrypted = conn, textproto.NewConn(conn), true
	return true
}

func (t *talk) run() {
	t.text = textproto.NewConn(t.conn)
	if t.script.Implicit && !t.startTLS() {
		return
	}
	if _, goesOn := t.reply(Greeting, "", "220 relay.test ESMTP"); !goesOn {
		return
	}
	for {
		line, err := t.text.ReadLine()
		if err != nil {
			return
		}
		verb, rest, _ := strings.Cut(line, " ")
		verb = strings.ToUpper(verb)
		t.Verbs = append(t.Verbs, verb)
		if !t.encrypted {
			t.Clear = append(t.Clear, verb)
		}
		if !t.command(verb, rest, line) {
			return
		}
	}
}

// command replies to a command, and reports whether the conversation goes on.
func (t *talk) command(verb, rest, line string) bool {
	switch verb {
	case "EHLO", "HELO":
		t.Helo = rest
		accepts := "250 relay.test"
		if verb == "EHLO" {
			accepts = t.offers()
		}
		_, goesOn := t.reply(EHLO, line, accepts)
		return goesOn
	case STARTTLS:
		accepted, goesOn := t.reply(STARTTLS, line, "220 go ahead")
		return goesOn && (!accepted || t.startTLS())
	case AUTH:
		return t.authenticate(rest)
	case MAIL:
		_, address, _ := strings.Cut(line, ":")
		address, arguments, _ := strings.Cut(address, " ")
		accepts := "250 ok"
		for _, a := range strings.Fields(arguments) {
			if key, _, _ := strings.Cut(a, "="); key != "BODY" && !slices.Contains(t.script.Offers, key) {
				accepts = "555 5.5.4 unknown parameter"
			}
		}
		if strings.ContainsFunc(address, func(c rune) bool { return c > 127 }) && !strings.Contains(arguments, "SMTPUTF8") {
			accepts = "553 5.6.7 the address is not ASCII"
		}
		accepted, goesOn := t.reply(MAIL, line, accepts)
		if accepted {
			t.mail = Mail{From: strings.TrimPrefix(rest, "FROM:"), TLS: t.encrypted}
		}
		return goesOn
	case RCPT:
		accepted, goesOn := t.reply(RCPT, line, "250 ok")
		if accepted {
			t.mail.To = strings.TrimPrefix(rest, "TO:")
		}
		return goesOn
	case DATA:
		accepted, goesOn := t.reply(DATA, line, "354 go ahead")
		if !accepted {
			return goesOn
		}
		return t.content()
	case "NOOP", "RSET":
		return t.text.PrintfLine("250 ok") == nil
	case QUIT:
		_, _ = t.reply(QUIT, line, "221 bye")
		return false
	}
	return t.text.PrintfLine("502 5.5.1 not implemented") == nil
}

func (t *talk) offers() string {
	lines := []string{"relay.test"}
	for _, offer := range t.script.Offers {
		if offer != STARTTLS || !t.encrypted {
			lines = append(lines, offer)
		}
	}
	for i, line := range lines {
		separator := "-"
		if i == len(lines)-1 {
			separator = " "
		}
		lines[i] = "250" + separator + line
	}
	return strings.Join(lines, "\r\n")
}

func (t *talk) content() bool {
	t.wait(scripted(t.script.Delays, Content, t.mail.To, 0))
	if t.script.Replies[Content] == Cut {
		_, _ = t.text.ReadLine() // the mail has started
		return false
	}
	text, err := io.ReadAll(t.text.DotReader()) // turns CR LF into LF
	if err != nil {
		return false
	}
	t.mail.Data = []byte(strings.ReplaceAll(string(text), "\n", "\r\n"))
	t.relay.mu.Lock()
	at := len(t.relay.mails)
	t.relay.mails = append(t.relay.mails, t.mail)
	t.relay.mu.Unlock()
	accepted, goesOn := t.reply(Dot, t.mail.To, "250 2.0.0 taken")
	t.relay.mu.Lock()
	t.relay.mails[at].Accepted = accepted
	t.relay.mu.Unlock()
	return goesOn
}
