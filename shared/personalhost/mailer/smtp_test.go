package mailer

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http/httptest"
	"net/mail"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/internal/testkit/smtprelay"
	"github.com/cms-personal/personal/shared/personal"
)

const cms = "smtp://cms:s%40cr%C3%A9t@"

// newRelay returns a relay that knows the user of cms and has the certificate of example.com.
func newRelay(scripts ...smtprelay.Script) *smtprelay.Relay {
	return &smtprelay.Relay{User: "cms", Password: "s@crét", Scripts: scripts, TLS: certificate()}
}

// certificate is one of the name example.com.
func certificate() *tls.Config {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	return &tls.Config{Certificates: server.TLS.Certificates}
}

// to returns a sender for a relay.
func to(t *testing.T, r *smtprelay.Relay, rawURL string) *SMTP {
	t.Helper()
	sender, err := NewSMTP(rawURL, parsedFrom(t), Options{Dial: r.Dial})
	if err != nil {
		t.Fatal(err)
	}
	return sender
}

func TestSMTP_SendsMail(t *testing.T) {
	for _, mechanism := range []string{"PLAIN", "LOGIN", "CRAM-MD5", "SCRAM-SHA-1", "SCRAM-SHA-256", "GSSAPI NTLM LOGIN", "SCRAM-SHA-256 DIGEST-MD5 CRAM-MD5 plain"} {
		t.Run(mechanism, func(t *testing.T) {
			relay := newRelay(smtprelay.Script{Offers: []string{"SIZE 1000", "AUTH " + mechanism, "8BITMIME", "SMTPUTF8"}})
			if err := to(t, relay, cms+"127.0.0.1").Send(t.Context(), sample()); err != nil {
				t.Fatal(err)
			}
			relay.Wait()
			mails, talk := relay.Mails(), relay.Talks()[0]
			if len(mails) != 1 || !strings.Contains(strings.ToUpper(mechanism), talk.Mechanism) || talk.Mechanism == "" {
				t.Fatalf("got %d mails, signed in by %q", len(mails), talk.Mechanism)
			}
			if mails[0].From != "<no-reply@example.org>" || mails[0].To != "<anna@example.com>" {
				t.Errorf("got envelope from %q to %q", mails[0].From, mails[0].To)
			}
			if diff := cmp.Diff(wantLetter(sample()), readLetter(t, mails[0].Data)); diff != "" {
				t.Error(diff)
			}
			if !aloneOnItsLine(mails[0].Data, token) {
				t.Errorf("want the token alone on a line of\n%s", mails[0].Data)
			}
		})
	}
}

