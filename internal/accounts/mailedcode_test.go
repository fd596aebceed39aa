package accounts_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/shared/personal"
)

func mailedCodes(s *accounts.Settings) { s.MailedCode = true }

// verified registers a user whose e-mail is confirmed.
func (f *fixture) verified(t *testing.T, login string) personal.Credentials {
	t.Helper()
	in := f.register(t, login)
	f.exec(t, fmt.Sprintf("UPDATE personal_accounts SET email_verified = TRUE WHERE id = %d", in.Credentials.UserID))
	return in.Credentials
}

// withoutPassword removes the password of a user.
func (f *fixture) withoutPassword(t *testing.T, c personal.Credentials) {
	t.Helper()
	f.exec(t, fmt.Sprintf("UPDATE personal_accounts SET password_hash = '!' WHERE id = %d", c.UserID))
}

// askForCode starts an attempt to sign in.
func (f *fixture) askForCode(t *testing.T, ctx context.Context, login string) (attempt string) {
	t.Helper()
	started, err := f.service.BeginMailedCode(ctx, personal.BeginMailedCodeRequest{Login: login})
	must(t, err)
	return started.Attempt
}

var codeInMail = regexp.MustCompile(`(?m)^[0-9A-HJKMNP-TV-Z]{4}-[0-9A-HJKMNP-TV-Z]{4}$`)

// mailedCodes returns the codes of all mails, the latest last.
func (f *fixture) mailedCodes() (codes []string) {
	for _, m := range f.host.Mails() {
		if code := codeInMail.FindString(m.Text); code != "" {
			codes = append(codes, code)
		}
	}
	return codes
}

// codeFor starts an attempt to sign in and returns it with its code.
func (f *fixture) codeFor(t *testing.T, login string) (attempt, code string) {
	t.Helper()
	attempt = f.askForCode(t, t.Context(), login)
	f.drain(t)
	codes := f.mailedCodes()
	if len(codes) == 0 {
		t.Fatal("got no mail with a code")
	}
	return attempt, codes[len(codes)-1]
}

func (f *fixture) signInByCode(ctx context.Context, attempt, mailed, code string) (personal.SignedIn, error) {
	return f.service.AuthorizeMailedCode(ctx, personal.AuthorizeMailedCodeRequest{Attempt: attempt, MailedCode: mailed, Code: code})
}

// otherCode returns a code of the same form.
func otherCode(code string, n int) string {
	return fmt.Sprintf("%04d-%s", n, code[5:])
}

func TestMailedCode_SignsInOnceAndProves(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		f := offering(t, url, mailedCodes)
		f.verified(t, "ada")
		attempt, code := f.codeFor(t, "ada@example.com") // an e-mail that was typed as login
		mail := f.host.Mails()[len(f.host.Mails())-1]
		if strings.Contains(mail.Subject, code) || strings.Contains(mail.Text, attempt) || mail.To != "ada@example.com" {
			t.Errorf("got the mail %+v, want the code in its body alone, and no attempt", mail)
		}
		typed := " " + strings.ToLower(strings.NewReplacer("0", "o", "1", "l", "-", " – ").Replace(code)) + "\u200b\n"
		in, err := f.signInByCode(t.Context(), " "+attempt+"\n", typed, "")
		must(t, err)
		if in.Proof.Proof == "" || in.Profile.Login != "ada" {
			t.Errorf("got %+v, want the profile and a proof", in)
		}
		must(t, provenUses["export"](t.Context(), f.service, in.Credentials, in.Proof.Proof))
		sessions, err := f.service.Sessions(t.Context(), in.Credentials)
		must(t, err)
		if sessions[0].Method != personal.MethodMailedCode {
			t.Errorf("got the method %q", sessions[0].Method)
		}
		_, err = f.signInByCode(t.Context(), attempt, code, "")
		wantCode(t, err, personal.CodeInvalidCode)
	})
}

