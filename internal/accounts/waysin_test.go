package accounts_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/store/dbconn"
	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest/softkey"
)

// takeOver is an account whose password a thief has. They have opened a session and added a passkey and
// their own identity, and have read a mailed code. Its second factor, if any, is the owner's or the thief's.
type takeOver struct {
	f        *fixture
	id       int64
	owner    personal.Credentials // zero: the owner has no session
	thief    personal.Credentials
	device   *softkey.Authenticator
	factor   *factor // nil: there is none
	thiefs   bool    // the factor is the thief's
	password string  // the owner's

	attempt, code string // of a mailed code that the thief has asked for, and read
}

// What becomes of an attempt of the thief, with all that they have.
const (
	gone    = "-"    // refused
	blocked = "code" // refused until the code of a second factor that they do not have
	in      = "in"
)

// way is a way into an account: the methods of the sessions that it opens, and an attempt.
type way struct {
	name    string
	methods []string
	try     func(t *testing.T, c *takeOver, code string) error
}

// waysIn are all ways in.
var waysIn = []way{
	{"password", []string{personal.MethodPassword, personal.MethodRegistration}, func(t *testing.T, c *takeOver, code string) error {
		_, err := c.f.service.Authorize(t.Context(), personal.AuthorizeRequest{Login: "ada", Password: goodPassword, Code: code})
		return err
	}},
	{"passkey", []string{personal.MethodPasskey}, func(t *testing.T, c *takeOver, code string) error {
		_, err := (&passkeyUser{f: c.f, device: c.device}).signIn(t, t.Context(), code)
		return err
	}},
	{"identity", []string{method}, func(t *testing.T, c *takeOver, code string) error {
		_, err := c.f.service.SignIn(t.Context(), personal.SignInRequest{Identity: subject("thief"), Method: method, Code: code})
		return err
	}},
	{"mailed code", []string{personal.MethodMailedCode}, func(t *testing.T, c *takeOver, code string) error {
		_, err := c.f.signInByCode(t.Context(), c.attempt, c.code, code)
		return err
	}},
}