func TestSMTP_TLS(t *testing.T) {
	trusted := x509.NewCertPool()
	leaf, err := x509.ParseCertificate(certificate().Certificates[0].Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	trusted.AddCert(leaf)
	const offered, auth = smtprelay.STARTTLS, "AUTH PLAIN"
	for name, test := range map[string]struct {
		host     string
		offers   []string
		reply    string // to STARTTLS
		trusted  *x509.CertPool
		sent     bool
		implicit bool
		clear    bool // the mail is sent without TLS
	}{
		"elsewhere it is not offered, or was stripped":    {host: "example.com", trusted: trusted},
		"elsewhere it is refused":                         {host: "example.com", offers: []string{offered}, reply: "454 4.7.0 not now", trusted: trusted},
		"elsewhere the handshake is cut":                  {host: "example.com", offers: []string{offered}, reply: smtprelay.Cut, trusted: trusted},
		"elsewhere the certificate has an unknown issuer": {host: "example.com", offers: []string{offered}, trusted: x509.NewCertPool()},
		"elsewhere the certificate is another host's":     {host: "mail.example.org", offers: []string{offered}, trusted: trusted},
		"elsewhere the certificate is the host's":         {host: "example.com", offers: []string{offered}, trusted: trusted, sent: true},
		"elsewhere from the start":                        {host: "example.com", trusted: trusted, sent: true, implicit: true},
		"elsewhere from the start, unknown issuer":        {host: "example.com", trusted: x509.NewCertPool(), implicit: true},
		"on loopback it is offered":                       {host: "127.0.0.1", offers: []string{offered}, sent: true},
		"on loopback it is not offered":                   {host: "localhost", sent: true, clear: true},
		"on loopback it is offered and refused":           {host: "::1", offers: []string{offered}, reply: "454 4.7.0 no certificate", sent: true, clear: true},
		"on loopback from the start":                      {host: "127.0.0.1", sent: true, implicit: true},
	} {
		for _, login := range []string{"", "cms:s%40cr%C3%A9t@"} {
			t.Run(name+" "+login, func(t *testing.T) {
				script := smtprelay.Script{Offers: append(test.offers, auth), Implicit: test.implicit}
				if test.reply != "" {
					script.Replies = map[string]string{smtprelay.STARTTLS: test.reply}
				}
				relay := newRelay(script)
				scheme := "smtp://"
				if test.implicit {
					scheme = "smtps://"
				}
				host := test.host
				if strings.Contains(host, ":") {
					host = "[" + host + "]"
				}
				sender := to(t, relay, scheme+login+host)
				sender.roots = test.trusted
				err := sender.Send(t.Context(), sample())
				relay.Wait() // the connection is closed, whatever happened
				if (err == nil) != test.sent || len(relay.Accepted()) > 0 != test.sent {
					t.Fatalf("got error %v and %d mails, want them sent: %t", err, len(relay.Accepted()), test.sent)
				}
				talk := relay.Talks()[0]
				for _, verb := range talk.Clear {
					if !test.clear && !slices.Contains([]string{"EHLO", "STARTTLS", "QUIT"}, verb) {
						t.Errorf("%s was sent without TLS", verb)
					}
				}
				if test.sent && (talk.Mechanism == "PLAIN") != (login != "") {
					t.Errorf("got authentication by %q, want that for a user only", talk.Mechanism)
				}
			})
		}
	}
}

func TestSMTP_Verdicts(t *testing.T) {
	const site, later = "site", "later"
	for reply, want := range map[string]string{ // by step and reply: site, later, or the reason of a refusal for good
		"RCPT 550 no such box":                              "550 no such box",
		"RCPT 551 moved":                                    "551 moved",
		"RCPT 553 bad mailbox name":                         "553 bad mailbox name",
		"RCPT 550 5.1.1 <anna@example.com>: no such box":    "550 5.1.1 <anna@example.com>: no such box",
		"RCPT 550-5.1.1 no such\r\n550 5.1.1 box":           "550 5.1.1 no such 5.1.1 box",
		"RCPT 550 5.1.2 no such domain":                     "550 5.1.2 no such domain",
		"RCPT 501 5.1.3 bad address":                        "501 5.1.3 bad address",
		"RCPT 550 5.1.6 moved":                              "550 5.1.6 moved",
		"RCPT 556 5.1.10 takes no mail":                     "556 5.1.10 takes no mail",
		"RCPT 550 5.2.1 disabled":                           "550 5.2.1 disabled",
		"RCPT 550 sorry, no mailbox here (#5.1.1)":          "550 sorry, no mailbox here (#5.1.1)",
		"DOT 550 5.1.1 no such box":                         "550 5.1.1 no such box",
		"RCPT 553 sorry, not in my rcpthosts (#5.7.1)":      site,
		"RCPT 504 5.5.2 <vm>: need a name with a dot":       site,
		"RCPT 550 5.1.7 bad sender":                         site,
		"RCPT 553 5.1.8 sender's domain not found":          site,
		"RCPT 554 5.7.1 client host rejected":               site,
		"RCPT 550-blocked\r\n550 5.7.1 see your postmaster": site,
		"RCPT 550 5.7.26 DMARC":                             site,
		"RCPT 550 #5.7.1 your access has been rejected":     site,
		"RCPT 550 <anna@example.com>: 5.7.1 no":             site,
		"RCPT 550 [5.7.1] no":                               site,
		"RCPT 550 Error: 5.7.26 unauthenticated":            site,
		"RCPT 550 rejected: #5.1.0":                         site,
		"RCPT 550 no such box, ask 5.7.1.4":                 "550 no such box, ask 5.7.1.4",
		"RCPT 550 rejected, no such box (5.1.1).":           "550 rejected, no such box (5.1.1).",
		"RCPT 550 5.1.0 address rejected":                   site,
		"RCPT 552 5.2.2 mailbox full":                       "552 5.2.2 mailbox full",
		"RCPT 550 4.1.1 confused":                           site,
		"RCPT 530 5.7.0 authentication required":            site,
		"RCPT 554 transaction failed":                       site,
		"MAIL 550 5.1.1 not your address":                   site,
		"MAIL 550 not your address":                         site,
		"EHLO 550 5.7.1 who are you":                        site,
		"GREETING 554 5.7.1 blocked":                        site,
		"AUTH 535 5.7.8 wrong password":                     site,
		"DATA 554 5.5.1 no valid recipients":                site,
		"DOT 554 looks like spam":                           site,
		"DOT 550 looks like spam":                           site,
		"DOT 554 5.7.1 looks like spam":                     site,
		"DOT 552 5.3.4 too big":                             site,
		"RCPT 450 4.2.0 greylisted":                         later,
		"RCPT 451 4.7.1 later, or it will be a 550 5.1.1":   later,
		"RCPT 452 5.1.1 confused":                           later,
		"DOT 451 disk full":                                 later,
		"DOT 421 4.3.2 shutting down":                       later,
		"MAIL 421 too many connections":                     later,
		"AUTH 454 4.7.0 later":                              later,
	} {
		t.Run(reply, func(t *testing.T) {
			step, text, _ := strings.Cut(reply, " ")
			relay := newRelay(smtprelay.Script{Offers: []string{"AUTH PLAIN"}, Replies: map[string]string{step: text}})
			err := to(t, relay, cms+"127.0.0.1").Send(t.Context(), sample())
			refused, good := errors.AsType[*personal.MailRefusedError](err)
			failed, other := errors.AsType[*personal.MailFailedError](err)
			switch {
			case want != site && want != later:
				if !good || refused.Reason != want {
					t.Errorf("got %v with %+v, want a refusal for good, %q", err, refused, want)
				}
			case !other || good || failed.PerhapsSent || failed.Reply == "" || (failed.Reply[0] == '5') != (want == site):
				t.Errorf("got %v with %+v, want another attempt", err, failed)
			case !strings.Contains(err.Error(), text[:3]):
				t.Errorf("got %v, want the code %s in it", err, text[:3])
			}
		})
	}
}

// Relays quote addresses, links and tokens in what they say.
func TestSMTP_ErrorsHaveNoWordsOfTheRelay(t *testing.T) {
	const words = "anna@example.com comes back as https://relay.example/marker#token=" + token
	for _, step := range []string{smtprelay.Greeting, smtprelay.EHLO, smtprelay.AUTH, smtprelay.MAIL, smtprelay.RCPT, smtprelay.DATA, smtprelay.Dot} {
		for _, codes := range []string{"451 4.7.1", "550 5.1.1", "554 5.7.1", "not a reply:"} {
			relay := newRelay(smtprelay.Script{Offers: []string{"AUTH PLAIN"}, Replies: map[string]string{step: codes + " " + words}})
			sender := to(t, relay, cms+"127.0.0.1")
			errs := []error{sender.Send(t.Context(), sample())}
			if slices.Contains([]string{smtprelay.Greeting, smtprelay.EHLO, smtprelay.AUTH}, step) {
				errs = append(errs, sender.Check(t.Context()))
			}
			for _, err := range errs {
				if err == nil || strings.Contains(err.Error(), "@") || strings.Contains(err.Error(), "marker") || strings.Contains(err.Error(), token) ||
					strings.Contains(err.Error(), "s@cr") || codes[0] != 'n' && !strings.Contains(err.Error(), codes) {
					t.Errorf("%s: got error %v, want the codes %s and none of the relay's words", step, err, codes)
				}
				if refused, ok := errors.AsType[*personal.MailRefusedError](err); ok && strings.Contains(refused.Reason, token) {
					t.Errorf("%s: got the reason %q, want it without the token", step, refused.Reason)
				}
			}
		}
	}
}

// A relay has the time of RFC 5321, and no more.
func TestSMTP_SlowRelay(t *testing.T) {
	const soon = time.Second
	for step, limit := range map[string]time.Duration{
		smtprelay.Greeting: 5 * time.Minute, smtprelay.EHLO: 5 * time.Minute, smtprelay.AUTH: 5 * time.Minute, smtprelay.MAIL: 5 * time.Minute,
		smtprelay.RCPT: 5 * time.Minute, smtprelay.DATA: 2 * time.Minute, smtprelay.Content: 3 * time.Minute, smtprelay.Dot: 10 * time.Minute,
	} {
		for _, slow := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				delay := limit - soon
				if slow {
					delay = limit + soon
				}
				relay := &smtprelay.Relay{User: "cms", Password: "s@crét",
					Scripts: []smtprelay.Script{{Offers: []string{"AUTH PLAIN"}, Delays: map[string]time.Duration{step: delay}}}}
				began := time.Now()
				m := sample()
				m.Text += strings.Repeat("x", 100_000) + "\n"
				err := to(t, relay, cms+"127.0.0.1").Send(t.Context(), m)
				took := time.Since(began)
				failed, _ := errors.AsType[*personal.MailFailedError](err)
				perhaps := failed != nil && failed.PerhapsSent
				if (err != nil) != slow || took > limit || perhaps != (slow && step == smtprelay.Dot) {
					t.Errorf("%s after %v: got %v after %v, perhaps sent: %t", step, delay, err, took, perhaps)
				}
				relay.Wait()
			})
		}
	}
}