// All that is refused is refused alike.
func TestMailedCode_IsRefused(t *testing.T) {
	type state struct {
		f             *fixture
		in            personal.Credentials
		attempt, code string
	}
	for name, spoil := range map[string]func(t *testing.T, s *state){
		"a wrong code":                   func(_ *testing.T, s *state) { s.code = otherCode(s.code, 1) },
		"a malformed code":               func(_ *testing.T, s *state) { s.code = "U" + s.code[1:] },
		"half a code":                    func(_ *testing.T, s *state) { s.code = s.code[:4] },
		"a malformed attempt":            func(_ *testing.T, s *state) { s.attempt = "x" },
		"the attempt of another browser": func(t *testing.T, s *state) { s.attempt = s.f.askForCode(t, t.Context(), "ada") },
		"an attempt of nobody":           func(t *testing.T, s *state) { s.attempt = s.f.askForCode(t, t.Context(), "nobody") },
		"after ten minutes":              func(_ *testing.T, s *state) { s.f.clock.Advance(accounts.MailedCodeLifetime) },
		"after a change of password":     func(t *testing.T, s *state) { s.f.changePassword(t, s.in, goodPassword, otherPassword) },
		"after a change of e-mail":       func(t *testing.T, s *state) { s.f.setEmail(t, s.in.UserID, "new@example.com") },
		"after the e-mail changed twice": func(t *testing.T, s *state) {
			s.f.setEmail(t, s.in.UserID, "new@example.com")
			s.f.setEmail(t, s.in.UserID, "ada@example.com")
		},
		"after a recovery": func(t *testing.T, s *state) {
			s.f.recoverNow(t, personal.RecoverRequest{Login: "ada"})
			tokens := s.f.tokens()
			must(t, s.f.confirm(t, tokens[len(tokens)-1]))
		},
		"after a second factor was switched on": func(t *testing.T, s *state) {
			(&factor{f: s.f, in: s.in, login: "ada"}).confirm(t, t.Context())
		},
		"after it was disabled":             func(t *testing.T, s *state) { s.f.disable(t, s.in.UserID) },
		"after it was disabled and enabled": func(t *testing.T, s *state) { s.f.disable(t, s.in.UserID); s.f.enable(t, s.in.UserID) },
		"after it was deleted":              func(t *testing.T, s *state) { s.f.delete(t, s.in.UserID) },
		"after its access was reset":        func(t *testing.T, s *state) { must(t, reset(s.f.service, t.Context(), s.in.UserID)) },
		"after another code signed in": func(t *testing.T, s *state) {
			attempt, code := s.f.codeFor(t, "ada")
			_, err := s.f.signInByCode(t.Context(), attempt, code, "")
			must(t, err)
		},
		"a code that proves": func(t *testing.T, s *state) {
			started, err := s.f.service.BeginMailedCode(t.Context(), personal.BeginMailedCodeRequest{Credentials: s.in, Purpose: personal.MailedCodeProve})
			must(t, err)
			s.f.drain(t)
			codes := s.f.mailedCodes()
			s.attempt, s.code = started.Attempt, codes[len(codes)-1]
		},
	} {
		t.Run(name, func(t *testing.T) {
			testdb.Database(t, func(t *testing.T, url string) {
				f := offering(t, url, mailedCodes)
				s := &state{f: f, in: f.verified(t, "ada")}
				s.attempt, s.code = f.codeFor(t, "ada")
				spoil(t, s)
				_, err := f.signInByCode(t.Context(), s.attempt, s.code, "")
				wantCode(t, err, personal.CodeInvalidCode)
			})
		})
	}
}

