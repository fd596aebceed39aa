package accounts_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/shared/personal"
)

// owner is a user with a set of ways in, and the session in which they act.
type owner struct {
	f      *fixture
	in     personal.Credentials
	key    *passkeyUser
	factor *factor // nil: none
}

func (o *owner) code() string {
	if o.factor == nil {
		return ""
	}
	return o.factor.next()
}

// proofsBy are the ways in which a user can prove who they are, each by a way in.
var proofsBy = map[string]func(t *testing.T, o *owner) (personal.Proof, error){
	"password": func(t *testing.T, o *owner) (personal.Proof, error) {
		return o.f.service.Prove(t.Context(), personal.ProveRequest{Credentials: o.in, Password: goodPassword, Code: o.code()})
	},
	"passkey": func(t *testing.T, o *owner) (personal.Proof, error) {
		o.key.in = o.in
		attempt, credential := o.key.respond(t)
		return o.f.service.Prove(t.Context(), personal.ProveRequest{Credentials: o.in, Attempt: attempt, Credential: credential, Code: o.code()})
	},
	"identity": func(t *testing.T, o *owner) (personal.Proof, error) {
		return o.f.service.ProveIdentity(t.Context(), personal.ProveIdentityRequest{
			Credentials: o.in, Identity: subject("own"), AuthenticatedAt: o.f.clock.Now(), Code: o.code(),
		})
	},
	"mailed code": func(t *testing.T, o *owner) (personal.Proof, error) {
		started, err := o.f.service.BeginMailedCode(t.Context(), personal.BeginMailedCodeRequest{Credentials: o.in, Purpose: personal.MailedCodeProve})
		must(t, err)
		o.f.drain(t)
		codes := o.f.mailedCodes()
		if len(codes) == 0 {
			t.Fatal("got no code")
		}
		return o.f.service.Prove(t.Context(), personal.ProveRequest{
			Credentials: o.in, Attempt: started.Attempt, MailedCode: codes[len(codes)-1], Code: o.code(),
		})
	},
}

// provenOperations are all operations that a proof authorises, as a user without a password calls them.
var provenOperations = map[personal.OperationName]func(t *testing.T, ctx context.Context, o *owner, proof string) error{
	personal.OpAddPasskey: func(_ *testing.T, ctx context.Context, o *owner, proof string) error {
		_, err := o.f.service.AddPasskey(ctx, personal.AddPasskeyRequest{Credentials: o.in, Proof: proof})
		return err
	},
	personal.OpRemovePasskey: func(_ *testing.T, ctx context.Context, o *owner, proof string) error {
		return o.f.service.RemovePasskey(ctx, personal.RemovePasskeyRequest{Credentials: o.in, ID: "999", Proof: proof})
	},
	personal.OpLinkIdentity: func(_ *testing.T, ctx context.Context, o *owner, proof string) error {
		return o.f.service.LinkIdentity(ctx, personal.LinkIdentityRequest{Credentials: o.in, Identity: subject("another"), Proof: proof})
	},
	personal.OpUnlinkIdentity: func(_ *testing.T, ctx context.Context, o *owner, proof string) error {
		return o.f.service.UnlinkIdentity(ctx, personal.UnlinkIdentityRequest{Credentials: o.in, Identity: subject("nobody's"), Proof: proof})
	},
	personal.OpChangePassword:     provenUse("password"),
	personal.OpChangeEmail:        provenUse("email"),
	personal.OpExport:             provenUse("export"),
	personal.OpDelete:             provenUse("delete"),
	personal.OpBeginTwoFactor:     provenUse("two_factor"),
	personal.OpRenewRecoveryCodes: provenUse("two_factor_codes"),
	personal.OpRemoveOwnTwoFactor: provenUse("two_factor_remove"),
}

func provenUse(name string) func(*testing.T, context.Context, *owner, string) error {
	return func(_ *testing.T, ctx context.Context, o *owner, proof string) error {
		return provenUses[name](ctx, o.f.service, o.in, proof)
	}
}

