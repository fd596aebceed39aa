package mailer

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/mail"
	"net/textproto"
	"slices"
	"strings"
	"time"

	"github.com/wneessen/go-mail/smtp"
)

// errUnusable is wrapped by errors about a relay that offers too little. They have no words of it.
var errUnusable = errors.New("the relay cannot be used")

// conversation is a connection to a relay, in which no step has a time limit but its own. The
// client of go-mail has one for all of them, takes a lost connection for a reply, and does not know keywords
// in lower case.
type conversation struct {
	relay     *SMTP
	ctx       context.Context
	conn      net.Conn
	text      *textproto.Conn
	at        step // the current one
	lost      bool // the relay has not replied
	encrypted bool
	offers    map[string]string // parameters of EHLO keywords, in upper case
	uncut     func() bool
}

// paced is a connection on which each write has the time of a block.
type paced struct{ net.Conn }

func (p paced) Write(b []byte) (int, error) {
	if err := p.SetWriteDeadline(time.Now().Add(block)); err != nil {
		return 0, err
	}
	return p.Conn.Write(b)
}

// do runs a step.
func (c *conversation) do(at step, run func() error) error {
	c.at = at
	err := c.conn.SetReadDeadline(time.Now().Add(at.limit()))
	if err == nil {
		err = run()
	}
	c.lost = err != nil && !errors.As(err, new(*textproto.Error))
	if c.lost && c.ctx.Err() != nil {
		return c.ctx.Err() // which has cut the connection
	}
	return err
}

// command sends a command and reads the reply, whose code begins with the expected digits.
func (c *conversation) command(expected int, format string, values ...any) (code int, reply string, err error) {
	line := fmt.Sprintf(format, values...)
	if strings.ContainsAny(line, "\r\n") {
		return 0, "", fmt.Errorf("%w: a command would have two lines", errUnusable)
	}
	if err := c.text.PrintfLine("%s", line); err != nil {
		return 0, "", err
	}
	return c.text.ReadResponse(expected)
}

// say runs a step that is one command.
func (c *conversation) say(at step, expected int, format string, values ...any) error {
	return c.do(at, func() error {
		_, _, err := c.command(expected, format, values...)
		return err
	})
}

// begin connects and signs in.
func (c *conversation) begin() error {
	if err := c.connect(); err != nil {
		return err
	}
	c.text = textproto.NewConn(c.conn)
	err := c.do(greeting, func() error {
		_, _, err := c.text.ReadResponse(2)
		return err
	})
	if err != nil {
		return err
	}
	if err := c.hello(); err != nil {
		return err
	}
	if err := c.encrypt(); err != nil {
		return err
	}
	return c.authenticate()
}

// connect opens the connection, with TLS if that is implicit.
func (c *conversation) connect() error {
	c.at = connecting
	ctx, cancel := context.WithTimeout(c.ctx, connecting.limit())
	defer cancel()
	conn, err := c.relay.dial(ctx, "tcp", c.relay.address)
	if err != nil {
		return err
	}
	c.conn, c.uncut = paced{conn}, context.AfterFunc(c.ctx, func() { _ = conn.Close() })
	if c.relay.implicit {
		return c.do(greeting, c.handshake)
	}
	return nil
}

// handshake begins TLS. What the relay has sent before is not read any more.
func (c *conversation) handshake() error {
	encrypted := tls.Client(c.conn, c.relay.tlsConfig())
	if err := encrypted.Handshake(); err != nil {
		return err
	}
	c.conn, c.text, c.encrypted = encrypted, textproto.NewConn(encrypted), true
	return nil
}

// hello says EHLO, and HELO to a relay that refuses that.
func (c *conversation) hello() error {
	return c.do(hello, func() error {
		c.offers = map[string]string{}
		_, reply, err := c.command(2, "EHLO %s", c.relay.name())
		if errors.As(err, new(*textproto.Error)) {
			_, _, err = c.command(2, "HELO %s", c.relay.name())
			return err
		}
		_, lines, _ := strings.Cut(reply, "\n")
		for line := range strings.Lines(lines) {
			// Old relays write AUTH=LOGIN.
			keyword, parameters, _ := strings.Cut(strings.Replace(strings.ToUpper(strings.TrimSpace(line)), "AUTH=", "AUTH ", 1), " ")
			c.offers[keyword] = strings.TrimSpace(c.offers[keyword] + " " + parameters)
		}
		return err
	})
}