// Who gets no mail gets the same response.
func TestMailedCode_IsMailedToVerifiedEmailsAlone(t *testing.T) {
	for name, c := range map[string]struct {
		make    func(t *testing.T, f *fixture)
		request personal.BeginMailedCodeRequest
	}{
		"unknown":    {func(*testing.T, *fixture) {}, personal.BeginMailedCodeRequest{Login: "ada"}},
		"unverified": {func(t *testing.T, f *fixture) { f.register(t, "ada") }, personal.BeginMailedCodeRequest{Login: "ada"}},
		"disabled": {func(t *testing.T, f *fixture) { f.disable(t, f.verified(t, "ada").UserID) },
			personal.BeginMailedCodeRequest{Login: "ada"}},
		"deleted": {func(t *testing.T, f *fixture) { f.delete(t, f.verified(t, "ada").UserID) }, personal.BeginMailedCodeRequest{Login: "ada"}},
		"reset":   {func(t *testing.T, f *fixture) { must(t, reset(f.service, t.Context(), f.verified(t, "ada").UserID)) }, personal.BeginMailedCodeRequest{Login: "ada"}},
		"two accounts": {func(t *testing.T, f *fixture) { f.verified(t, "ada"); f.verified(t, "bob") },
			personal.BeginMailedCodeRequest{Login: "ada", Email: "bob@example.com"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := offering(t, testdb.SQLite(t), mailedCodes)
			c.make(t, f)
			started, err := f.service.BeginMailedCode(t.Context(), c.request)
			must(t, err)
			f.drain(t)
			if codes := f.mailedCodes(); len(started.Attempt) != 43 || len(codes) > 0 {
				t.Errorf("got attempt %q and codes %v, want an attempt without a code", started.Attempt, codes)
			}
		})
	}
}

// An account that an attacker registered with the e-mail of another person waits for its confirmation: a code
// that this person asks for signs them into their own account or into none (GHSA-qq9h-g4jm-xgf3).
func TestMailedCode_SignsNobodyIntoAnAccountThatWaits(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		f := requiring(t, url, mailedCodes)
		f.applied(t, "mallory", "ada@example.com")
		for _, login := range []string{"ada@example.com", "mallory"} {
			f.askForCode(t, t.Context(), login)
		}
		f.drain(t)
		if codes := f.mailedCodes(); len(codes) > 0 {
			t.Errorf("got codes %v, want none", codes)
		}
	})
}

func TestMailedCode_NeedsTheSecondFactor(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		f := offering(t, url, mailedCodes)
		u := f.enrol(t, "ada")
		f.exec(t, "UPDATE personal_accounts SET email_verified = TRUE")
		attempt, code := f.codeFor(t, "ada")
		for range 2 * 5 { // they use up neither the mailed code nor its guesses
			_, err := f.signInByCode(t.Context(), attempt, code, "")
			wantCode(t, err, personal.CodeCodeRequired)
		}
		for range 6 {
			_, err := f.signInByCode(t.Context(), attempt, code, "000000")
			wantCode(t, err, personal.CodeInvalidCode)
		}
		_, err := f.signInByCode(t.Context(), attempt, otherCode(code, 1), u.next())
		wantCode(t, err, personal.CodeInvalidCode)
		in, err := f.signInByCode(t.Context(), attempt, code, u.recoveryCode())
		must(t, err)
		must(t, provenUses["export"](t.Context(), f.service, in.Credentials, in.Proof.Proof))
		for _, name := range []string{"two_factor_remove", "two_factor_codes"} { // they ask for a code again
			if err := provenUses[name](t.Context(), f.service, in.Credentials, in.Proof.Proof); !isWrongProof(err) {
				t.Errorf("%s: got %v, want the field error mismatch of proof", name, err)
			}
		}
	})
}

// Whether or not an attempt has a code, five wrong ones are judged, also at the same time and without limits.
func TestMailedCode_FiveWrongOnesVoidIt(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		f := offering(t, url, mailedCodes)
		f.verified(t, "ada")
		attempt, code := f.codeFor(t, "ada")
		var guesses sync.WaitGroup
		for i := range 20 {
			guesses.Go(func() {
				_, err := f.signInByCode(t.Context(), attempt, otherCode(code, i), "")
				wantCode(t, err, personal.CodeInvalidCode)
			})
		}
		guesses.Wait()
		f.clock.Advance(accounts.MailedCodeLifetime - time.Second)
		_, err := f.signInByCode(t.Context(), attempt, code, "")
		wantCode(t, err, personal.CodeInvalidCode)

		attempt, code = f.codeFor(t, "ada")
		for i := range 4 {
			_, err := f.signInByCode(t.Context(), attempt, otherCode(code, i), "")
			wantCode(t, err, personal.CodeInvalidCode)
		}
		_, err = f.signInByCode(t.Context(), attempt, code, "")
		must(t, err)
	})
}