// remedies are all operations against a take-over. Each is called with the means of its actor, and
// reports whether that was possible. remains is what it leaves to the thief, in the order of waysIn and
// then their session, without a factor, with that of the owner, and with that of the thief; "": impossible.
var remedies = []struct {
	name    string
	by      personal.OperationName // what it shows; "": several operations
	do      func(t *testing.T, c *takeOver) bool
	remains [3]string
}{
	{"password", personal.OpChangePassword, func(t *testing.T, c *takeOver) bool { return c.changePassword(t, false) },
		[3]string{"- in in - -", "- code code - -", ""}},
	{"password with remove_other_ways_in", personal.OpChangePassword, func(t *testing.T, c *takeOver) bool { return c.changePassword(t, true) },
		[3]string{"- - - - -", "- - - - -", ""}},
	{"recovery", personal.OpRecoverConfirm, func(t *testing.T, c *takeOver) bool {
		c.f.recoverNow(t, personal.RecoverRequest{Login: "ada"})
		return c.recover(t)
	}, [3]string{"- - - - -", "- - - - -", "- - - - -"}},
	{"disabling", personal.OpDisableUser, administrators(func(s *accounts.Service, ctx context.Context, id int64) error {
		return s.DisableUser(ctx, id)
	}), [3]string{"- - - - -", "- - - - -", "- - - - -"}},
	{"disabling and enabling", personal.OpEnableUser, administrators(func(s *accounts.Service, ctx context.Context, id int64) error {
		if err := s.DisableUser(ctx, id); err != nil {
			return err
		}
		return s.EnableUser(ctx, id)
	}), [3]string{"in in in - -", "code code code - -", "in in in - -"}},
	{"removal of the factor", personal.OpRemoveTwoFactor, administrators(func(s *accounts.Service, ctx context.Context, id int64) error {
		return s.RemoveTwoFactor(ctx, personal.RemoveTwoFactorRequest{UserID: id})
	}), [3]string{"in in in in in", "in - - - -", "in - - - -"}},
	{"removal of the factor alone", personal.OpRemoveTwoFactor, administrators(func(s *accounts.Service, ctx context.Context, id int64) error {
		return s.RemoveTwoFactor(ctx, personal.RemoveTwoFactorRequest{UserID: id, KeepOtherWaysIn: true})
	}), [3]string{"in in in in in", "in in in - -", "in in in - -"}},
	{"removal of other ways in", personal.OpRemoveOtherWaysIn, administrators(func(s *accounts.Service, ctx context.Context, id int64) error {
		return s.RemoveOtherWaysIn(ctx, id)
	}), [3]string{"in - - in in", "code - - code -", "in - - in in"}},
	{"unlinking", personal.OpUnlinkIdentity, administrators(func(s *accounts.Service, ctx context.Context, id int64) error {
		return s.UnlinkIdentity(ctx, personal.UnlinkIdentityRequest{Identity: subject("thief"), UserID: id})
	}), [3]string{"in in - in in", "code code - code -", "in in - in in"}},
	{"sign-out", personal.OpRevokeUserSessions, administrators(func(s *accounts.Service, ctx context.Context, id int64) error {
		return s.RevokeUserSessions(ctx, id)
	}), [3]string{"in in in in -", "code code code code -", "in in in in -"}},
	{"end of the session", personal.OpRevokeUserSession, func(t *testing.T, c *takeOver) bool {
		list, err := c.f.service.UserSessions(t.Context(), c.id)
		must(t, err)
		for _, s := range list {
			must(t, c.f.service.RevokeUserSession(t.Context(), personal.RevokeUserSessionRequest{UserID: c.id, ID: s.ID}))
		}
		return true
	}, [3]string{"in in in in -", "code code code code -", "in in in in -"}},
	{"another e-mail", personal.OpSetEmail, administrators(func(s *accounts.Service, ctx context.Context, id int64) error {
		return s.SetEmail(ctx, personal.SetEmailRequest{UserID: id, Email: "ada@new.example"})
	}), [3]string{"in in in - in", "code code code - -", "in in in - in"}},
	{"deletion", personal.OpDeleteUser, administrators(func(s *accounts.Service, ctx context.Context, id int64) error {
		return s.DeleteUser(ctx, id)
	}), [3]string{"- - - - -", "- - - - -", "- - - - -"}},
	{"reset", personal.OpResetAccess, administrators(reset), [3]string{"- - - - -", "- - - - -", "- - - - -"}},
	{"reset and its recovery", "", func(t *testing.T, c *takeOver) bool {
		must(t, reset(c.f.service, t.Context(), c.id))
		c.f.drain(t)
		return c.recover(t)
	}, [3]string{"- - - - -", "- - - - -", "- - - - -"}},
	{"incident-response.md", "", followPage, [3]string{"- - - - -", "- - - - -", "- - - - -"}},
}

// noRemedies are operations on a user that change no way in, or add one.
var noRemedies = []personal.OperationName{personal.OpUpdateUser, personal.OpSignIn, personal.OpLinkIdentity}

// administrators returns the remedy that is an operation of an administrator.
func administrators(operation func(s *accounts.Service, ctx context.Context, id int64) error) func(*testing.T, *takeOver) bool {
	return func(t *testing.T, c *takeOver) bool {
		must(t, operation(c.f.service, t.Context(), c.id))
		return true
	}
}

func reset(s *accounts.Service, ctx context.Context, id int64) error {
	return s.ResetAccess(ctx, personal.ResetAccessRequest{UserID: id, Email: "ada@new.example"})
}