func TestProvenOperations_AreAll(t *testing.T) {
	for _, of := range []reflect.Type{reflect.TypeFor[personal.Service](), reflect.TypeFor[personal.Administration]()} {
		for method := range of.Methods() {
			for in := range method.Type.Ins() {
				if in.Kind() != reflect.Struct {
					continue
				}
				proof, takes := in.FieldByName("Proof")
				takes = takes && proof.Type.Kind() == reflect.String
				if _, listed := provenOperations[personal.OperationName(method.Name)]; takes != listed {
					t.Errorf("%s: it takes a proof: %t, got that it is in provenOperations: %t", method.Name, takes, listed)
				}
			}
		}
	}
}

// With a second factor and without, each way in authorises every operation, alone and beside all others,
// also without a password.
func TestProvenOperations_EveryWayInAuthorisesThem(t *testing.T) {
	for _, has := range [][]string{
		{"password"}, {"passkey"}, {"identity"}, {"mailed code"}, {"password", "passkey", "identity"}, {"passkey", "identity", "mailed code"},
	} {
		for _, withFactor := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, factor %t", strings.Join(has, ", "), withFactor), func(t *testing.T) {
				t.Parallel()
				f := offering(t, testdb.SQLite(t), passkeys)
				n := 0
				for operation, call := range provenOperations {
					if withFactor == (operation == personal.OpBeginTwoFactor) ||
						!withFactor && slices.Contains([]personal.OperationName{personal.OpRenewRecoveryCodes, personal.OpRemoveOwnTwoFactor}, operation) {
						continue // it is refused whatever proves the user
					}
					for _, way := range has {
						n++
						o := f.owner(t, fmt.Sprint("user", n), has, withFactor)
						p, err := proofsBy[way](t, o)
						must(t, err)
						if err := call(t, t.Context(), o, p.Proof); err != nil {
							t.Errorf("%s by %s: %v", operation, way, err)
						}
						f.exec(t, "DELETE FROM personal_identities") // the next user has the same ones
					}
				}
			})
		}
	}
}

// owner registers a user with the ways in that they have.
func (f *fixture) owner(t *testing.T, login string, has []string, withFactor bool) *owner {
	t.Helper()
	o := &owner{f: f, in: f.verified(t, login)}
	if withFactor {
		o.factor = &factor{f: f, in: o.in, login: login}
		o.factor.confirm(t, t.Context())
		o.in = o.factor.in
	}
	id := o.in.UserID
	for _, way := range []string{"passkey", "identity"} {
		if !slices.Contains(has, way) {
			continue
		}
		if way == "passkey" {
			o.key = &passkeyUser{f: f, in: o.in}
			o.key.add(t, t.Context(), o.code())
		} else {
			f.link(t, id, "own")
		}
	}
	if !slices.Contains(has, "password") {
		f.withoutPassword(t, o.in)
	}
	return o
}

// What is wrong costs the same whether or not the attempt has a code, and asking costs the same for everyone.
func TestMailedCode_NobodyIsToldByTheWork(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		f, h := guarded(t, url)
		f.settings.MailedCode = true
		counter := &statementCounter{}
		f.service = f.serve(counter.open(t, f, url), h)
		f.worker.Handlers = f.service.Jobs()
		f.verified(t, "ada")
		network := 0
		work := func(do func(ctx context.Context)) (statements []string) {
			network++
			ctx := at(t, fmt.Sprintf("198.51.%d.1", network))
			counter.take()
			do(ctx)
			for _, s := range counter.take() {
				statements = append(statements, strings.Join(strings.Fields(s + " . .")[:3], " "))
			}
			return statements
		}
		attempts := map[string]string{}
		ask := func(login string) []string {
			return work(func(ctx context.Context) { attempts[login] = f.askForCode(t, ctx, login) })
		}
		guess := func(login string) []string {
			return work(func(ctx context.Context) {
				_, err := f.signInByCode(ctx, attempts[login], "0000-0000", "")
				wantCode(t, err, personal.CodeInvalidCode)
			})
		}
		ask("nobody") // prepares statements
		guess("nobody")
		if known, unknown := ask("ada"), ask("nobody"); !slices.Equal(known, unknown) {
			t.Errorf("asking: got %q for a user, %q for nobody", known, unknown)
		}
		f.drain(t)
		if len(f.mailedCodes()) != 1 {
			t.Fatal("got no code")
		}
		if known, unknown := guess("ada"), guess("nobody"); !slices.Equal(known, unknown) {
			t.Errorf("a wrong code: got %q for a user, %q for nobody", known, unknown)
		}
	})
}