// Strangers who ask for codes, and who try attempts of their own, keep no code from the user.
func TestMailedCode_StrangersDoNotDelayTheUsers(t *testing.T) {
	f, _ := guarded(t, testdb.SQLite(t))
	f.settings.MailedCode = true
	f.settings.Throttle.Recover.Burst, f.settings.Throttle.RecoverAll.Burst = 100, 100000
	f.settings.Throttle.Confirm.Burst = 100
	f.service = f.serve(f.store, mustHasher(t, cheap))
	f.worker.Handlers = f.service.Jobs()
	c := f.verified(t, "ada")
	f.knowAddress(t, c.UserID, home)
	f.clock.Advance(25 * time.Hour)
	for i := range 300 {
		ctx := at(t, fmt.Sprintf("10.%d.%d.1", i/200, i%200))
		attempt := f.askForCode(t, ctx, "ada")
		if i%10 == 0 {
			_, err := f.signInByCode(ctx, attempt, "0000-0000", "")
			wantCode(t, err, personal.CodeInvalidCode)
		}
	}
	f.drain(t)
	before := len(f.mailedCodes())
	if before != 20 { // of all networks together, within an hour
		t.Errorf("got %d mails to strangers, want 20", before)
	}
	attempt := f.askForCode(t, at(t, home), "ada")
	f.drain(t)
	codes := f.mailedCodes()
	if len(codes) != before+1 {
		t.Fatalf("got %d mails to the user, want 1", len(codes)-before)
	}
	_, err := f.signInByCode(at(t, home), attempt, codes[len(codes)-1], "")
	must(t, err)
	f.recoverNow(t, personal.RecoverRequest{Login: "ada"}) // mails with codes count for no other budget
	if len(f.tokens()) != 1 {
		t.Errorf("got %d mails to recover, want 1", len(f.tokens()))
	}
}

func TestMailedCode_ChargesAsTheContractSays(t *testing.T) {
	f, _ := guarded(t, testdb.SQLite(t))
	f.settings.MailedCode = true
	f.service = f.serve(f.store, mustHasher(t, cheap))
	ask := func() error {
		_, err := f.service.BeginMailedCode(at(t, abroad), personal.BeginMailedCodeRequest{Login: "nobody"})
		return err
	}
	for range f.settings.Throttle.Recover.Burst {
		must(t, ask())
	}
	wantCode(t, ask(), personal.CodeTooManyAttempts)
	wantCode(t, f.service.Recover(at(t, abroad), personal.RecoverRequest{Login: "nobody"}), personal.CodeTooManyAttempts)
	try := func() error {
		_, err := f.signInByCode(at(t, abroad), "x", "x", "")
		return err
	}
	for range f.settings.Throttle.Confirm.Burst {
		wantCode(t, try(), personal.CodeInvalidCode)
	}
	wantCode(t, try(), personal.CodeTooManyAttempts)
}

// Whoever guesses the password of a user keeps them from no proof by a mailed code.
func TestMailedCode_ProvesAlthoughGuessesAreUsedUp(t *testing.T) {
	f, _ := guarded(t, testdb.SQLite(t))
	f.settings.MailedCode = true
	f.service = f.serve(f.store, mustHasher(t, cheap))
	f.worker.Handlers = f.service.Jobs()
	in := f.verified(t, "ada")
	f.guessFromEverywhere(t, "ada")
	started, err := f.service.BeginMailedCode(at(t, abroad), personal.BeginMailedCodeRequest{Credentials: in, Purpose: personal.MailedCodeProve})
	must(t, err)
	f.drain(t)
	r := personal.ProveRequest{Credentials: in, Attempt: started.Attempt, MailedCode: f.mailedCodes()[0]}
	_, err = f.service.Prove(at(t, abroad), r)
	must(t, err)
	r.MailedCode = "0000-0000"
	for range f.settings.Throttle.Confirm.Burst - 1 {
		_, err = f.service.Prove(at(t, abroad), r)
		wantCode(t, err, personal.CodeValidationFailed)
	}
	_, err = f.service.Prove(at(t, abroad), r)
	wantCode(t, err, personal.CodeTooManyAttempts)
}

