package mailer

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http/httptest"
	"slices"
	"testing"

	gomail "github.com/wneessen/go-mail"
)

// elsewhere returns a sender as [NewSMTP] does, except that every host leads to the
// relay. A failed connection stays open until hangUp.
func elsewhere(t *testing.T, rawURL string, r *relay, trusted *x509.CertPool) (sender *SMTP, hangUp func()) {
	t.Helper()
	u, err := parseSMTP(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	hangUp = func() {}
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, r.addr)
		if err == nil {
			hangUp = func() { _ = conn.Close() }
		}
		return conn, err
	}
	client, err := gomail.NewClient(u.Hostname(), append(smtpOptions(u), gomail.WithDialContextFunc(dial),
		gomail.WithTLSConfig(&tls.Config{ServerName: u.Hostname(), RootCAs: trusted, MinVersion: tls.VersionTLS12}))...)
	if err != nil {
		t.Fatal(err)
	}
	return &SMTP{client: client, from: parsedFrom(t)}, func() { hangUp() }
}

func TestSMTP_NothingInClearOffLoopback(t *testing.T) {
	server := httptest.NewTLSServer(nil) // for its certificate
	defer server.Close()
	const named = "example.com" // in the certificate
	trusted := x509.NewCertPool()
	trusted.AddCert(server.Certificate())

	for name, test := range map[string]struct {
		startTLS string
		host     string
		trusted  *x509.CertPool
		sent     bool
	}{
		"STARTTLS is not offered, or was stripped": {"", named, trusted, false},
		"STARTTLS is offered and refused":          {"454 not now", named, trusted, false},
		"the certificate has an unknown issuer":    {"220 go ahead", named, x509.NewCertPool(), false},
		"the certificate is another host's":        {"220 go ahead", "mail.example.org", trusted, false},
		"the certificate is the host's":            {"220 go ahead", named, trusted, true},
	} {
		for _, login := range []string{"", "\x00cms\x00hunter2"} {
			t.Run(fmt.Sprintf("%s, login %q", name, login), func(t *testing.T) {
				relay := startRelay(t)
				relay.startTLS, relay.tls = test.startTLS, &tls.Config{Certificates: server.TLS.Certificates}
				rawURL := "smtp://" + test.host
				if login != "" {
					rawURL = "smtp://cms:hunter2@" + test.host
				}
				sender, hangUp := elsewhere(t, rawURL, relay, test.trusted)
				err := sender.Send(t.Context(), sample())
				hangUp()
				<-relay.done
				for _, verb := range relay.clear {
					if !slices.Contains([]string{"EHLO", "STARTTLS", "QUIT"}, verb) {
						t.Errorf("%s was sent without TLS", verb)
					}
				}
				switch {
				case test.sent && err != nil:
					t.Errorf("got %v, want the mail sent", err)
				case !test.sent && err == nil:
					t.Error("got no error, want the mail not sent")
				case test.sent:
					if got := <-relay.taken; got.login != login || got.to != sample().To {
						t.Errorf("the relay got %+v", got)
					}
				}
			})
		}
	}
}

func TestSMTP_SMTPSUsesTLSOnly(t *testing.T) {
	relay := startRelay(t)
	sender, err := NewSMTP("smtps://cms:hunter2@"+relay.addr, parsedFrom(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := sender.Send(t.Context(), sample()); err == nil {
		t.Error("got no error from a relay without TLS")
	}
	<-relay.done
	if len(relay.taken) > 0 || slices.Contains(relay.clear, "EHLO") {
		t.Errorf("%q was sent without TLS", relay.clear)
	}
}
