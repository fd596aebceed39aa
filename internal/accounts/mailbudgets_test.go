package accounts_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/mailtext"
	"github.com/cms-personal/personal/internal/testkit/testdb"
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

func askForCodes(t *testing.T, f *fixture) func(int) {
	f.settings.MailedCode = true
	f.service = f.serve(f.store, mustHasher(t, cheap))
	f.worker.Handlers = f.service.Jobs()
	f.verified(t, "ada")
	return func(int) { f.askForCode(t, t.Context(), "ada") }
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
	if err := f.verifyAs(t, f.tokens()[0], "ada"); err != nil {
		t.Fatal(err)
	}
	return func(i int) { f.applied(t, fmt.Sprint("user", i), "ada@example.com") }
}

// deleteAgain deletes an account that an administrator enables each time.
func deleteAgain(t *testing.T, f *fixture) func(int) {
	f.applied(t, "ada", "ada@example.com")
	f.drain(t)
	if err := f.verifyAs(t, f.tokens()[0], "ada"); err != nil {
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
		if _, err := f.service.CreateUser(t.Context(), personal.CreateUserRequest{Login: "ada", Email: "ada@example.com",
			Invite: true}); err != nil {
			t.Fatal(err)
		}
	}
}

// noticeAgain stores notices as the operations of second factors and passkeys do: a code or
// credential for each would take longer.
func noticeAgain(kind mailtext.Kind) flood {
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

func TestMailBudgets_NoOperationFloodsAnAddress(t *testing.T) {
	t.Parallel()
	type peaks map[time.Duration]int // the most mails within a period
	recoveries, strangers := peaks{time.Hour: 5, 24 * time.Hour: 97}, peaks{time.Minute: 2, time.Hour: 5, 24 * time.Hour: 15}
	notices, half := peaks{time.Hour: 11, 24 * time.Hour: 21}, peaks{time.Hour: 6, 24 * time.Hour: 11} // the first one is beyond the budget
	administrators := peaks{time.Hour: 10, 24 * time.Hour: 30}
	type row struct {
		kind  mailtext.Kind
		open  func(testing.TB, string, ...func(*accounts.Settings)) *fixture
		flood flood
		tries int
		every time.Duration
		want  peaks
	}
	rows := map[string]row{
		"recoveries":                       {mailtext.Recovery, newFixture, recoverAgain, 200, 450 * time.Second, recoveries},
		"changes to the address":           {mailtext.EmailChange, newFixture, changeToAddress, 48, 5 * time.Minute, strangers},
		"changes from the address":         {mailtext.EmailChanged, newFixture, changeFromAddress, 48, 5 * time.Minute, administrators},
		"invitations":                      {mailtext.Invitation, newFixture, inviteAgain, 48, 5 * time.Minute, administrators},
		"refused codes":                    {mailtext.CodeRefused, newFixture, noticeAgain(mailtext.CodeRefused), 36, 5 * time.Minute, half},
		"deletions":                        {mailtext.Deletion, requiring, deleteAgain, 36, 5 * time.Minute, peaks{time.Hour: 5, 24 * time.Hour: 10}},
		"verifications of an account":      {mailtext.Verification, requiring, verifyAgain, 48, 5 * time.Minute, peaks{time.Minute: 1, time.Hour: 5, 24 * time.Hour: 15}},
		"registrations":                    {mailtext.Verification, requiring, registerAgain, 48, 5 * time.Minute, strangers},
		"registrations of a taken address": {mailtext.RegistrationAttempt, requiring, registerTaken, 150, 10 * time.Minute, peaks{time.Hour: 5, 24 * time.Hour: 15}},
		"sign-ins from everywhere":         {mailtext.NewAddress, newFixture, signInEverywhere, 36, 5 * time.Minute, half},
		"mailed codes":                     {mailtext.SignInCode, newFixture, askForCodes, 200, 2 * time.Minute, peaks{time.Hour: 20, 24 * time.Hour: 60}},
	}
	others := map[mailtext.Kind]bool{}
	for _, d := range mailtext.Descriptions() {
		others[d.Kind] = true
	}
	for _, r := range rows {
		delete(others, r.kind)
	}
	for kind := range others {
		rows["notices "+string(kind)] = row{kind, newFixture, noticeAgain(kind), 36, 5 * time.Minute, notices}
	}
	for name, test := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := test.open(t, testdb.SQLite(t))
			try := test.flood(t, f)
			subject, _, _, err := mailtext.BuiltIn().Write(test.kind, "", mailtext.Letter{})
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

// A thief's sign-ins from everywhere use up half of the notices. The first one of each kind
// is sent whatever was before it.
func TestMailBudgets_NewAddressesLeaveTheOthers(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		f := newFixture(t, url)
		suppressed := map[mailtext.Kind]int{}
		f.service.CountSuppressedMails(func(k mailtext.Kind) { suppressed[k]++ })
		again := signInEverywhere(t, f)
		for i := range 12 {
			again(i)
		}
		f.drain(t)
		if got := len(f.host.Mails()); got != 6 || suppressed[mailtext.NewAddress] != 6 {
			t.Fatalf("got %d mails, suppressed %v, want half of 12", got, suppressed)
		}
		c := f.signInFrom(t, "ada", goodPassword, home, "")
		passwords := []string{goodPassword, otherPassword}
		for i := range 8 { // the first, and five of ten
			c = f.changePassword(t, c, passwords[i%2], passwords[1-i%2])
		}
		f.stealSession(t, t.Context(), f.signInFrom(t, "ada", goodPassword, home, ""))
		f.recoverNow(t, personal.RecoverRequest{Login: "ada"})
		if got := len(f.host.Mails()); got != 6+6+1+1 || suppressed[mailtext.PasswordChanged] != 2 {
			t.Errorf("got %d mails, suppressed %v, want six notices of the password, one of a theft, and a recovery", got, suppressed)
		}
	})
}

