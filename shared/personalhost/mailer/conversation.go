package mailer

import (
	"context"
	"crypto/tls"
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

// conversation is a connection to a relay.
type conversation struct {
	relay  *SMTP
	ctx    context.Context
	conn   net.Conn
	client *smtp.Client
	at     step // the current one
	lost   bool // the relay has not replied
	uncut  func() bool
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
	reply, replied := errors.AsType[*textproto.Error](err)
	c.lost = err != nil && !replied
	switch {
	case replied && reply.Code/100 == 2 && (at == sender || at == rcpt || at == finalDot): // another success than the expected one
		return nil
	case c.lost && c.ctx.Err() != nil:
		return c.ctx.Err() // which has cut the connection
	}
	return err
}

// begin connects and signs in.
func (c *conversation) begin() error {
	if err := c.connect(); err != nil {
		return err
	}
	err := c.do(greeting, func() (err error) {
		c.client, err = smtp.NewClient(c.conn, c.relay.host)
		return err
	})
	if err != nil {
		return err
	}
	// Only for a sender that needs it: behind the relay there may be one that does not offer it.
	c.client.SkipSMTPUTF8(isASCII(c.relay.from.Address))
	if err := c.do(hello, func() error { return c.client.Hello(c.relay.name()) }); err != nil {
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
	if !c.relay.implicit {
		return nil
	}
	encrypted := tls.Client(c.conn, c.relay.tlsConfig())
	if err := c.do(greeting, encrypted.Handshake); err != nil {
		return err
	}
	c.conn = encrypted
	return nil
}

// encrypt uses STARTTLS if the relay offers it. Without it the conversation goes on only on loopback.
func (c *conversation) encrypt() error {
	if c.relay.implicit {
		return nil
	}
	c.at = startTLS
	offered, _ := c.client.Extension("STARTTLS")
	if !offered && !c.relay.loopback {
		return fmt.Errorf("%w: it does not offer STARTTLS", errUnusable)
	}
	if !offered {
		return nil
	}
	err := c.do(startTLS, func() error { return c.client.StartTLS(c.relay.tlsConfig()) })
	if _, encrypted := c.client.TLSConnectionState(); !encrypted && c.relay.loopback && errors.As(err, new(*textproto.Error)) {
		return nil // it has no certificate
	}
	return err
}

// authenticate signs in if the URL has a user.
func (c *conversation) authenticate() error {
	if c.relay.user == nil {
		return nil
	}
	c.at = signIn
	_, offered := c.client.Extension("AUTH")
	user, host := c.relay.user.Username(), c.relay.host
	password, _ := c.relay.user.Password()
	clear := c.relay.loopback
	// The password itself first: some relays offer more than they can check.
	ways := []struct {
		name string
		auth smtp.Auth
	}{
		{"PLAIN", smtp.PlainAuth("", user, password, host, clear)},
		{"LOGIN", smtp.LoginAuth(user, password, host, clear)},
		{"SCRAM-SHA-256", smtp.ScramSHA256Auth(user, password)},
		{"SCRAM-SHA-1", smtp.ScramSHA1Auth(user, password)},
		{"CRAM-MD5", smtp.CRAMMD5Auth(user, password)},
	}
	mechanisms := strings.Fields(strings.ToUpper(offered))
	for _, way := range ways {
		if slices.Contains(mechanisms, way.name) {
			return c.do(signIn, func() error { return c.client.Auth(way.auth) })
		}
	}
	return fmt.Errorf("%w: it offers none of the ways to sign in: PLAIN, LOGIN, CRAM-MD5, SCRAM", errUnusable)
}

// send delivers a mail. After nil the relay has accepted it.
func (c *conversation) send(to string, text []byte) error {
	if err := c.begin(); err != nil {
		return err
	}
	from := c.relay.from.Address
	if offered, _ := c.client.Extension("SMTPUTF8"); !offered && !isASCII(from) {
		return fmt.Errorf("%w: it does not offer SMTPUTF8, which the sender's address needs", errUnusable)
	}
	if err := c.do(sender, func() error { return c.client.Mail((&mail.Address{Address: from}).String()) }); err != nil {
		return err
	}
	if err := c.do(rcpt, func() error { return c.client.Rcpt((&mail.Address{Address: to}).String()) }); err != nil {
		return err
	}
	var closing interface{ Close() error }
	err := c.do(data, func() error {
		w, err := c.client.Data()
		if err != nil {
			return err
		}
		c.at, closing = content, w
		if _, err := w.Write(text); err != nil {
			return err
		}
		return c.client.Text.W.Flush() // what fails now has not sent the mail
	})
	if err != nil {
		return err
	}
	return c.do(finalDot, closing.Close)
}

// close says goodbye and closes the connection.
func (c *conversation) close() {
	if c.conn == nil {
		return
	}
	if c.client != nil && !c.lost {
		_ = c.do(quit, c.client.Quit) // what it says does not matter any more
	}
	c.uncut()
	_ = c.conn.Close()
}