func TestSMTP_SlowGoodbyeHoldsNothingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		relay := &smtprelay.Relay{Scripts: []smtprelay.Script{{Delays: map[string]time.Duration{smtprelay.QUIT: time.Hour}}}}
		began := time.Now()
		err := to(t, relay, "smtp://127.0.0.1").Send(t.Context(), sample())
		if took := time.Since(began); err != nil || took > 10*time.Second {
			t.Errorf("got %v after %v, want the mail sent at once", err, took)
		}
		relay.Wait()
	})
}

// Only a connection that is lost after the final dot leaves open whether the mail was sent.
func TestSMTP_CutAtEachStep(t *testing.T) {
	for _, step := range []string{smtprelay.Greeting, smtprelay.EHLO, smtprelay.STARTTLS, smtprelay.AUTH, smtprelay.MAIL, smtprelay.RCPT, smtprelay.DATA,
		smtprelay.Content, smtprelay.Dot, smtprelay.QUIT} {
		relay := newRelay(smtprelay.Script{Offers: []string{smtprelay.STARTTLS, "AUTH PLAIN"}, Replies: map[string]string{step: smtprelay.Cut}})
		m := sample()
		m.Text += strings.Repeat("x", 100_000) + "\n"
		err := to(t, relay, cms+"127.0.0.1").Send(t.Context(), m)
		failed, _ := errors.AsType[*personal.MailFailedError](err)
		perhaps := failed != nil && failed.PerhapsSent
		if (err == nil) != (step == smtprelay.QUIT) || perhaps != (step == smtprelay.Dot) {
			t.Errorf("%s: got %v, perhaps sent: %t", step, err, perhaps)
		}
		if _, refused := errors.AsType[*personal.MailRefusedError](err); refused {
			t.Errorf("%s: got %v, want another attempt", step, err)
		}
	}
}

