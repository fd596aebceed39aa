package accounts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/cms-personal/personal/internal/mailtext"
	"github.com/cms-personal/personal/internal/throttle"
)

// outage is a store that answers no question for a key until its caller gives up.
type outage struct {
	MailLimitStore
	asked chan struct{}
}

func (s outage) Key(ctx context.Context, _ string, _ []byte) ([]byte, error) {
	s.asked <- struct{}{}
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestDigestKey_NoCallWaitsForAnother(t *testing.T) {
	var key digestKey
	store := outage{asked: make(chan struct{}, 2)}
	waiting, giveUp := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := key.get(waiting, store, "name", nil)
		ended <- err
	}()
	<-store.asked
	short, cancel := context.WithTimeout(t.Context(), time.Millisecond) // real time: it is to expire
	defer cancel()
	if _, err := key.get(short, store, "name", nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
	}
	select {
	case err := <-ended:
		t.Errorf("the first call has ended with %v, want that it waits", err)
	default:
	}
	giveUp()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}

// ledger counts mails as a store does.
type ledger struct {
	now  time.Time
	sent []SentMail
	tats map[[32]byte]time.Time
}

func (l *ledger) reserve(m outgoingMail) bool {
	r := mailReservation([]byte("key"), 30*time.Minute, m)
	waits := map[[32]byte]time.Duration{}
	for _, c := range r.Rates() {
		_, waits[c.Key] = c.Limit.Take(l.tats[c.Key], l.now)
	}
	way, _ := r.Grant(l.sent, waits, l.now)
	if way == nil {
		return false
	}
	for _, d := range way.Digests() {
		l.sent = slices.Insert(l.sent, 0, SentMail{Digest: d, Time: l.now})
	}
	if c := way.Rate; c.Limit != (throttle.Limit{}) {
		l.tats[c.Key], _ = c.Limit.Take(l.tats[c.Key], l.now)
	}
	return true
}

// stranger is a mail that a caller in one network can cause to ada's mailbox without her
// password: about her account a recovery or a hint, about any account that they have
// registered with a tagged form of her address every kind.
func stranger(t *rapid.T, network string) outgoingMail {
	m := outgoingMail{network: network, address: fmt.Sprint(network, " ", rapid.IntRange(1, 40).Draw(t, "address"))}
	if rapid.Bool().Draw(t, "about ada") {
		m.accountID, m.to = 1, Email{Key: "ada@example.com"}
		m.kind = rapid.SampledFrom([]mailtext.Kind{mailtext.Recovery, mailtext.RegistrationAttempt}).Draw(t, "kind")
		return m
	}
	m.accountID = int64(rapid.IntRange(2, 40).Draw(t, "account"))
	m.to.Key = fmt.Sprintf("ada+%d@example.com", m.accountID)
	m.kind = rapid.SampledFrom([]mailtext.Kind{
		mailtext.Recovery, mailtext.Verification, mailtext.EmailChange, mailtext.Deletion, mailtext.NewAddress, mailtext.PasswordChanged, mailtext.TwoFactorOn,
	}).Draw(t, "kind")
	m.longKnown = m.kind == mailtext.Recovery && rapid.Bool().Draw(t, "long-known")
	return m
}

// While one network does anything for days, possibly the owner's, the owner at a known
// address gets every recovery within their limit, and every notice within theirs, and
// strangers cause 40 mails within 24 hours at most.
func TestMailBudgets_OneNetworkNeitherFloodsNorStarves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := &ledger{now: time.Unix(1_900_000_000, 0), tats: map[[32]byte]time.Time{}}
		owner := outgoingMail{accountID: 1, to: Email{Key: "ada@example.com"}, network: "home", address: "home 1", longKnown: true}
		network := rapid.SampledFrom([]string{"home", "abroad"}).Draw(t, "network")
		var caused, recovered, noticed []time.Time
		within := func(times []time.Time, d time.Duration) (n int) {
			for _, at := range times {
				if l.now.Sub(at) < d {
					n++
				}
			}
			return n
		}
		for range rapid.IntRange(1, 400).Draw(t, "steps") {
			l.now = l.now.Add(time.Duration(rapid.IntRange(0, 900).Draw(t, "seconds")) * time.Second)
			switch rapid.IntRange(0, 9).Draw(t, "who") {
			case 0:
				if within(recovered, time.Hour) == 2 {
					continue
				}
				recovered = append(recovered, l.now)
				m := owner
				if m.kind = mailtext.Recovery; !l.reserve(m) {
					t.Fatal("a recovery of the owner was suppressed")
				}
			case 1:
				if within(noticed, time.Hour) == 10 || within(noticed, 24*time.Hour) == 20 {
					continue
				}
				noticed = append(noticed, l.now)
				m := owner
				if m.kind = rapid.SampledFrom([]mailtext.Kind{mailtext.PasswordChanged, mailtext.SessionTheft}).Draw(t, "notice"); !l.reserve(m) {
					t.Fatal("a notice to the owner was suppressed")
				}
			default:
				if l.reserve(stranger(t, network)) {
					caused = append(caused, l.now)
				}
				if n := within(caused, 24*time.Hour); n > 40 {
					t.Fatalf("strangers of one network caused %d mails within 24 hours, want 40 at most", n)
				}
			}
		}
	})
}

