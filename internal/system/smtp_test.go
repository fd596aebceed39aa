package system

import (
	"bufio"
	"io"
	"net"
	"net/textproto"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/cms-personal/personal/internal/testkit"
)

// relay is a mail relay that takes everything but mails to refused@…, and delivers
// nothing.
type relay struct {
	listener net.Listener
	running  sync.WaitGroup

	mu    sync.Mutex
	mails [][]byte
}

func newRelay(t *testing.T) *relay {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{listener: listener}
	r.running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			r.running.Go(func() { r.serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close() // it ends the loop above
		r.running.Wait()
	})
	return r
}

// serve speaks as much SMTP (RFC 5321) as a polite client needs.
func (r *relay) serve(conn net.Conn) {
	defer conn.Close()
	client := textproto.NewReader(bufio.NewReader(conn))
	say := func(line string) { _, _ = io.WriteString(conn, line+"\r\n") } // reading ends when the client is gone
	say("220 relay.example")
	for {
		line, err := client.ReadLine()
		if err != nil {
			return
		}
		switch strings.ToUpper(line[:min(4, len(line))]) {
		case "DATA":
			say("354 go on")
			mail, err := client.ReadDotBytes()
			if err != nil {
				return
			}
			r.mu.Lock()
			r.mails = append(r.mails, mail)
			r.mu.Unlock()
			say("250 taken")
		case "RCPT":
			if strings.Contains(line, "<refused@") {
				say("550 5.1.1 no such user")
			} else {
				say("250 ok")
			}
		case "QUIT":
			say("221 bye")
			return
		default:
			say("250 relay.example")
		}
	}
}

func (r *relay) taken() [][]byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mails
}

func TestMailByRelay(t *testing.T) {
	t.Parallel()
	r := newRelay(t)
	s := start(t, options{database: testkit.SQLite(t), settings: cheap,
		flags: []string{"--smtp", "smtp://" + r.listener.Addr().String(), "--mail-from", "accounts@cms.example"}})
	u := s.newUser(t)
	s.post(t, "recover/", params{"login": u.login}).want(t, "")
	eventually(t, "a mail at the relay", func() bool { return len(r.taken()) > 0 })
	m := parseMail(t, r.taken()[0])
	if m.to != u.email || !strings.Contains(m.header.Get("From"), "accounts@cms.example") {
		t.Errorf("the mail goes from %s to %s", m.header.Get("From"), m.to)
	}
	s.post(t, "recover_confirm/", confirm(m.token(t), recovered)).want(t, "")
	p := s.post(t, "auth/", params{"login": u.login, "password": recovered}).pair(t)
	s.postAs(t, p, "email/", params{"password": recovered, "email": "refused@mail.example"}).want(t, "")
	eventually(t, "the event of a mail that was refused for good", func() bool { return s.events(t, "mail_refused", u.ID) == 1 })
	if kept, _ := filepath.Glob(filepath.Join(s.data, "mail", "*")); len(kept) != 0 {
		t.Errorf("a mail was kept too: %q", kept)
	}
}
