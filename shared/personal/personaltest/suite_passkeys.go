package personaltest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest/softkey"
)

// The passkeys of the Service under test.
const (
	PasskeyDomain = "site.example"         // the setting passkeys.rp_id
	PasskeyOrigin = "https://site.example" // the only one of passkeys.origins
)

// device returns a new authenticator.
func device() *softkey.Authenticator { return &softkey.Authenticator{Origin: PasskeyOrigin} }

// beginPasskey begins to add a passkey, with the password and a code.
func (s *suite) beginPasskey(t *testing.T, c personal.Credentials, code string) personal.PasskeyCeremony {
	t.Helper()
	started, err := s.service.AddPasskey(t.Context(), personal.AddPasskeyRequest{Credentials: c, Password: Password, Code: code})
	if personal.CodeOf(err) == personal.CodeNotFound {
		t.Fatal("the module does not offer passkeys: it needs their settings, see PasskeyDomain")
	}
	if err != nil {
		t.Fatalf("beginning to add a passkey: %v", err)
	}
	return started
}

// create lets an authenticator make a passkey.
func create(t *testing.T, d *softkey.Authenticator, started personal.PasskeyCeremony) string {
	t.Helper()
	credential, err := d.Create(started.Options)
	if err != nil {
		t.Fatalf("creating a passkey for %s: %v", started.Options, err)
	}
	return credential
}

// confirmPasskey adds the passkey that an authenticator makes.
func (s *suite) confirmPasskey(t *testing.T, c personal.Credentials, d *softkey.Authenticator,
	started personal.PasskeyCeremony) personal.Passkey {
	t.Helper()
	p, err := s.service.ConfirmPasskey(t.Context(), personal.ConfirmPasskeyRequest{
		Credentials: c, Attempt: started.Attempt, Credential: create(t, d, started), Name: "a passkey",
	})
	if err != nil {
		t.Fatalf("adding a passkey: %v", err)
	}
	return p
}

// addPasskey adds a passkey of a new authenticator.
func (s *suite) addPasskey(t *testing.T, c personal.Credentials, code string) (*softkey.Authenticator, personal.Passkey) {
	t.Helper()
	d := device()
	return d, s.confirmPasskey(t, c, d, s.beginPasskey(t, c, code))
}

// respond begins a sign-in, or a proof of the session's user, and lets an authenticator respond.
func (s *suite) respond(t *testing.T, d *softkey.Authenticator, c personal.Credentials) (attempt, credential string) {
	t.Helper()
	r := personal.BeginPasskeyRequest{Purpose: personal.PasskeySignIn}
	if c.UserID != 0 {
		r = personal.BeginPasskeyRequest{Credentials: c, Purpose: personal.PasskeyProve}
	}
	started, err := s.service.BeginPasskey(t.Context(), r)
	if err != nil {
		t.Fatalf("beginning with a passkey: %v", err)
	}
	credential, err = d.Get(started.Options)
	if err != nil {
		t.Fatalf("responding to %s: %v", started.Options, err)
	}
	return started.Attempt, credential
}

// passkeySignIn signs in with a passkey and a code.
func (s *suite) passkeySignIn(t *testing.T, d *softkey.Authenticator, code string) (personal.SignedIn, error) {
	t.Helper()
	attempt, credential := s.respond(t, d, personal.Credentials{})
	return s.service.AuthorizePasskey(t.Context(), personal.AuthorizePasskeyRequest{Attempt: attempt, Credential: credential, Code: code})
}

// passkeyProof proves with a passkey and a code.
func (s *suite) passkeyProof(t *testing.T, d *softkey.Authenticator, c personal.Credentials, code string) (personal.Proof, error) {
	t.Helper()
	attempt, credential := s.respond(t, d, c)
	return s.service.Prove(t.Context(), personal.ProveRequest{Credentials: c, Attempt: attempt, Credential: credential, Code: code})
}

func (s *suite) passkeys(t *testing.T, c personal.Credentials) []personal.Passkey {
	t.Helper()
	list, err := s.service.Passkeys(t.Context(), c)
	if err != nil {
		t.Fatalf("listing passkeys: %v", err)
	}
	return list
}