// The context ends early when a process of the plugin is stopped.
func TestSMTP_ContextCutsTheConversation(t *testing.T) {
	for _, step := range []string{smtprelay.Greeting, smtprelay.RCPT, smtprelay.Dot} {
		synctest.Test(t, func(t *testing.T) {
			relay := &smtprelay.Relay{Scripts: []smtprelay.Script{{Delays: map[string]time.Duration{step: 2 * time.Minute}}}}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			began := time.Now()
			err := to(t, relay, "smtp://127.0.0.1").Send(ctx, sample())
			failed, _ := errors.AsType[*personal.MailFailedError](err)
			perhaps := failed != nil && failed.PerhapsSent
			if took := time.Since(began); err == nil || took != time.Minute || perhaps != (step == smtprelay.Dot) {
				t.Errorf("%s: got %v after %v, perhaps sent: %t", step, err, took, perhaps)
			}
			relay.Wait()
		})
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	sender, err := NewSMTP("smtp://127.0.0.1:9", parsedFrom(t), Options{})
	if err == nil {
		err = sender.Send(ended, sample())
	}
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error", err)
	}
}

func TestSMTP_HelloNamesTheSite(t *testing.T) {
	for _, test := range []struct{ helo, site, from, want string }{
		{"mx.example.net", "https://www.example.org/account", "a@sender.example", "mx.example.net"},
		{"[192.0.2.1]", "", "a@sender.example", "[192.0.2.1]"},
		{"", "https://www.example.org:8443/account", "a@sender.example", "www.example.org"},
		{"", "https://пример.рф", "a@sender.example", "xn--e1afmkfd.xn--p1ai"},
		{"", "", "a@sender.example", "sender.example"},
		{"", "http://vm:8080", "a@sender.example", "sender.example"},
		{"", "http://localhost:8080", "a@sender.example", "sender.example"},
		{"", "http://192.0.2.1", "a@sender.example", "sender.example"},
		{"", "http://[::1]:8080", "a@пример.рф", "xn--e1afmkfd.xn--p1ai"},
	} {
		relay := newRelay()
		sender, err := NewSMTP("smtp://127.0.0.1", &mail.Address{Address: test.from}, Options{Helo: test.helo, Dial: relay.Dial})
		if err != nil {
			t.Fatal(err)
		}
		sender.UseSite(test.site)
		if err := sender.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		relay.Wait()
		if got := relay.Talks()[0].Helo; got != test.want {
			t.Errorf("%+v: got EHLO %s", test, got)
		}
	}
	for _, helo := range []string{"a b", "a\r\nRSET", "[x]", "[192.0.2.1", "пример.рф"} {
		if _, err := NewSMTP("smtp://127.0.0.1", parsedFrom(t), Options{Helo: helo}); err == nil {
			t.Errorf("Helo %q: got no error", helo)
		}
	}
}