// What one network can cause at most within a day, by what it causes; the sum is 40.
func TestMailBudgets_OneNetworkCausesAtMost(t *testing.T) {
	about := func(m outgoingMail) func(i int) outgoingMail {
		return func(i int) outgoingMail {
			m := m
			m.network, m.address, m.to.Key = "abroad", fmt.Sprint("abroad ", i), "ada@example.com"
			if m.accountID == 0 {
				m.accountID, m.to.Key = int64(2+i), fmt.Sprintf("ada+%d@example.com", i)
			}
			return m
		}
	}
	always := func(mail func(int) outgoingMail) func(int) outgoingMail {
		return func(int) outgoingMail { return mail(0) }
	}
	recovery := about(outgoingMail{accountID: 1, kind: mailtext.Recovery})
	for name, test := range map[string]struct {
		mail      func(i int) outgoingMail
		hour, day int
	}{
		"recoveries from one address":                     {always(recovery), 2, 10},
		"recoveries from ever new addresses":              {recovery, 5, 20},
		"recoveries of other accounts":                    {about(outgoingMail{kind: mailtext.Recovery}), 2, 5},
		"recoveries of other accounts at known addresses": {about(outgoingMail{kind: mailtext.Recovery, longKnown: true}), 7, 10}, // of these, 2 and 5 as above
		"verifications":                                   {about(outgoingMail{kind: mailtext.Verification}), 2, 5},
		"notices to other accounts":                       {about(outgoingMail{kind: mailtext.NewAddress}), 2, 5},
		"deletions of other accounts":                     {about(outgoingMail{kind: mailtext.Deletion}), 5, 10},
	} {
		t.Run(name, func(t *testing.T) {
			l := &ledger{now: time.Unix(1_900_000_000, 0), tats: map[[32]byte]time.Time{}}
			var hour, day int
			for i := range 24 * 60 {
				if l.reserve(test.mail(i)) {
					day++
					if i < 60 {
						hour++
					}
				}
				l.now = l.now.Add(time.Minute)
			}
			if hour != test.hour || day != test.day {
				t.Errorf("got %d mails in an hour and %d in a day, want %d and %d", hour, day, test.hour, test.day)
			}
		})
	}
}

// Callers without their own network are limited by the mailbox alone.
func TestMailBudgets_UnknownNetworksHaveNoLimit(t *testing.T) {
	l := &ledger{now: time.Unix(1_900_000_000, 0), tats: map[[32]byte]time.Time{}}
	granted := 0
	for range 24 * 60 {
		if l.reserve(outgoingMail{accountID: 1, to: Email{Key: "ada@example.com"}, kind: mailtext.Recovery}) {
			granted++
		}
		l.now = l.now.Add(time.Minute)
	}
	if want := 2 + 24*4 - 1; granted != want {
		t.Errorf("got %d recoveries in a day, want %d: one in 15 minutes", granted, want)
	}
}

// A thief who registered an unverified account with the mailbox makes it known in many
// networks: these share what one network gets.
func TestMailBudgets_UnverifiedAccountIsNoFloodFromManyNetworks(t *testing.T) {
	l := &ledger{now: time.Unix(1_900_000_000, 0), tats: map[[32]byte]time.Time{}}
	for verified, want := range map[bool]int{false: 48, true: 960} {
		sent := 0
		for i := range 20 * 48 {
			network := fmt.Sprint(verified, i%20)
			m := outgoingMail{
				kind: mailtext.Recovery, accountID: 1, to: Email{Key: fmt.Sprint(verified, "@example.com")}, verified: verified,
				network: network, address: network, longKnown: true,
			}
			if l.reserve(m) {
				sent++
			}
			l.now = l.now.Add(24 * time.Hour / (20 * 48))
		}
		// Recoveries beyond these, which the rate allows from any address, are the table's.
		if extra := sent - want; extra < 0 || extra > 2+48*2 {
			t.Errorf("verified %t: got %d recoveries from 20 networks within a day, want %d and those of the rate", verified, sent, want)
		}
	}
}

// Accounts with a tag, from any number of networks, leave the owner the mail that undoes a
// deletion.
func TestMailBudgets_DeletionsOfTaggedAccountsLeaveTheOwners(t *testing.T) {
	l := &ledger{now: time.Unix(1_900_000_000, 0), tats: map[[32]byte]time.Time{}}
	sent := 0
	for i := range 40 {
		network := fmt.Sprint("network ", i)
		if l.reserve(outgoingMail{
			kind: mailtext.Deletion, accountID: int64(2 + i), to: Email{Key: fmt.Sprintf("ada+%d@example.com", i)}, network: network, address: network,
		}) {
			sent++
		}
	}
	if sent != 5 {
		t.Errorf("got %d mails about tagged accounts within an hour, want 5", sent)
	}
	if !l.reserve(outgoingMail{kind: mailtext.Deletion, accountID: 1, to: Email{Key: "ada@example.com"}, network: "home",
		address: "home 1"}) {
		t.Error("the owner's mail was suppressed")
	}
}