func testPasskeys(t *testing.T, s *suite) {
	ctx := t.Context()
	unverified := s.register(t)
	_, err := s.service.AddPasskey(ctx, personal.AddPasskeyRequest{Credentials: unverified.Credentials, Password: Password})
	wantCode(t, err, personal.CodeEmailUnverified)
	u := s.verified(t)
	if list := s.passkeys(t, u.Credentials); len(list) != 0 {
		t.Fatalf("got %d passkeys of a new user, want none", len(list))
	}
	for _, test := range []struct {
		request personal.AddPasskeyRequest
		want    personal.FieldErrors
	}{
		{personal.AddPasskeyRequest{}, personal.FieldErrors{"password": personal.FieldErrorRequired}},
		{personal.AddPasskeyRequest{Password: "not the password"}, personal.FieldErrors{"password": personal.FieldErrorMismatch}},
		{personal.AddPasskeyRequest{Proof: "made up", Password: Password}, personal.FieldErrors{"proof": personal.FieldErrorMismatch}},
	} {
		test.request.Credentials = u.Credentials
		_, err := s.service.AddPasskey(ctx, test.request)
		wantFieldErrors(t, err, personal.CodeValidationFailed, test.want)
	}
	d, started := device(), s.beginPasskey(t, u.Credentials, "")
	var options struct {
		Challenge, Attestation string
		RP                     struct{ ID string }
		Selection              struct{ ResidentKey, UserVerification string } `json:"authenticatorSelection"`
	}
	if err := json.Unmarshal([]byte(started.Options), &options); err != nil || options.Challenge == "" || options.RP.ID != PasskeyDomain ||
		options.Attestation != "none" || options.Selection.ResidentKey != "required" || options.Selection.UserVerification != "required" {
		t.Errorf("got options %s (%v), want those of a discoverable passkey of %s with user verification", started.Options, err, PasskeyDomain)
	}
	confirm := personal.ConfirmPasskeyRequest{Credentials: u.Credentials, Attempt: started.Attempt, Credential: create(t, d, started),
		Name: "phone"}
	for name, want := range map[string]personal.FieldErrorCode{
		"": personal.FieldErrorRequired, strings.Repeat("ы", 65): personal.FieldErrorTooLong, "a\nb": personal.FieldErrorInvalidFormat,
	} {
		wrong := confirm
		wrong.Name = name
		_, err := s.service.ConfirmPasskey(ctx, wrong)
		wantFieldErrors(t, err, personal.CodeValidationFailed, personal.FieldErrors{"name": want})
	}
	added, err := s.service.ConfirmPasskey(ctx, confirm)
	if err != nil || added.ID == "" || added.Name != "phone" || added.Created.IsZero() || !added.LastUsed.IsZero() || !added.BackedUp {
		t.Fatalf("adding: got %+v, error %v", added, err)
	}
	if again, err := s.service.ConfirmPasskey(ctx, confirm); err != nil || again != added {
		t.Errorf("adding again, as after a lost response: got %+v, error %v; want %+v", again, err, added)
	}
	if _, err := d.Create(s.beginPasskey(t, u.Credentials, "").Options); err != softkey.ErrExcluded {
		t.Errorf("a second passkey on the authenticator: got %v, want that it is excluded", err)
	}
	in, err := s.passkeySignIn(t, d, "")
	if err != nil || in.Credentials.UserID != u.Credentials.UserID || in.Profile.Login != u.login {
		t.Fatalf("signing in: got user %d, error %v; want user %d", in.Credentials.UserID, err, u.Credentials.UserID)
	}
	if e, err := s.service.Export(ctx, personal.ExportRequest{Credentials: in.Credentials, Proof: in.Proof.Proof}); err != nil ||
		len(e.Passkeys) != 1 {
		t.Errorf("exporting with the proof of the sign-in: got %d passkeys, error %v; want 1", len(e.Passkeys), err)
	}
	methods := map[string]int{}
	sessions, err := s.service.Sessions(ctx, u.Credentials)
	for _, session := range sessions {
		methods[session.Method]++
	}
	if err != nil || len(methods) != 2 || methods[personal.MethodRegistration] != 1 || methods[personal.MethodPasskey] != 1 {
		t.Errorf("got sessions by %v, error %v; want one by the registration and one by the passkey", methods, err)
	}
	proof, err := s.passkeyProof(t, d, u.Credentials, "")
	if err != nil {
		t.Fatalf("proving: %v", err)
	}
	if err := s.service.RenamePasskey(ctx, personal.RenamePasskeyRequest{Credentials: u.Credentials, ID: added.ID,
		Name: "my phone"}); err != nil {
		t.Errorf("renaming: %v", err)
	}
	list := s.passkeys(t, u.Credentials)
	if len(list) != 1 || list[0].ID != added.ID || list[0].Name != "my phone" || list[0].LastUsed.IsZero() {
		t.Fatalf("got %+v, want the passkey with its new name, used", list)
	}
	for _, id := range []string{"0" + added.ID, "+" + added.ID, added.ID + ".0", " " + added.ID} { // of no passkey
		if err := s.service.RenamePasskey(ctx, personal.RenamePasskeyRequest{Credentials: u.Credentials, ID: id, Name: "another"}); err != nil {
			t.Errorf("renaming the passkey %q: %v", id, err)
		}
		if err := s.service.RemovePasskey(ctx, personal.RemovePasskeyRequest{Credentials: u.Credentials, ID: id,
			Proof: proof.Proof}); err != nil {
			t.Errorf("removing the passkey %q: %v", id, err)
		}
	}
	if list := s.passkeys(t, u.Credentials); len(list) != 1 || list[0].Name != "my phone" {
		t.Errorf("got %+v after a removal of ids that are not written as they are listed, want the passkey as it was", list)
	}
	for _, id := range []string{"", "0", "x"} { // of no passkey
		err := s.service.RemovePasskey(ctx, personal.RemovePasskeyRequest{Credentials: u.Credentials, ID: id, Proof: proof.Proof})
		if id != "" && err != nil {
			t.Errorf("removing a passkey that does not exist: %v", err)
		}
		if id == "" {
			wantFieldErrors(t, err, personal.CodeValidationFailed, personal.FieldErrors{"id": personal.FieldErrorRequired})
		}
	}
	other := s.verified(t)
	otherRemove := personal.RemovePasskeyRequest{Credentials: other.Credentials, ID: added.ID, Password: Password}
	if err := s.service.RemovePasskey(ctx, otherRemove); err != nil || len(s.passkeys(t, u.Credentials)) != 1 {
		t.Errorf("removing another user's passkey: got error %v, want success without an effect", err)
	}
	remove := personal.RemovePasskeyRequest{Credentials: u.Credentials, ID: added.ID}
	wantFieldErrors(t, s.service.RemovePasskey(ctx, remove), personal.CodeValidationFailed,
		personal.FieldErrors{"password": personal.FieldErrorRequired})
	remove.Proof = proof.Proof
	if err := s.service.RemovePasskey(ctx, remove); err != nil {
		t.Fatalf("removing with a proof: %v", err)
	}
	if s.alive(t, in.Credentials) || !s.alive(t, u.Credentials) {
		t.Error("after the removal: want that the session which the passkey began has ended, and no other")
	}
	s.wantProofRefused(t, "of a removed passkey", u.Credentials, proof.Proof)
	_, err = s.passkeySignIn(t, d, "")
	wantCode(t, err, personal.CodeInvalidCredentials)
	_, err = s.service.ConfirmPasskey(ctx, confirm)
	wantFieldErrors(t, err, personal.CodeValidationFailed, personal.FieldErrors{"credential": personal.FieldErrorMismatch})
}