// followPage does what docs/incident-response.md says of an account that was taken over, command by
// command, and then what the mail says.
func followPage(t *testing.T, c *takeOver) bool {
	page, err := os.ReadFile("../../docs/incident-response.md")
	must(t, err)
	_, section, found := strings.Cut(string(page), "\n## An account was taken over\n")
	section, _, _ = strings.Cut(section, "\n## ")
	commands := regexp.MustCompile(`bin/personal user ([a-z-]+) `).FindAllStringSubmatch(section, -1)
	if !found || len(commands) == 0 {
		t.Fatal("incident-response.md has no commands for an account that was taken over")
	}
	verbs := map[string]func(*accounts.Service, context.Context, int64) error{
		"disable": (*accounts.Service).DisableUser,
		"reset":   reset,
	}
	for _, command := range commands {
		do, known := verbs[command[1]]
		if !known {
			t.Fatalf("incident-response.md says user %s, which this test cannot do", command[1])
		}
		must(t, do(c.f.service, t.Context(), c.id))
	}
	c.f.drain(t)
	return c.recover(t)
}

// changePassword is done by the owner, if they can.
func (c *takeOver) changePassword(t *testing.T, removing bool) bool {
	if c.owner == (personal.Credentials{}) {
		return false
	}
	r := personal.ChangePasswordRequest{Credentials: c.owner, OldPassword: goodPassword, Password: otherPassword, ConfirmPassword: otherPassword,
		RemoveOtherWaysIn: removing}
	if c.factor != nil {
		r.Code = c.factor.next()
	}
	_, err := c.f.service.ChangePassword(t.Context(), r)
	must(t, err)
	c.password = otherPassword
	return true
}

// recover completes a recovery with the last mailed token.
func (c *takeOver) recover(t *testing.T) bool {
	tokens := c.f.tokens()
	_, err := c.f.service.RecoverConfirm(t.Context(), personal.RecoverConfirmRequest{
		Token: tokens[len(tokens)-1], Password: otherPassword, ConfirmPassword: otherPassword,
	})
	must(t, err)
	c.password = otherPassword
	return true
}

// takenOver returns an account with the factor of the "owner" or the "thief", or with none ("nobody").
func takenOver(t *testing.T, factorOf string) *takeOver {
	f := withPasskeys(t, testdb.SQLite(t), mailedCodes)
	c := &takeOver{f: f, owner: f.verified(t, "ada"), password: goodPassword}
	c.id = c.owner.UserID
	c.thief = f.signInFrom(t, "ada", goodPassword, abroad, "")
	p := &passkeyUser{f: f, in: c.thief}
	p.add(t, t.Context(), "")
	c.device = p.device
	must(t, f.service.LinkIdentity(t.Context(), personal.LinkIdentityRequest{
		Identity: subject("thief"), Credentials: c.thief, Proof: f.prove(t, t.Context(), c.thief, "").Proof,
	}))
	switch factorOf {
	case "owner":
		c.factor = &factor{f: f, in: c.owner, login: "ada"}
		c.factor.confirm(t, t.Context())
		c.owner = c.factor.in
	case "thief":
		c.factor, c.thiefs = &factor{f: f, in: c.thief, login: "ada"}, true
		c.factor.confirm(t, t.Context())
		c.thief, c.owner = c.factor.in, personal.Credentials{}
	}
	c.attempt, c.code = f.codeFor(t, "ada")
	return c
}

// remains tries all ways of the thief, and their session.
func (c *takeOver) remains(t *testing.T) string {
	var got []string
	_, err := c.f.service.Profile(t.Context(), c.thief)
	session := verdictOf(err)
	for _, w := range waysIn {
		code := ""
		if c.thiefs {
			code = c.factor.next()
		}
		got = append(got, verdictOf(w.try(t, c, code)))
	}
	return strings.Join(append(got, session), " ")
}

func verdictOf(err error) string {
	switch personal.CodeOf(err) {
	case "":
		return in
	case personal.CodeCodeRequired:
		return blocked
	}
	return gone
}