func TestMailedCode_SettingIsAboutSignInsAndPasswords(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		f := offering(t, url)
		in := f.verified(t, "ada")
		_, err := f.service.BeginMailedCode(t.Context(), personal.BeginMailedCodeRequest{Login: "ada"})
		wantCode(t, err, personal.CodeNotFound)
		_, err = f.signInByCode(t.Context(), "x", "x", "")
		wantCode(t, err, personal.CodeNotFound)
		prove := func(in personal.Credentials) error {
			started, err := f.service.BeginMailedCode(t.Context(), personal.BeginMailedCodeRequest{
				Credentials: in, Purpose: personal.MailedCodeProve, Login: "ignored", Email: "ignored",
			})
			if err != nil || started.Attempt == "" {
				t.Fatalf("got %+v, %v, want an attempt", started, err)
			}
			f.drain(t)
			codes := f.mailedCodes()
			if len(codes) == 0 {
				return nil
			}
			p, err := f.service.Prove(t.Context(), personal.ProveRequest{Credentials: in, Attempt: started.Attempt, MailedCode: codes[len(codes)-1]})
			must(t, err)
			return provenUses["password"](t.Context(), f.service, in, p.Proof)
		}
		if must(t, prove(in)); len(f.mailedCodes()) > 0 {
			t.Error("got a code for an account with a password")
		}
		f.withoutPassword(t, in)
		if must(t, prove(in)); len(f.mailedCodes()) != 1 {
			t.Error("got no code for an account without a password")
		}
		_, err = f.signIn("ada", otherPassword) // the first password
		must(t, err)
	})
}

func TestMailedCode_ProvesForItsAccountAlone(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		f := offering(t, url, mailedCodes)
		f.verified(t, "ada")
		ada, err := f.signIn("ada", goodPassword)
		must(t, err)
		bob := f.verified(t, "bob")
		started, err := f.service.BeginMailedCode(t.Context(), personal.BeginMailedCodeRequest{
			Credentials: ada.Credentials, Purpose: personal.MailedCodeProve,
		})
		must(t, err)
		f.drain(t)
		code := f.mailedCodes()[0]
		prove := func(c personal.Credentials, r personal.ProveRequest) error {
			r.Credentials = c
			_, err := f.service.Prove(t.Context(), r)
			return err
		}
		wrong := func(err error, parameter string) {
			t.Helper()
			if e := fieldErrors(err); len(e) != 1 || e[parameter] == "" {
				t.Errorf("got %v, want one field error of %s", err, parameter)
			}
		}
		wrong(prove(bob, personal.ProveRequest{Attempt: started.Attempt, MailedCode: code}), "mailed_code")
		wrong(prove(ada.Credentials, personal.ProveRequest{Attempt: started.Attempt, MailedCode: otherCode(code, 1)}), "mailed_code")
		wrong(prove(ada.Credentials, personal.ProveRequest{MailedCode: code}), "attempt")
		wrong(prove(ada.Credentials, personal.ProveRequest{Attempt: started.Attempt, MailedCode: code, Password: goodPassword}), "mailed_code")
		signIn, mailed := f.codeFor(t, "ada")
		wrong(prove(ada.Credentials, personal.ProveRequest{Attempt: signIn, MailedCode: mailed}), "mailed_code")
		later, err := f.signIn("ada", goodPassword) // a code to prove is good for any session of the account
		must(t, err)
		must(t, prove(later.Credentials, personal.ProveRequest{Attempt: started.Attempt, MailedCode: code}))
		wrong(prove(later.Credentials, personal.ProveRequest{Attempt: started.Attempt, MailedCode: code}), "mailed_code")
		_, err = f.service.BeginMailedCode(t.Context(), personal.BeginMailedCodeRequest{Purpose: personal.MailedCodeProve})
		wantCode(t, err, personal.CodeUnauthenticated)
		_, err = f.service.BeginMailedCode(t.Context(), personal.BeginMailedCodeRequest{Purpose: "other", Login: "ada"})
		wrong(err, "purpose")
	})
}

