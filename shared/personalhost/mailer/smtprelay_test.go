package mailer

import (
	"crypto/tls"
	"encoding/base64"
	"io"
	"net"
	"net/textproto"
	"strings"
	"testing"
	"time"
)

// relay is a small SMTP server (RFC 5321) for one connection. It accepts everything
// except for the steps in replies.
type relay struct {
	addr            string
	replies         map[string]string // to AUTH, MAIL, RCPT, DATA, or "content" after the mail; "" accepts
	extensions      []string          // offered besides AUTH PLAIN
	hangUpAfterData bool
	startTLS        string // reply to STARTTLS, which is offered if not empty; after 220 TLS follows
	tls             *tls.Config
	taken           chan envelope
	clear           []string      // commands received without TLS; read it after done
	done            chan struct{} // closed when the connection is closed
}

// envelope is an accepted mail.
type envelope struct {
	login, from, to string
	data            []byte // with CRLF, as on the wire
}

func startRelay(t *testing.T) *relay {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{addr: listener.Addr().String(), taken: make(chan envelope, 1), done: make(chan struct{})}
	go func() {
		defer close(r.done)
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(5 * time.Second)) // for clients that leave it open
		r.talk(conn)
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-r.done
	})
	return r
}

func (r *relay) talk(conn net.Conn) {
	var e envelope
	c := textproto.NewConn(conn)
	encrypted := false
	// reply sends the reply that is set for a step, or the one that accepts it.
	reply := func(step, accepts string) (accepted bool) {
		if refusal := r.replies[step]; refusal != "" {
			_ = c.PrintfLine("%s", refusal)
			return false
		}
		_ = c.PrintfLine("%s", accepts)
		return true
	}
	_ = c.PrintfLine("220 relay.test ESMTP")
	for {
		line, err := c.ReadLine()
		if err != nil {
			return
		}
		verb, rest, _ := strings.Cut(line, " ")
		if !encrypted {
			r.clear = append(r.clear, verb)
		}
		switch strings.ToUpper(verb) {
		case "EHLO":
			offers := append([]string{"relay.test"}, r.extensions...)
			if r.startTLS != "" && !encrypted {
				offers = append(offers, "STARTTLS")
			}
			for _, offer := range offers {
				_ = c.PrintfLine("250-%s", offer)
			}
			_ = c.PrintfLine("250 AUTH PLAIN")
		case "STARTTLS":
			_ = c.PrintfLine("%s", r.startTLS)
			if encrypted = strings.HasPrefix(r.startTLS, "220"); encrypted {
				c = textproto.NewConn(tls.Server(conn, r.tls))
			}
		case "AUTH":
			if reply("AUTH", "235 welcome") {
				login, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(rest, "PLAIN "))
				e.login = string(login)
			}
		case "MAIL":
			if reply("MAIL", "250 ok") {
				e.from = address(rest)
			}
		case "RCPT":
			if reply("RCPT", "250 ok") {
				e.to = address(rest)
			}
		case "DATA":
			if !reply("DATA", "354 go ahead") {
				continue
			}
			text, err := io.ReadAll(c.DotReader()) // turns CRLF into LF
			if err != nil {
				return
			}
			e.data = []byte(strings.ReplaceAll(string(text), "\n", "\r\n"))
			if !reply("content", "250 taken") {
				continue
			}
			r.taken <- e
			if r.hangUpAfterData {
				return
			}
		case "QUIT":
			_ = c.PrintfLine("221 bye")
			return
		default:
			_ = c.PrintfLine("250 ok")
		}
	}
}

// address returns the text between < and >.
func address(s string) string {
	_, s, _ = strings.Cut(s, "<")
	s, _, _ = strings.Cut(s, ">")
	return s
}