// encrypt uses STARTTLS if the relay offers it. Without it the conversation goes on only on loopback.
func (c *conversation) encrypt() error {
	if c.encrypted {
		return nil
	}
	c.at = startTLS
	if _, offered := c.offers["STARTTLS"]; !offered {
		if c.relay.loopback {
			return nil
		}
		return fmt.Errorf("%w: it does not offer STARTTLS", errUnusable)
	}
	err := c.say(startTLS, 220, "STARTTLS")
	if c.relay.loopback && errors.As(err, new(*textproto.Error)) {
		return nil // it has no certificate
	}
	if err == nil {
		err = c.do(startTLS, c.handshake)
	}
	if err != nil {
		return err
	}
	return c.hello()
}

// authenticate signs in if the URL has a user.
func (c *conversation) authenticate() error {
	if c.relay.user == nil {
		return nil
	}
	c.at = signIn
	user, host := c.relay.user.Username(), c.relay.host
	password, _ := c.relay.user.Password()
	clear := c.relay.loopback
	offered := strings.Fields(c.offers["AUTH"])
	// The password itself first: some relays offer more than they can check.
	for _, way := range []struct {
		name string
		auth smtp.Auth
	}{
		{"PLAIN", smtp.PlainAuth("", user, password, host, clear)},
		{"LOGIN", smtp.LoginAuth(user, password, host, clear)},
		{"SCRAM-SHA-256", smtp.ScramSHA256Auth(user, password)},
		{"SCRAM-SHA-1", smtp.ScramSHA1Auth(user, password)},
		{"CRAM-MD5", smtp.CRAMMD5Auth(user, password)},
	} {
		if slices.Contains(offered, way.name) {
			return c.do(signIn, func() error {
				return c.exchange(way.auth, &smtp.ServerInfo{Name: host, TLS: c.encrypted, Auth: offered})
			})
		}
	}
	return fmt.Errorf("%w: it offers none of the ways to sign in: PLAIN, LOGIN, CRAM-MD5, SCRAM", errUnusable)
}

// exchange is a SASL exchange (RFC 4954).
func (c *conversation) exchange(a smtp.Auth, server *smtp.ServerInfo) error {
	mechanism, response, err := a.Start(server)
	if err != nil {
		return fmt.Errorf("%w: %s cannot begin", errUnusable, mechanism)
	}
	line := "AUTH " + mechanism
	if response != nil {
		line += " " + base64.StdEncoding.EncodeToString(response)
	}
	for {
		code, reply, err := c.command(0, "%s", line)
		if err != nil {
			return err
		}
		if code != 334 && code != 235 {
			return &textproto.Error{Code: code, Msg: reply}
		}
		if code == 334 {
			challenge, err := base64.StdEncoding.DecodeString(reply)
			if err != nil {
				return err
			}
			if response, err = a.Next(challenge, true); err != nil {
				return fmt.Errorf("%w: its part of the exchange is wrong", errUnusable)
			}
			line = base64.StdEncoding.EncodeToString(response)
			continue
		}
		return nil
	}
}

// send delivers a mail. After nil the relay has accepted it.
func (c *conversation) send(to string, text []byte) error {
	if err := c.begin(); err != nil {
		return err
	}
	from, parameters := (&mail.Address{Address: c.relay.from.Address}).String(), ""
	// Only if it is needed: behind the relay there may be one that does not offer it.
	if !isASCII(from) {
		if _, offered := c.offers["SMTPUTF8"]; !offered {
			return fmt.Errorf("%w: it does not offer SMTPUTF8, which the sender's address needs", errUnusable)
		}
		parameters = " SMTPUTF8"
	}
	if err := c.say(sender, 2, "MAIL FROM:%s%s", from, parameters); err != nil {
		return err
	}
	if err := c.say(rcpt, 2, "RCPT TO:%s", &mail.Address{Address: to}); err != nil {
		return err
	}
	if err := c.say(data, 354, "DATA"); err != nil {
		return err
	}
	w := c.text.DotWriter()
	err := c.do(content, func() error {
		if _, err := w.Write(text); err != nil {
			return err
		}
		return c.text.W.Flush() // what fails now has not sent the mail
	})
	if err != nil {
		return err
	}
	return c.do(finalDot, func() error {
		if err := w.Close(); err != nil {
			return err
		}
		_, _, err := c.text.ReadResponse(2)
		return err
	})
}

// close says goodbye and closes the connection.
func (c *conversation) close() {
	if c.conn == nil {
		return
	}
	if c.text != nil && !c.lost {
		_ = c.say(quit, 2, "QUIT") // what it replies does not matter any more
	}
	c.uncut()
	_ = c.conn.Close()
}