func testPasskeyRefusals(t *testing.T, s *suite) {
	ctx := t.Context()
	u, other := s.verified(t), s.verified(t)
	d, _ := s.addPasskey(t, u.Credentials, "")
	thiefs, _ := s.addPasskey(t, other.Credentials, "")
	second := s.signIn(t, u.login, Password)

	_, err := s.service.BeginPasskey(ctx, personal.BeginPasskeyRequest{})
	wantFieldErrors(t, err, personal.CodeValidationFailed, personal.FieldErrors{"purpose": personal.FieldErrorRequired})
	_, err = s.service.BeginPasskey(ctx, personal.BeginPasskeyRequest{Purpose: "other"})
	wantFieldErrors(t, err, personal.CodeValidationFailed, personal.FieldErrors{"purpose": personal.FieldErrorNotInList})
	_, err = s.service.BeginPasskey(ctx, personal.BeginPasskeyRequest{Purpose: personal.PasskeyProve})
	wantCode(t, err, personal.CodeUnauthenticated)
	_, err = s.service.AuthorizePasskey(ctx, personal.AuthorizePasskeyRequest{})
	wantFieldErrors(t, err, personal.CodeValidationFailed,
		personal.FieldErrors{"attempt": personal.FieldErrorRequired, "credential": personal.FieldErrorRequired})

	attempt, credential := s.respond(t, d, personal.Credentials{})
	otherAttempt, otherCredential := s.respond(t, d, personal.Credentials{})
	proveAttempt, proveCredential := s.respond(t, d, u.Credentials)
	elsewhere := *d
	elsewhere.Origin = "https://evil.example"
	phishedAttempt, phished := s.respond(t, &elsewhere, personal.Credentials{})
	unverified := *d
	unverified.Flags = softkey.Flags &^ 0x04
	unverifiedAttempt, unverifiedCredential := s.respond(t, &unverified, personal.Credentials{})
	for name, r := range map[string]personal.AuthorizePasskeyRequest{
		"response to another attempt":   {Attempt: attempt, Credential: otherCredential},
		"attempt that is made up":       {Attempt: strings.Repeat("A", len(attempt)), Credential: credential},
		"attempt to prove":              {Attempt: proveAttempt, Credential: proveCredential},
		"attempt with a changed letter": {Attempt: swapCase(attempt), Credential: credential},
		"page of another site":          {Attempt: phishedAttempt, Credential: phished},
		"user who was not verified":     {Attempt: unverifiedAttempt, Credential: unverifiedCredential},
		"credential that is no JSON":    {Attempt: attempt, Credential: "credential"},
		"credential that is a list":     {Attempt: attempt, Credential: "[1]"},
		"credential that is too large":  {Attempt: attempt, Credential: strings.Repeat(" ", 1<<20) + credential},
	} {
		if _, err := s.service.AuthorizePasskey(ctx, r); personal.CodeOf(err) != personal.CodeInvalidCredentials {
			t.Errorf("signing in with a %s: got %v, want %s", name, err, personal.CodeInvalidCredentials)
		}
	}
	thiefsAttempt, thiefsCredential := "", ""
	started, err := s.service.BeginPasskey(ctx, personal.BeginPasskeyRequest{Credentials: u.Credentials, Purpose: personal.PasskeyProve})
	if err != nil {
		t.Fatalf("beginning to prove: %v", err)
	}
	thiefsAttempt, thiefsCredential = started.Attempt, mustGet(t, thiefs, withoutAllowList(t, started.Options))
	for name, r := range map[string]personal.ProveRequest{
		"another user's passkey":     {Credentials: u.Credentials, Attempt: thiefsAttempt, Credential: thiefsCredential},
		"attempt to sign in":         {Credentials: u.Credentials, Attempt: otherAttempt, Credential: otherCredential},
		"attempt of another session": {Credentials: second, Attempt: proveAttempt, Credential: proveCredential},
		"password, too":              {Credentials: u.Credentials, Attempt: proveAttempt, Credential: proveCredential, Password: Password},
	} {
		_, err := s.service.Prove(ctx, r)
		if e, ok := asError(err); !ok || e.FieldErrors["credential"] != personal.FieldErrorMismatch {
			t.Errorf("proving with %s: got %v, want the field error mismatch of credential", name, err)
		}
	}
	if _, err := s.service.Prove(ctx, personal.ProveRequest{Credentials: u.Credentials, Attempt: proveAttempt,
		Credential: proveCredential}); err != nil {
		t.Errorf("proving after failures: got %v, want success: only a success uses an attempt up", err)
	}
	_, err = s.service.Prove(ctx, personal.ProveRequest{Credentials: u.Credentials, Attempt: proveAttempt, Credential: proveCredential})
	wantFieldErrors(t, err, personal.CodeValidationFailed, personal.FieldErrors{"credential": personal.FieldErrorMismatch})

	addition := s.beginPasskey(t, u.Credentials, "")
	created := create(t, device(), addition)
	phishing := device()
	phishing.Origin = "https://evil.example"
	lax := device()
	lax.Flags = softkey.Flags &^ 0x04
	for name, r := range map[string]personal.ConfirmPasskeyRequest{
		"attempt of another session": {Credentials: second, Attempt: addition.Attempt, Credential: created},
		"attempt that is made up":    {Credentials: u.Credentials, Attempt: "attempt", Credential: created},
		"attempt to prove":           {Credentials: u.Credentials, Attempt: thiefsAttempt, Credential: created},
		"assertion":                  {Credentials: u.Credentials, Attempt: addition.Attempt, Credential: credential},
		"page of another site":       {Credentials: u.Credentials, Attempt: addition.Attempt, Credential: create(t, phishing, addition)},
		"user who was not verified":  {Credentials: u.Credentials, Attempt: addition.Attempt, Credential: create(t, lax, addition)},
	} {
		r.Name = "a passkey"
		_, err := s.service.ConfirmPasskey(ctx, r)
		if e, ok := asError(err); !ok || e.FieldErrors["credential"] != personal.FieldErrorMismatch {
			t.Errorf("adding with an %s: got %v, want the field error mismatch of credential", name, err)
		}
	}
	if n := len(s.passkeys(t, u.Credentials)); n != 1 {
		t.Errorf("got %d passkeys after refused additions, want 1", n)
	}
	if in, err := s.service.AuthorizePasskey(ctx, personal.AuthorizePasskeyRequest{Attempt: attempt, Credential: credential}); err != nil ||
		in.Credentials.UserID != u.Credentials.UserID {
		t.Errorf("signing in after failures: got %v, want success", err)
	}
}

