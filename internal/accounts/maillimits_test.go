package accounts_test

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/mailtext"
	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/testkit"
	"github.com/cms-personal/personal/shared/personal"
)

// flood is a way to cause mails to ada's address, which is also that of addresses with a
// +tag, as often as one likes. It returns a function that tries to cause one more.
type flood func(*testing.T, *fixture) func(i int)

func recoverAgain(t *testing.T, f *fixture) func(int) {
	f.register(t, "ada")
	return func(i int) {
		f.recoverNow(t, []personal.RecoverRequest{{Login: "ada"}, {Email: "ada@example.com"}}[i%2])
	}
}

// changeToAddress lets several users claim one mailbox.
func changeToAddress(t *testing.T, f *fixture) func(int) {
	var users []personal.Credentials
	for i := range 3 {
		users = append(users, f.register(t, fmt.Sprint("user", i)).Credentials)
	}
	return func(i int) {
		err := f.service.ChangeEmail(t.Context(), personal.ChangeEmailRequest{
			Credentials: users[i%3], Password: goodPassword, Email: fmt.Sprintf("Ada+%d@EXAMPLE.com", i),
		})
		wantCode(t, err, "")
	}
}

func changePasswordAgain(t *testing.T, f *fixture) func(int) {
	c, passwords := f.register(t, "ada").Credentials, []string{goodPassword, otherPassword}
	return func(i int) { c = f.changePassword(t, c, passwords[i%2], passwords[1-i%2]) }
}

func recoverAndConfirm(t *testing.T, f *fixture) func(int) {
	f.register(t, "ada")
	mails := 0
	return func(int) {
		f.recoverNow(t, personal.RecoverRequest{Login: "ada"})
		if tokens := f.tokens(); len(tokens) > mails {
			mails = len(tokens)
			wantCode(t, f.confirm(t, tokens[mails-1]), "")
		}
	}
}

func changeFromAddress(t *testing.T, f *fixture) func(int) {
	id := f.register(t, "ada").Credentials.UserID
	return func(i int) { f.setEmail(t, id, []string{"ada+x@example.com", "ada@example.com"}[i%2]) }
}

func signInEverywhere(t *testing.T, f *fixture) func(int) {
	f.register(t, "ada")
	f.signInFrom(t, "ada", goodPassword, home, "")
	address := netip.MustParseAddr(abroad)
	return func(int) {
		address = address.Next()
		f.signInFrom(t, "ada", goodPassword, address.String(), "")
	}
}

func stealAgain(t *testing.T, f *fixture) func(int) {
	f.register(t, "ada")
	return func(int) {
		c := f.signInFrom(t, "ada", goodPassword, "", "")
		last := f.refreshTimes(t, c, 4, 0)
		f.refreshTimes(t, last, 1, time.Minute)
		_, err := f.service.Profile(t.Context(), c)
		wantCode(t, err, personal.CodeUnauthenticated)
	}
}

// registerAgain has accounts wait for the address of each flood.
func registerAgain(t *testing.T, f *fixture) func(int) {
	return func(i int) { f.applied(t, fmt.Sprint("user", i), fmt.Sprintf("ada+%d@example.com", i)) }
}

func verifyAgain(t *testing.T, f *fixture) func(int) {
	f.applied(t, "ada", "ada@example.com")
	return func(int) { f.resend(t, "ada", "") }
}

// registerTaken registers with the address of an account.
func registerTaken(t *testing.T, f *fixture) func(int) {
	f.applied(t, "ada", "ada@example.com")
	f.drain(t)
	if err := f.verify(t, f.tokens()[0]); err != nil {
		t.Fatal(err)
	}
	return func(i int) { f.applied(t, fmt.Sprint("user", i), "ada@example.com") }
}

// deleteAgain deletes an account that an administrator enables each time.
func deleteAgain(t *testing.T, f *fixture) func(int) {
	f.applied(t, "ada", "ada@example.com")
	f.drain(t)
	if err := f.verify(t, f.tokens()[0]); err != nil {
		t.Fatal(err)
	}
	return func(int) {
		in, err := f.signIn("ada", goodPassword)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.service.Delete(t.Context(), personal.DeleteRequest{Credentials: in.Credentials, Password: goodPassword}); err != nil {
			t.Fatal(err)
		}
		f.drain(t)
		f.enable(t, in.Credentials.UserID)
	}
}