func TestMailedCode_ProvesWithTheSecondFactor(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		f := offering(t, url)
		u := f.enrol(t, "ada")
		f.exec(t, "UPDATE personal_accounts SET email_verified = TRUE, password_hash = '!'")
		started, err := f.service.BeginMailedCode(t.Context(), personal.BeginMailedCodeRequest{Credentials: u.in, Purpose: personal.MailedCodeProve})
		must(t, err)
		f.drain(t)
		r := personal.ProveRequest{Credentials: u.in, Attempt: started.Attempt, MailedCode: f.mailedCodes()[0]}
		_, err = f.service.Prove(t.Context(), r)
		if e := fieldErrors(err); e["code"] != personal.FieldErrorRequired {
			t.Errorf("got %v, want that a code is required", err)
		}
		r.Code = u.recoveryCode()
		p, err := f.service.Prove(t.Context(), r)
		must(t, err)
		must(t, provenUses["two_factor_codes"](t.Context(), f.service, u.in, p.Proof))
	})
}

// Another try of a mail has the same code, with the same end. A mail that is late for that is not sent.
func TestMailedCode_AnotherTryOfItsMailHasTheSameCode(t *testing.T) {
	f := offering(t, testdb.SQLite(t), mailedCodes)
	f.verified(t, "ada")
	var tried []string
	f.host.SendMailFunc = func(_ context.Context, m personal.Mail) error {
		if tried = append(tried, codeInMail.FindString(m.Text)); len(tried) < 3 {
			return errors.New("the relay is busy")
		}
		return nil
	}
	attempt := f.askForCode(t, t.Context(), "ada")
	for range 3 {
		f.drain(t)
		f.clock.Advance(3 * time.Minute)
	}
	codes := f.mailedCodes()
	if len(codes) != 1 || !slices.Equal(tried, []string{codes[0], codes[0], codes[0]}) {
		t.Fatalf("got codes %v of tries %v, want the same one", codes, tried)
	}
	if text := f.host.Mails()[0].Text; !strings.Contains(text, "for 4 minutes") {
		t.Errorf("got the mail %q, want that it says what is left", text)
	}
	f.clock.Advance(time.Minute - time.Microsecond)
	_, err := f.signInByCode(t.Context(), attempt, codes[0], "")
	must(t, err)

	f.askForCode(t, t.Context(), "ada")
	f.clock.Advance(accounts.MailedCodeLifetime)
	f.drain(t)
	if got := f.mailedCodes(); len(got) != 1 {
		t.Errorf("got codes %v, want none that has ended", got)
	}
}

// Who reads the database while an attempt of their own waits does not learn its code: the digest depends on the
// login key, which the secret key encrypts.
func TestMailedCode_DigestDependsOnTheSecretKey(t *testing.T) {
	f := offering(t, testdb.SQLite(t), mailedCodes)
	must(t, f.service.ReadKeys(t.Context(), true))
	if !f.service.HasLoginKey() {
		t.Fatal("got no login key")
	}
	f.verified(t, "ada")
	attempt, code := f.codeFor(t, "ada")
	other := f.serve(f.store, mustHasher(t, cheap)) // a node that has not read it
	_, err := other.AuthorizeMailedCode(t.Context(), personal.AuthorizeMailedCodeRequest{Attempt: attempt, MailedCode: code})
	wantCode(t, err, personal.CodeInvalidCode)
	_, err = f.signInByCode(t.Context(), attempt, code, "")
	must(t, err)
}

func TestMailedCode_ExplainSaysThatItSignsIn(t *testing.T) {
	f := offering(t, testdb.SQLite(t), mailedCodes)
	f.withoutPassword(t, f.verified(t, "ada"))
	e, err := f.service.Explain(t.Context(), personal.ExplainRequest{Login: "ada"})
	must(t, err)
	var reasons []personal.Reason
	for _, v := range e.Verdicts {
		reasons = append(reasons, v.Reason)
	}
	if !slices.Contains(reasons, personal.ReasonMailedCode) || slices.Contains(reasons, personal.ReasonNoPassword) {
		t.Errorf("got %v, want mailed_code, and no no_password", reasons)
	}
}