func TestSMTP_InternationalSenders(t *testing.T) {
	for _, test := range []struct {
		from   string
		offers []string
		want   string // the argument of MAIL; "": not sent
	}{
		{"Сайт <no-reply@пример.рф>", nil, "<no-reply@xn--e1afmkfd.xn--p1ai>"},
		{"no-reply@bücher.example", []string{"SMTPUTF8", "8BITMIME"}, "<no-reply@xn--bcher-kva.example>"},
		{"почта@пример.рф", []string{"SMTPUTF8"}, "<почта@xn--e1afmkfd.xn--p1ai> SMTPUTF8"},
		{"почта@пример.рф", nil, ""},
	} {
		from, err := ParseFrom(test.from)
		if err != nil {
			t.Fatal(err)
		}
		relay := newRelay(smtprelay.Script{Offers: test.offers})
		sender, err := NewSMTP("smtp://127.0.0.1", from, Options{Dial: relay.Dial})
		if err != nil {
			t.Fatal(err)
		}
		err = sender.Send(t.Context(), sample())
		relay.Wait()
		got := ""
		if mails := relay.Mails(); len(mails) == 1 {
			got = mails[0].From
			head, _, _ := strings.Cut(string(mails[0].Data), "\r\n\r\n")
			if !strings.Contains(test.want, "SMTPUTF8") && !isASCII(head) {
				t.Errorf("%s: got a header that is not ASCII:\n%s", test.from, head)
			}
		}
		if got != test.want || (err == nil) != (test.want != "") {
			t.Errorf("%s with %v: got MAIL %q and %v, want %q", test.from, test.offers, got, err, test.want)
		}
	}
}

func TestSMTP_OtherSuccessesCount(t *testing.T) {
	replies := map[string]string{smtprelay.MAIL: "251 ok", smtprelay.RCPT: "251 forwarded", smtprelay.Dot: "252 queued"}
	relay := newRelay(smtprelay.Script{Replies: replies})
	if err := to(t, relay, "smtp://127.0.0.1").Send(t.Context(), sample()); err != nil {
		t.Errorf("got %v, want the mail sent: %v", err, fmt.Sprint(replies))
	}
}

// Keywords may be in any case (RFC 5321, section 4.1.1.1).
func TestSMTP_KeywordsInLowerCase(t *testing.T) {
	for _, auth := range []string{"Auth login plain", "AUTH=LOGIN PLAIN", "auth=login"} {
		relay := newRelay(smtprelay.Script{Offers: []string{"starttls", auth}})
		err := to(t, relay, cms+"127.0.0.1").Send(t.Context(), sample())
		relay.Wait()
		if mails := relay.Mails(); err != nil || len(mails) != 1 || !mails[0].TLS || relay.Talks()[0].Mechanism == "" {
			t.Errorf("%s: got %v and %+v, want a mail sent with TLS and authentication", auth, err, relay.Talks()[0])
		}
	}
}

func TestSMTP_RelayWithoutEHLO(t *testing.T) {
	relay := newRelay(smtprelay.Script{Replies: map[string]string{"EHLO EHLO": "502 5.5.1 unknown command"}})
	if err := to(t, relay, "smtp://127.0.0.1").Send(t.Context(), sample()); err != nil {
		t.Errorf("got %v, want the mail sent after HELO", err)
	}
}