// Every remedy against every way in: what remains to a thief who knew the password.
func TestTakeOver_RemediesLeaveWhatTheTableSays(t *testing.T) {
	for i, factorOf := range []string{"nobody", "owner", "thief"} {
		for _, remedy := range remedies {
			t.Run(remedy.name+", factor of "+factorOf, func(t *testing.T) {
				t.Parallel()
				c := takenOver(t, factorOf)
				if possible := remedy.do(t, c); possible != (remedy.remains[i] != "") {
					t.Fatalf("got that the remedy is possible: %t", possible)
				} else if !possible {
					return
				}
				if got := c.remains(t); got != remedy.remains[i] {
					t.Errorf("got %q left to the thief, want %q", got, remedy.remains[i])
				}
				if remedy.name == "recovery" || remedy.name == "reset and its recovery" || remedy.name == "incident-response.md" {
					want := in
					if remedy.name == "recovery" && c.factor != nil { // which stays, whoever has it
						want = blocked
					}
					_, err := c.f.service.Authorize(t.Context(), personal.AuthorizeRequest{Login: "ada", Password: c.password})
					if got := verdictOf(err); got != want {
						t.Errorf("the owner signs in with the new password: got %v, want %s", err, want)
					}
				}
			})
		}
	}
}

// A way in or an operation that is missing above fails this test.
func TestTakeOver_TableIsComplete(t *testing.T) {
	for _, m := range personal.ModuleMethods() {
		if !slices.ContainsFunc(waysIn, func(w way) bool { return slices.Contains(w.methods, m) }) {
			t.Errorf("sessions of the method %q have no way in: add it to waysIn", m)
		}
	}
	shown := map[personal.OperationName]bool{personal.OpChangePassword: true, personal.OpRecoverConfirm: true}
	for _, r := range remedies {
		shown[r.by] = true
	}
	for _, o := range personal.Operations() {
		if o.Administration && o.Changes == personal.ChangesNamedUser && !shown[o.Name] && !slices.Contains(noRemedies, o.Name) {
			t.Errorf("the operation %s is neither a remedy nor none: add it to remedies or noRemedies", o.Name)
		}
	}
}

// What a reset leaves of an account, by table. A later table must be added here, and, if it
// holds a way in, to waysIn and to the statements that remove other ways in.
func TestResetAccess_LeavesNoRowOfTheThief(t *testing.T) {
	kept := map[string]string{
		"personal_audit": "what happened", "personal_jobs": "what is told and mailed",
		"personal_mail_refusals": "of the present e-mail", "personal_mailed_codes": "void ones, until they end",
	}
	removed := []string{ // other ways in, and what a sign-in needs or leaves
		"personal_identities", "personal_mail_tokens", "personal_passkeys", "personal_known_addresses", "personal_recovery_codes",
		"personal_refused_codes", "personal_sessions",
	}
	c := takenOver(t, "thief")
	c.f.recoverNow(t, personal.RecoverRequest{Login: "ada"})
	c.f.exec(t, fmt.Sprintf("INSERT INTO personal_refused_codes (account_id, refused, blocks, noticed) VALUES (%d, 1, FALSE, FALSE)", c.id))
	pools, err := dbconn.Open(c.f.url, dbconn.RequestLimits)
	must(t, err)
	defer pools.Close()
	list := func(query string) (all []string) {
		rows, err := pools.Read.QueryContext(t.Context(), query)
		must(t, err)
		defer rows.Close()
		for rows.Next() {
			var text string
			must(t, rows.Scan(&text))
			all = append(all, text)
		}
		must(t, rows.Err())
		return all
	}
	tables := list("SELECT m.name FROM sqlite_master m JOIN pragma_table_info(m.name) c WHERE m.type = 'table' AND c.name = 'account_id' ORDER BY 1")
	count := func(table string) string { return list("SELECT count(*) FROM " + table)[0] }
	if diff := cmp.Diff(slices.Sorted(slices.Values(append(slices.Collect(maps.Keys(kept)), removed...))), tables); diff != "" {
		t.Errorf("tables with rows of an account (-want +got):\n%s", diff)
	}
	for _, table := range removed {
		if count(table) == "0" {
			t.Errorf("%s: there is no row to remove", table)
		}
	}
	must(t, reset(c.f.service, t.Context(), c.id))
	for _, table := range removed {
		if n := count(table); n != "0" {
			t.Errorf("%s: %s rows are left", table, n)
		}
	}
}