// inviteAgain invites a user whom an administrator deletes each time.
func inviteAgain(t *testing.T, f *fixture) func(int) {
	return func(i int) {
		f.drain(t)
		if i > 0 {
			found, err := f.service.FindUsers(t.Context(), personal.FindUsersRequest{Search: "ada"})
			if err != nil || len(found.Users) != 1 {
				t.Fatal(found, err)
			}
			if err := f.service.DeleteUser(t.Context(), found.Users[0].ID); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := f.service.CreateUser(t.Context(), personal.CreateUserRequest{Login: "ada", Email: "ada@example.com", Invite: true}); err != nil {
			t.Fatal(err)
		}
	}
}

// changeTheFactor stores notices as the operations do that turn a second factor on, use
// it or remove it: a code for each would take longer.
func changeTheFactor(kind mailtext.Kind) flood {
	return func(t *testing.T, f *fixture) func(int) {
		id := f.register(t, "ada").Credentials.UserID
		return func(i int) {
			err := f.store.Enqueue(t.Context(), accounts.NewJob{
				Kind: accounts.KindNotice, AccountID: id, Payload: fmt.Appendf(nil, `{"kind":%q,"mail_id":"%s-%d"}`, kind, kind, i),
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestMailLimits_NoOperationFloodsAnAddress(t *testing.T) {
	type peaks map[time.Duration]int // the most mails within a period
	own, common := peaks{time.Minute: 1, time.Hour: 5}, peaks{time.Hour: 10, 24 * time.Hour: 30}
	tagged := peaks{time.Minute: 2, time.Hour: 10} // to the address with a tag and without
	missing := map[mailtext.Kind]bool{}
	for _, d := range mailtext.Descriptions() {
		missing[d.Kind] = true
	}
	for name, test := range map[string]struct {
		kind  mailtext.Kind
		open  func(testing.TB, string, ...func(*accounts.Settings)) *fixture
		flood flood
		tries int
		every time.Duration
		want  peaks
	}{
		"recoveries":                       {mailtext.Recovery, newFixture, recoverAgain, 60, 3 * time.Minute, own},
		"completed recoveries":             {mailtext.Recovered, newFixture, recoverAndConfirm, 60, 3 * time.Minute, own},
		"changes to the address":           {mailtext.EmailChange, newFixture, changeToAddress, 60, 3 * time.Minute, own},
		"changes from the address":         {mailtext.EmailChanged, newFixture, changeFromAddress, 60, 3 * time.Minute, tagged},
		"changes of the password":          {mailtext.PasswordChanged, newFixture, changePasswordAgain, 60, 3 * time.Minute, own},
		"invitations":                      {mailtext.Invitation, newFixture, inviteAgain, 60, 3 * time.Minute, own},
		"second factors turned on":         {mailtext.TwoFactorOn, newFixture, changeTheFactor(mailtext.TwoFactorOn), 60, 3 * time.Minute, own},
		"second factors removed":           {mailtext.TwoFactorOff, newFixture, changeTheFactor(mailtext.TwoFactorOff), 60, 3 * time.Minute, own},
		"renewals of recovery codes":       {mailtext.RecoveryCodes, newFixture, changeTheFactor(mailtext.RecoveryCodes), 60, 3 * time.Minute, own},
		"uses of recovery codes":           {mailtext.RecoveryCodeUsed, newFixture, changeTheFactor(mailtext.RecoveryCodeUsed), 60, 3 * time.Minute, own},
		"deletions":                        {mailtext.Deletion, requiring, deleteAgain, 60, 3 * time.Minute, peaks{time.Minute: 2, time.Hour: 5}},
		"verifications of an account":      {mailtext.Verification, requiring, verifyAgain, 60, 3 * time.Minute, own},
		"registrations":                    {mailtext.Verification, requiring, registerAgain, 300, 5 * time.Minute, peaks{time.Minute: 1, time.Hour: 5, 24 * time.Hour: 15}},
		"registrations of a taken address": {mailtext.RegistrationAttempt, requiring, registerTaken, 300, 5 * time.Minute, peaks{time.Hour: 5, 24 * time.Hour: 15}},
		"sign-ins from everywhere":         {mailtext.NewAddress, newFixture, signInEverywhere, 300, 5 * time.Minute, common},
		"thefts":                           {mailtext.SessionTheft, newFixture, stealAgain, 300, 5 * time.Minute, common},
	} {
		delete(missing, test.kind)
		t.Run(name, func(t *testing.T) {
			f := test.open(t, testkit.SQLite(t))
			try := test.flood(t, f)
			subject, _, _, err := mailtext.BuiltIn().Write(test.kind, "", mailtext.Sample())
			if err != nil {
				t.Fatal(err)
			}
			var sent []time.Time
			seen := 0
			for i := range test.tries {
				try(i)
				f.drain(t)
				for _, m := range f.host.Mails()[seen:] {
					seen++
					if m.Subject == subject && strings.HasPrefix(strings.ToLower(m.To), "ada") {
						sent = append(sent, f.clock.Now())
					}
				}
				if i%2 == 1 { // two at once
					f.clock.Advance(2 * test.every)
				}
			}
			for period, want := range test.want {
				if got := peak(sent, period); got != want {
					t.Errorf("got %d mails within %v, want %d at most, and as many", got, period, want)
				}
			}
		})
	}
	if len(missing) > 0 {
		t.Errorf("no flood causes mails of the kinds %v: add one", missing)
	}
}

// peak is the largest number of times within a period.
func peak(times []time.Time, period time.Duration) (most int) {
	first := 0
	for i, last := range times {
		for last.Sub(times[first]) >= period {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

// Using up the limit that most mails share does not suppress the mails that have one of
// their own.
func TestMailLimits_UsedUpLimitLeavesTheOthers(t *testing.T) {
	testkit.Databases(t, func(t *testing.T, url string) {
		f := newFixture(t, url)
		suppressed := map[mailtext.Kind]int{}
		f.service.CountSuppressedMails(func(k mailtext.Kind) { suppressed[k]++ })
		again := signInEverywhere(t, f)
		for i := range 12 {
			again(i)
		}
		c := f.signInFrom(t, "ada", goodPassword, home, "")
		f.stealSession(t, t.Context(), f.signInFrom(t, "ada", goodPassword, home, ""))
		f.drain(t)
		if got := len(f.host.Mails()); got != 10 {
			t.Fatalf("got %d mails, want 10", got)
		}
		if suppressed[mailtext.NewAddress] != 2 || suppressed[mailtext.SessionTheft] != 1 {
			t.Errorf("got suppressed mails %v, want two new addresses and a theft", suppressed)
		}
		f.recoverNow(t, personal.RecoverRequest{Login: "ada"})
		f.changePassword(t, c, goodPassword, otherPassword)
		f.setEmail(t, c.UserID, "other@example.com")
		f.setEmail(t, c.UserID, "ada@example.com") // for the notice of the password
		f.drain(t)
		if got := f.recipients()[10:]; len(got) != 4 {
			t.Errorf("got mails to %v, want a recovery and notices of the password and of both e-mails", got)
		}
	})
}

// Mails that strangers cause leave half of the common limit to the notices.
func TestMailLimits_StrangersLeaveNotices(t *testing.T) {
	f := requiring(t, testkit.SQLite(t))
	again := registerTaken(t, f)
	f.signInFrom(t, "ada", goodPassword, home, "")
	f.applied(t, "tagged", "ada+x@example.com")
	for i := range 30 {
		again(i)
		f.resend(t, "tagged", "")
		f.clock.Advance(30 * time.Minute)
	}
	for i := range 8 {
		again(30 + i) // in the last hour
	}
	f.drain(t)
	before := f.recipients()
	if len(before) != 15 {
		t.Errorf("got %d mails that strangers caused, want 15: %v", len(before), before)
	}
	f.stealSession(t, t.Context(), f.signInFrom(t, "ada", goodPassword, abroad, ""))
	f.drain(t)
	if got, want := f.recipients()[len(before):], []string{"ada@example.com", "ada@example.com"}; !slices.Equal(got, want) {
		t.Errorf("got mails to %v, want %v: a new address and a theft", got, want)
	}
}

// Each deletion has its mail, also if it follows another at once. One above the limit is
// suppressed, and not tried again.
func TestMailLimits_DeletionsHaveNoGap(t *testing.T) {
	f := requiring(t, testkit.SQLite(t))
	suppressed := map[mailtext.Kind]int{}
	f.service.CountSuppressedMails(func(k mailtext.Kind) { suppressed[k]++ })
	again := deleteAgain(t, f)
	before := len(f.tokens())
	for i := range 6 {
		again(i)
	}
	f.drain(t)
	f.wantNoJobs(t)
	if mails := len(f.tokens()) - before; mails != 5 || suppressed[mailtext.Deletion] != 1 {
		t.Errorf("got %d mails, suppressed %v, want 5 mails and 1 suppressed deletion", mails, suppressed)
	}
}

func TestMailLimits_AreOfTheMailbox(t *testing.T) {
	const one = "ada+one@example.com"
	for name, test := range map[string]struct {
		emails      [2]string
		own, common bool // the addresses count as one
	}{
		"another tag":         {[2]string{one, "ada+two@example.com"}, true, true},
		"an empty tag":        {[2]string{one, "ada+@example.com"}, true, true},
		"no tag":              {[2]string{one, "ada@example.com"}, false, true},
		"another case":        {[2]string{one, "ADA+ONE@Example.COM"}, true, true},
		"two tags":            {[2]string{one, "ada+one+two@example.com"}, true, true},
		"a domain in Unicode": {[2]string{"ada@xn--bcher-kva.example", "ada@BÜCHER.example"}, true, true},
		"another mailbox":     {[2]string{one, "ada2@example.com"}, false, false},
		"another domain":      {[2]string{one, "ada@example.org"}, false, false},
		"the tag as mailbox":  {[2]string{one, "one@example.com"}, false, false},
		"names that begin so": {[2]string{"+ada@example.com", "+bob@example.com"}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := requiring(t, testkit.SQLite(t))
			for i, email := range test.emails {
				f.applied(t, fmt.Sprint("user", i), email) // a verification
				f.drain(t)
			}
			if got := len(f.host.Mails()); (got == 1) != test.common {
				t.Errorf("common limit: got mails to %v, want one: %t", f.recipients(), test.common)
			}
			f = newFixture(t, testkit.SQLite(t))
			for i, email := range test.emails {
				err := f.service.ChangeEmail(t.Context(), personal.ChangeEmailRequest{
					Credentials: f.register(t, fmt.Sprint("user", i)).Credentials, Password: goodPassword, Email: email,
				})
				wantCode(t, err, "")
				f.drain(t)
			}
			if got := len(f.host.Mails()); (got == 1) != test.own {
				t.Errorf("limit of a kind: got mails to %v, want one: %t", f.recipients(), test.own)
			}
		})
	}
}

// The user of an account with a tagged form of ada's address cannot use up the limits of
// ada's recoveries and notices.
func TestMailLimits_TaggedAddressesLeaveTheUntaggedOne(t *testing.T) {
	f := newFixture(t, testkit.SQLite(t))
	ada := f.register(t, "ada").Credentials
	stranger := f.register(t, "stranger").Credentials
	f.setEmail(t, stranger.UserID, "ada+x@example.com")
	f.drain(t)
	passwords := []string{goodPassword, otherPassword}
	for i := range 8 {
		stranger = f.changePassword(t, stranger, passwords[i%2], passwords[1-i%2])
		f.recoverNow(t, personal.RecoverRequest{Login: "stranger"})
		f.clock.Advance(2 * time.Minute)
	}
	f.recoverNow(t, personal.RecoverRequest{Login: "ada"})
	f.changePassword(t, ada, goodPassword, otherPassword)
	f.drain(t)
	got := map[string]int{}
	for _, to := range f.recipients() {
		got[to]++
	}
	if want := map[string]int{"stranger@example.com": 1, "ada+x@example.com": 10, "ada@example.com": 2}; !maps.Equal(got, want) {
		t.Errorf("got mails %v, want %v", got, want)
	}
}

// Nodes share the limits.
func TestMailLimits_NodesShareThem(t *testing.T) {
	testkit.Databases(t, func(t *testing.T, url string) {
		f := newFixture(t, url)
		f.register(t, "ada")
		for range 2 {
			other, err := store.Open(t.Context(), url, store.Options{Clock: f.clock.Now})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { other.Close() })
			f.service = f.serve(other, mustHasher(t, cheap))
			f.worker.Handlers = f.service.Jobs()
			f.recoverNow(t, personal.RecoverRequest{Login: "ada"})
		}
		if got := len(f.host.Mails()); got != 1 {
			t.Errorf("got %d mails from two nodes, want one", got)
		}
	})
}
