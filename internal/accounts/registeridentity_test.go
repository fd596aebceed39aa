package accounts_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/shared/personal"
)

func newcomer(login, email string) personal.RegisterIdentityRequest {
	return personal.RegisterIdentityRequest{
		Identity: personal.Identity{Issuer: "https://op.example", Subject: login}, Login: login, Email: email, Method: "oidc",
	}
}

// Where a verified e-mail is required, a registration by a provider waits as any other one does, and does not
// tell whose address it is, unless the provider is the authority of the address.
func TestRegisterIdentity_WaitsForTheEmail(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		f := requiring(t, url)
		ctx := personal.WithCall(t.Context(), personal.Call{Address: netip.MustParseAddr("2001:db8::1")})
		owner := f.applied(t, "owner", "owner@example.com")
		f.drain(t)
		if err := f.verifyAs(t, f.tokens()[0], "owner"); err != nil {
			t.Fatal(err)
		}
		for login, email := range map[string]string{"ada": "ada@example.com", "eve": "owner@example.com"} {
			in, err := f.service.RegisterIdentity(ctx, newcomer(login, email))
			if err != nil || in.Credentials != (personal.Credentials{}) || in.Proof != (personal.Proof{}) {
				t.Fatalf("registering %s: got %+v, %v; want no session", login, in, err)
			}
		}
		f.drain(t)
		ada, err := f.service.FindIdentity(ctx, newcomer("ada", "").Identity)
		if err != nil {
			t.Fatal(err)
		}
		f.wantState(t, ada, "", false, "ada@example.com")
		_, err = f.service.SignIn(ctx, personal.SignInRequest{Identity: newcomer("ada", "").Identity, Method: "oidc"})
		if personal.CodeOf(err) != personal.CodeEmailUnverified {
			t.Errorf("signing in before the address is confirmed: got %v, want email_unverified", err)
		}
		f.wantState(t, owner, "owner@example.com", true, "")

		bob := newcomer("bob", "bob@example.com")
		bob.EmailVerified = true
		in, err := f.service.RegisterIdentity(ctx, bob)
		if err != nil || !in.Profile.EmailVerified || !in.Profile.NoPassword {
			t.Errorf("with a verified address: got %+v, %v; want a session", in, err)
		}
		taken := newcomer("mallory", "owner@example.com")
		taken.EmailVerified = true
		if _, err := f.service.RegisterIdentity(ctx, taken); personal.CodeOf(err) != personal.CodeAlreadyExists {
			t.Errorf("with a verified address that is taken: got %v, want already_exists", err)
		}
	})
}

// An identity has 30 registrations an hour, from wherever they come.
func TestRegisterIdentity_IsLimitedByTheIdentity(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		f, _ := guarded(t, url)
		r := newcomer("ada", "ada@example.com")
		refused := 0
		for i := range 40 {
			address := netip.AddrFrom16([16]byte{0: 0x20, 1: 0x01, 2: 0x0d, 3: 0xb8, 5: byte(i), 15: 1})
			r.Login = string(rune('a'+i%26)) + "da" + string(rune('a'+i/26))
			r.Email = r.Login + "@example.com"
			_, err := f.service.RegisterIdentity(personal.WithCall(t.Context(), personal.Call{Address: address}), r)
			switch code := personal.CodeOf(err); {
			case code == personal.CodeTooManyAttempts:
				refused++
			case i > 0 && code != personal.CodeAlreadyExists, i == 0 && err != nil:
				t.Fatalf("registration %d: %v", i, err)
			}
		}
		if refused != 10 {
			t.Errorf("%d of 40 were refused, want 10", refused)
		}
	})
}

// A proof by an identity is void when the identity is unlinked.
func TestProveIdentity_EndsWithTheIdentity(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		f := offering(t, url)
		in := f.register(t, "ada").Credentials
		i := personal.Identity{Issuer: "https://op.example", Subject: "7"}
		proof := f.prove(t, t.Context(), in, "").Proof
		if err := f.service.LinkIdentity(t.Context(), personal.LinkIdentityRequest{Identity: i, Credentials: in, Proof: proof}); err != nil {
			t.Fatal(err)
		}
		p, err := f.service.ProveIdentity(t.Context(), personal.ProveIdentityRequest{Credentials: in, Identity: i, AuthenticatedAt: f.clock.Now()})
		if err != nil || !p.Until.Equal(f.clock.Now().Add(5*time.Minute)) {
			t.Fatalf("proving: got a proof until %v, %v", p.Until, err)
		}
		if err := provenUses["export"](t.Context(), f.service, in, p.Proof); err != nil {
			t.Errorf("before: %v", err)
		}
		if err := f.service.UnlinkIdentity(t.Context(), personal.UnlinkIdentityRequest{Identity: i, UserID: in.UserID}); err != nil {
			t.Fatal(err)
		}
		f.wantNoProof(t, "of an unlinked identity", in, p.Proof)
	})
}