func TestMailBudgets_OfStrangersAreOfTheMailbox(t *testing.T) {
	const one = "ada+one@example.com"
	for name, test := range map[string]struct {
		emails [2]string
		shared bool
	}{
		"another tag":         {[2]string{one, "ada+two@example.com"}, true},
		"an empty tag":        {[2]string{one, "ada+@example.com"}, true},
		"no tag":              {[2]string{one, "ada@example.com"}, true},
		"another case":        {[2]string{one, "ADA+ONE@Example.COM"}, true},
		"two tags":            {[2]string{one, "ada+one+two@example.com"}, true},
		"a domain in Unicode": {[2]string{"ada@xn--bcher-kva.example", "ada@BÜCHER.example"}, true},
		"another mailbox":     {[2]string{one, "ada2@example.com"}, false},
		"another domain":      {[2]string{one, "ada@example.org"}, false},
		"the tag as mailbox":  {[2]string{one, "one@example.com"}, false},
		"names that begin so": {[2]string{"+ada@example.com", "+bob@example.com"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := requiring(t, testdb.SQLite(t))
			for i := range 6 {
				f.applied(t, fmt.Sprint("user", i), test.emails[i/5]) // a verification
			}
			f.drain(t)
			if got := len(f.host.Mails()); (got == 5) != test.shared {
				t.Errorf("got mails to %v, want five of six: %t", f.recipients(), test.shared)
			}
		})
	}
}

// A confirmed address with a tag has its own budget, which the mails to the mailbox
// without the tag leave alone, and neither do accounts with other tags use it up.
func TestMailBudgets_ConfirmedTagHasItsOwn(t *testing.T) {
	f := newFixture(t, testdb.SQLite(t), optional)
	register := func(login, email string) personal.Credentials {
		t.Helper()
		in, err := f.apply(t.Context(), login, email)
		wantCode(t, err, "")
		f.drain(t)
		return in.Credentials
	}
	tagged := register("tagged", "ada+x@example.com")
	wantCode(t, f.verify(t, f.tokens()[0]), "")
	register("ada", "ada@example.com")
	for i := range 6 {
		register(fmt.Sprint("stranger", i), fmt.Sprintf("ada+%d@example.com", i))
	}
	for _, login := range []string{"ada", "ada", "ada", "tagged", "tagged", "tagged"} {
		f.recoverNow(t, personal.RecoverRequest{Login: login})
	}
	tagged = f.changePassword(t, tagged, goodPassword, otherPassword)
	// The notice of a change of the address goes to the former one, which was confirmed.
	wantCode(t, f.service.ChangeEmail(t.Context(), personal.ChangeEmailRequest{Credentials: tagged, Password: otherPassword,
		Email: "new@example.org"}), "")
	f.drain(t)
	tokens := f.tokens()
	wantCode(t, f.verify(t, tokens[len(tokens)-1]), "")
	f.drain(t)
	got := map[string]int{}
	for _, to := range f.recipients() {
		got[to]++
	}
	if got["ada+x@example.com"] != 1+2+1+1 || got["ada@example.com"] != 1+2 {
		t.Errorf("got mails %v, want to the tagged address a verification, two recoveries and two notices, to the other one a verification and two recoveries", got)
	}
}