func mustGet(t *testing.T, d *softkey.Authenticator, options string) string {
	t.Helper()
	credential, err := d.Get(options)
	if err != nil {
		t.Fatalf("responding to %s: %v", options, err)
	}
	return credential
}

// withoutAllowList returns request options that allow every passkey of the site.
func withoutAllowList(t *testing.T, options string) string {
	t.Helper()
	var o map[string]any
	if err := json.Unmarshal([]byte(options), &o); err != nil {
		t.Fatal(err)
	}
	delete(o, "allowCredentials")
	data, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// What a browser knows about an authenticator comes back in the options, so that it offers that one and
// not a phone. Of a passkey about which it knew nothing the options say nothing.
func testPasskeyTransports(t *testing.T, s *suite) {
	u := s.verified(t)
	for _, transports := range [][]string{{"hybrid", "internal"}, {"of-tomorrow"}, {}} {
		d := device()
		d.Transports = transports
		s.confirmPasskey(t, u.Credentials, d, s.beginPasskey(t, u.Credentials, ""))
	}
	proving, err := s.service.BeginPasskey(t.Context(), personal.BeginPasskeyRequest{Credentials: u.Credentials, Purpose: personal.PasskeyProve})
	if err != nil {
		t.Fatalf("beginning to prove: %v", err)
	}
	for list, started := range map[string]personal.PasskeyCeremony{
		"allowCredentials": proving, "excludeCredentials": s.beginPasskey(t, u.Credentials, ""),
	} {
		var options map[string]json.RawMessage
		var got []map[string]any // the newest first
		if err := errors.Join(json.Unmarshal([]byte(started.Options), &options), json.Unmarshal(options[list], &got)); err != nil {
			t.Fatalf("%s of %s: %v", list, started.Options, err)
		}
		for i, want := range []string{"<nil>", "[of-tomorrow]", "[hybrid internal]"} {
			if len(got) != 3 || fmt.Sprint(got[i]["transports"]) != want {
				t.Errorf("%s: got %v, want the transports %s of number %d", list, got, want, i+1)
			}
		}
	}
}

func testPasskeySecondFactor(t *testing.T, s *suite) {
	ctx := t.Context()
	u := factorUser{user: s.verified(t)}
	before, _ := s.addPasskey(t, u.Credentials, "") // without a code
	s.switchOn(t, &u)
	_, err := s.passkeySignIn(t, before, "")
	wantCode(t, err, personal.CodeCodeRequired)
	_, err = s.passkeySignIn(t, before, "000000")
	wantCode(t, err, personal.CodeInvalidCode)
	in, err := s.passkeySignIn(t, before, u.recoveryCode())
	if err != nil {
		t.Fatalf("signing in with a passkey and a code: %v", err)
	}
	_, err = s.passkeyProof(t, before, u.Credentials, "")
	wantFieldErrors(t, err, personal.CodeValidationFailed, personal.FieldErrors{"code": personal.FieldErrorRequired})
	_, err = s.passkeyProof(t, before, u.Credentials, "000000")
	wantFieldErrors(t, err, personal.CodeValidationFailed, personal.FieldErrors{"code": personal.FieldErrorMismatch})

	// A passkey that is added with a proof given by a code needs none.
	started, err := s.service.AddPasskey(ctx, personal.AddPasskeyRequest{Credentials: in.Credentials, Proof: in.Proof.Proof})
	if err != nil {
		t.Fatalf("adding with the proof of a sign-in with a code: %v", err)
	}
	after := device()
	s.confirmPasskey(t, in.Credentials, after, started)
	if in, err = s.passkeySignIn(t, after, ""); err != nil {
		t.Fatalf("signing in with a passkey that was added with a code: %v", err)
	}
	proof, err := s.passkeyProof(t, after, u.Credentials, "")
	if err != nil {
		t.Fatalf("proving with it: %v", err)
	}
	// Its proofs count as given by a code.
	if started, err = s.service.AddPasskey(ctx, personal.AddPasskeyRequest{Credentials: u.Credentials, Proof: proof.Proof}); err != nil {
		t.Fatalf("adding with its proof: %v", err)
	}
	third := device()
	s.confirmPasskey(t, u.Credentials, third, started)
	if _, err := s.passkeySignIn(t, third, ""); err != nil {
		t.Errorf("signing in with a passkey that was added with its proof: %v", err)
	}
	// Switching the factor off and on again clears all of that.
	pair, err := s.service.RemoveOwnTwoFactor(ctx, personal.RemoveOwnTwoFactorRequest{Credentials: u.Credentials, Password: Password,
		Code: u.recoveryCode()})
	if err != nil {
		t.Fatalf("switching the second factor off: %v", err)
	}
	u.Credentials = pair
	if _, err := s.passkeySignIn(t, after, ""); err != nil {
		t.Errorf("signing in without a second factor: %v", err)
	}
	s.switchOn(t, &u)
	for i, d := range []*softkey.Authenticator{before, after, third} {
		if _, err := s.passkeySignIn(t, d, ""); personal.CodeOf(err) != personal.CodeCodeRequired {
			t.Errorf("signing in with passkey %d under a new second factor: got %v, want %s", i, err, personal.CodeCodeRequired)
		}
	}
}

func testPasskeyPassword(t *testing.T, s *suite) {
	ctx := t.Context()
	u := s.verified(t)
	d, _ := s.addPasskey(t, u.Credentials, "")
	change := personal.ChangePasswordRequest{Credentials: u.Credentials, OldPassword: Password, Password: Password + "!",
		ConfirmPassword: Password + "!"}
	pair, err := s.service.ChangePassword(ctx, change)
	if err != nil {
		t.Fatalf("changing the password: %v", err)
	}
	if mail := s.mailAbout(t, u.email, "Your password was changed"); !strings.Contains(mail.Text, "signs in to your account: passkeys: 1.") {
		t.Errorf("got the notice %q, want that it counts the passkeys", mail.Text)
	}
	if _, err := s.passkeySignIn(t, d, ""); err != nil {
		t.Errorf("signing in after a change of the password: %v", err)
	}
	change = personal.ChangePasswordRequest{Credentials: pair, OldPassword: Password + "!", Password: Password, ConfirmPassword: Password,
		RemoveOtherWaysIn: true}
	if pair, err = s.service.ChangePassword(ctx, change); err != nil {
		t.Fatalf("changing the password and removing the passkeys: %v", err)
	}
	if n := len(s.passkeys(t, pair)); n != 0 {
		t.Errorf("got %d passkeys, want none", n)
	}
	_, err = s.passkeySignIn(t, d, "")
	wantCode(t, err, personal.CodeInvalidCredentials)
	if !s.alive(t, pair) {
		t.Error("after the removal: want that the session goes on, which the password began")
	}
	d, _ = s.addPasskey(t, pair, "")
	in, err := s.passkeySignIn(t, d, "")
	if err != nil {
		t.Fatalf("signing in: %v", err)
	}
	change = personal.ChangePasswordRequest{Credentials: in.Credentials, Proof: in.Proof.Proof, Password: Password + "!",
		ConfirmPassword: Password + "!", RemoveOtherWaysIn: true}
	if pair, err = s.service.ChangePassword(ctx, change); err != nil {
		t.Fatalf("changing the password and removing the passkey that began the session: %v", err)
	}
	if s.alive(t, pair) || s.alive(t, in.Credentials) {
		t.Error("the session goes on although the passkey that began it was removed")
	}
	s.signIn(t, u.login, Password+"!")
}

func testPasskeyRecovery(t *testing.T, s *suite) {
	u := s.verified(t)
	d, _ := s.addPasskey(t, u.Credentials, "")
	s.recoverAccount(t, u)
	if _, err := s.passkeySignIn(t, d, ""); personal.CodeOf(err) != personal.CodeInvalidCredentials {
		t.Errorf("signing in after a recovery: got %v, want %s", err, personal.CodeInvalidCredentials)
	}
	f := factorUser{user: s.verified(t)}
	without, _ := s.addPasskey(t, f.Credentials, "")
	s.switchOn(t, &f)
	with, _ := s.addPasskey(t, f.Credentials, f.recoveryCode())
	s.recoverAccount(t, f.user)
	for _, d := range []*softkey.Authenticator{without, with} {
		if _, err := s.passkeySignIn(t, d, f.recoveryCode()); personal.CodeOf(err) != personal.CodeInvalidCredentials {
			t.Errorf("signing in after a recovery with a second factor: got %v, want %s", err, personal.CodeInvalidCredentials)
		}
	}
	_, err := s.authorize(t, f.login, Password, "")
	wantCode(t, err, personal.CodeCodeRequired) // the factor stays
	if mail := s.mailAbout(t, f.email, "Set a new password"); !strings.Contains(mail.Text, "removed from your account: 2 passkeys.") {
		t.Errorf("got the mail %q, want that it says what will be removed", mail.Text)
	}
	if mail := s.mailAbout(t, f.email, "A new password was set"); !strings.Contains(mail.Text, "no longer signs in: passkeys: 2.") {
		t.Errorf("got the notice %q, want that it counts what was removed", mail.Text)
	}
}

// mailAbout waits for the first mail to an address with a subject, in the built-in text.
func (s *suite) mailAbout(t *testing.T, address, subject string) personal.Mail {
	t.Helper()
	return s.awaitMail(t, 1, address, func(m personal.Mail) bool { return m.Subject == subject })
}

// recoverAccount sets the password anew by a mail.
func (s *suite) recoverAccount(t *testing.T, u user) {
	t.Helper()
	if err := s.service.Recover(t.Context(), personal.RecoverRequest{Login: u.login}); err != nil {
		t.Fatalf("requesting a recovery: %v", err)
	}
	_, err := s.service.RecoverConfirm(t.Context(), personal.RecoverConfirmRequest{
		Token: tokenIn(t, s.mailAbout(t, u.email, "Set a new password")), Password: Password, ConfirmPassword: Password,
	})
	if err != nil {
		t.Fatalf("recovering: %v", err)
	}
}

func testPasskeyNumber(t *testing.T, s *suite) {
	u := s.verified(t)
	late := s.beginPasskey(t, u.Credentials, "")
	for range personal.MaxPasskeys {
		s.addPasskey(t, u.Credentials, "")
	}
	_, err := s.service.AddPasskey(t.Context(), personal.AddPasskeyRequest{Credentials: u.Credentials, Password: Password})
	wantCode(t, err, personal.CodeTooManyPasskeys)
	_, err = s.service.ConfirmPasskey(t.Context(), personal.ConfirmPasskeyRequest{
		Credentials: u.Credentials, Attempt: late.Attempt, Credential: create(t, device(), late), Name: "a passkey",
	})
	wantCode(t, err, personal.CodeTooManyPasskeys)
}

func testPasskeyRace(t *testing.T, s *suite) {
	u := s.verified(t)
	d, _ := s.addPasskey(t, u.Credentials, "")
	attempt, credential := s.respond(t, d, personal.Credentials{})
	codes := together(32, func(int) personal.Code {
		_, err := s.service.AuthorizePasskey(t.Context(), personal.AuthorizePasskeyRequest{Attempt: attempt, Credential: credential})
		return personal.CodeOf(err)
	})
	slices.Sort(codes)
	if codes[0] != "" || codes[1] != personal.CodeInvalidCredentials || codes[31] != personal.CodeInvalidCredentials {
		t.Errorf("got %q, want one success, and %s for the others", codes, personal.CodeInvalidCredentials)
	}
}