// knowAddress makes an address fully known to an account, since two days ago.
func (f *fixture) knowAddress(t *testing.T, id int64, address string) {
	t.Helper()
	f.exec(t, fmt.Sprintf(`INSERT INTO personal_known_addresses (account_id, address, seen, since, credential_version, email_key)
		SELECT id, '%s', %d, %d, credential_version, email_key FROM personal_accounts WHERE id = %d
		ON CONFLICT (account_id, address) DO UPDATE SET since = excluded.since, credential_version = excluded.credential_version, email_key = excluded.email_key`,
		address, f.clock.Now().UnixMicro(), f.clock.Now().Add(-48*time.Hour).UnixMicro(), id))
}

// recoverFrom requests a recovery from an address and returns how many mails it caused.
func (f *fixture) recoverFrom(t *testing.T, address, login string) int {
	t.Helper()
	before := len(f.host.Mails())
	wantCode(t, f.service.Recover(at(t, address), personal.RecoverRequest{Login: login}), "")
	f.drain(t)
	return len(f.host.Mails()) - before
}

// For an hour, the neighbours of the owner do all that strangers can do. Only notices need
// an own budget.
func TestMailBudgets_OwnerAtAKnownAddressGetsEveryRecoveryAndNotice(t *testing.T) {
	for email, own := range map[string]bool{"ada@example.com": true, "ada+home@example.com": false} {
		testdb.Database(t, func(t *testing.T, url string) {
			f := newFixture(t, url, optional)
			_, err := f.apply(at(t, home), "ada", email)
			wantCode(t, err, "")
			f.clock.Advance(24 * time.Hour)
			ada := f.signInFrom(t, "ada", goodPassword, home, "")
			f.drain(t)
			for i := range 30 {
				neighbour := fmt.Sprint("203.0.113.", 2+i)
				f.recoverFrom(t, neighbour, "ada")
				login := fmt.Sprint("stranger", i)
				other, err := f.apply(at(t, neighbour), login, fmt.Sprintf("ada+%d@example.com", i))
				wantCode(t, err, "")
				f.recoverFrom(t, neighbour, login)
				f.changePassword(t, other.Credentials, goodPassword, otherPassword)
				if i%15 == 14 {
					if got := f.recoverFrom(t, home, "ada"); got != 1 {
						t.Errorf("after %d rounds: got %d mails for a recovery of the owner, want one", i+1, got)
					}
				}
				f.clock.Advance(2 * time.Minute)
			}
			if !own {
				return
			}
			before := len(f.host.Mails())
			f.stealSession(t, t.Context(), f.signInFrom(t, "ada", goodPassword, abroad, ""))
			f.changePassword(t, ada, goodPassword, otherPassword)
			f.drain(t)
			if got := len(f.host.Mails()) - before; got != 3 {
				t.Errorf("got %d notices to the owner, want a new address, a theft and a password", got)
			}
		})
	}
}

// Administrators have their own budget, which no other caller uses up, and their address
// is in no mail.
func TestMailBudgets_AdministratorsHaveTheirOwn(t *testing.T) {
	f := newFixture(t, testdb.SQLite(t), optional)
	id := f.register(t, "ada").Credentials.UserID
	f.drain(t)
	before := len(f.host.Mails())
	for range 8 {
		f.recoverNow(t, personal.RecoverRequest{Login: "ada"})
		f.resend(t, "ada", "")
	}
	if got := len(f.host.Mails()) - before; got != 2 {
		t.Fatalf("got %d mails that strangers caused, want two recoveries", got)
	}
	ctx := personal.WithCall(t.Context(), personal.Call{Administrator: "root", Address: netip.MustParseAddr(abroad)})
	for range 4 {
		wantCode(t, f.service.Recover(ctx, personal.RecoverRequest{Login: "ada"}), "")
		wantCode(t, f.service.ResendVerification(ctx, personal.ResendVerificationRequest{Login: "ada"}), "")
		wantCode(t, f.service.SetEmail(ctx, personal.SetEmailRequest{UserID: id, Email: "ada+x@example.com"}), "")
		wantCode(t, f.service.SetEmail(ctx, personal.SetEmailRequest{UserID: id, Email: "ada@example.com"}), "")
		f.drain(t)
	}
	mails := f.host.Mails()[before+2:]
	if len(mails) != 10 {
		t.Errorf("got %d mails that administrators caused, want ten in an hour", len(mails))
	}
	for _, m := range mails {
		if strings.Contains(m.Text, abroad) {
			t.Errorf("got the address of an administrator in a mail:\n%s", m.Text)
		}
	}
}
