package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/accounts"
)

// newProof returns a proof of the account's user.
func (w *world) newProof(a accounts.Account) accounts.Proof {
	return accounts.Proof{
		Digest: digest("proof", w.number()), Created: w.Now(),
		CredentialVersion: a.CredentialVersion, EmailKey: a.Email.Key, WithCode: a.TwoFactor.On(),
	}
}

// prove stores a proof and returns its use.
func (w *world) prove(a accounts.Account, s accounts.Session) accounts.ProofUse {
	w.t.Helper()
	p := w.newProof(a)
	w.must(w.SetProof(w.t.Context(), a.ID, s.ID, p, accounts.CodeUse{}, accounts.PasskeyUse{}))
	return accounts.ProofUse{SessionID: s.ID, Digest: p.Digest}
}

// proofUses are the operations that a proof authorises: those of a session that use up a code, but
// for the last one, which makes a proof; and a new pending factor, which needs no code.
var proofUses = append(codeUses[1:len(codeUses)-1:len(codeUses)-1], struct {
	name string
	use  func(w *world, a accounts.Account, s accounts.Session, code accounts.CodeUse) error
}{"a pending factor", func(w *world, a accounts.Account, s accounts.Session, code accounts.CodeUse) error {
	p := w.newPending(a, s)
	p.Proof = code.Proof
	return w.SetPendingFactor(w.t.Context(), p)
}})

var proofCases = []testCase{
	{"a proof is stored for its session, version and an unused code only", func(t *testing.T, w *world) {
		a, s := w.createEnrolled()
		b, foreign := w.createAny()
		ended := w.open(a)
		w.must(w.RevokeSession(t.Context(), a.ID, ended.ID))
		old := w.newProof(a)
		old.CredentialVersion--
		for _, refused := range []struct {
			account, session int64
			proof            accounts.Proof
			code             accounts.CodeUse
			want             error
		}{
			{a.ID, foreign.ID, w.newProof(a), step(firstStep + 1), accounts.ErrStale},
			{a.ID, ended.ID, w.newProof(a), step(firstStep + 1), accounts.ErrStale},
			{a.ID, s.ID, old, step(firstStep + 1), accounts.ErrStale},
			{b.ID, s.ID, w.newProof(b), accounts.CodeUse{}, accounts.ErrStale},
			{nobody, s.ID, w.newProof(a), accounts.CodeUse{}, accounts.ErrStale},
			{a.ID, s.ID, w.newProof(a), step(firstStep), accounts.ErrCodeUsed},
			{a.ID, s.ID, w.newProof(a), recovery(9), accounts.ErrCodeUsed},
		} {
			w.wantError(w.SetProof(t.Context(), refused.account, refused.session, refused.proof, refused.code, accounts.PasskeyUse{}, job("event")),
				refused.want)
		}
		w.wantUnchanged(a, s)
		for _, s := range []accounts.Session{s, foreign} {
			if got := w.session(s).Proof; got != (accounts.Proof{}) {
				t.Errorf("got proof %v, want none", got)
			}
		}
		w.must(w.SetDisabled(t.Context(), a.ID, true))
		disabled := w.newProof(w.account(a.ID))
		w.wantError(w.SetProof(t.Context(), a.ID, s.ID, disabled, accounts.CodeUse{}, accounts.PasskeyUse{}), accounts.ErrStale)
	}},
	{"a proof does not outlive a change of the credentials", func(t *testing.T, w *world) {
		for _, o := range proofUses {
			a, s := w.createEnrolled()
			p := w.prove(a, s)
			fresh := w.renewed(s)
			w.must(w.ReplacePassword(t.Context(), a, "second hash", accounts.KeptSession{Session: fresh}, accounts.CodeUse{}, false, changed()))
			before := w.account(a.ID)
			if err := o.use(w, a, s, accounts.CodeUse{Proof: p}); !errors.Is(err, accounts.ErrStale) {
				t.Errorf("%s: got %v, want %v", o.name, err, accounts.ErrStale)
			}
			w.wantUnchanged(before, fresh)
			if got := w.session(fresh).Proof; got.CredentialVersion == before.CredentialVersion {
				t.Errorf("%s: got a proof of the new version", o.name)
			}
		}
	}},
	{"a taken e-mail is learned with a valid proof only", func(t *testing.T, w *world) {
		other, _ := w.createAny()
		a, s := w.createAny()
		p := w.prove(a, s)
		ask := func(p accounts.ProofUse) error {
			return w.RequestEmail(t.Context(), a.ID, a.CredentialVersion, other.Email.Key, accounts.CodeUse{Proof: p}, nil)
		}
		w.wantTaken(ask(p), accounts.TakenError{Email: true})
		p.Digest[0]++
		w.wantError(ask(p), accounts.ErrProofVoid)
	}},
	{"operations with a void proof write nothing", func(t *testing.T, w *world) {
		for _, c := range []struct {
			name string
			want error
			void func(a *accounts.Account, s accounts.Session, p *accounts.ProofUse)
		}{
			{"a wrong one", accounts.ErrProofVoid, func(_ *accounts.Account, _ accounts.Session, p *accounts.ProofUse) { p.Digest[31]++ }},
			{"one of another session", accounts.ErrProofVoid, func(a *accounts.Account, _ accounts.Session, p *accounts.ProofUse) { p.SessionID = w.open(*a).ID }},
			{"one of another account", accounts.ErrStale, func(_ *accounts.Account, _ accounts.Session, p *accounts.ProofUse) { *p = w.prove(w.createAny()) }},
			{"a replaced one", accounts.ErrProofVoid, func(a *accounts.Account, s accounts.Session, _ *accounts.ProofUse) { w.prove(*a, s) }},
			{"one that has ended", accounts.ErrProofVoid, func(_ *accounts.Account, _ accounts.Session, p *accounts.ProofUse) {
				p.After = w.Now().Add(time.Second)
			}},
			{"one of a session that has ended", accounts.ErrStale, func(a *accounts.Account, _ accounts.Session, p *accounts.ProofUse) {
				ended := w.open(*a)
				*p = w.prove(*a, ended)
				w.must(w.RevokeSession(t.Context(), a.ID, ended.ID))
			}},
			{"one for another e-mail", accounts.ErrProofVoid, func(a *accounts.Account, _ accounts.Session, _ *accounts.ProofUse) {
				noJob := func(accounts.Account) ([]accounts.NewJob, error) { return nil, nil }
				w.must(w.SetEmail(t.Context(), a.ID, accounts.Email{Address: a.Login + "@x.org", Key: a.Login + "@x.org"}, noJob))
			}},
		} {
			uses := proofUses
			if c.name != "a wrong one" {
				uses = uses[:1] // they share what judges a proof
			}
			for _, o := range uses {
				a, s := w.createEnrolled()
				p := w.prove(a, s)
				c.void(&a, s, &p)
				before, sessions := w.account(a.ID), w.sessions(a.ID)
				if err := o.use(w, before, s, accounts.CodeUse{Proof: p}); !errors.Is(err, c.want) {
					t.Errorf("%s with %s: got %v, want %v", o.name, c.name, err, c.want)
				}
				w.wantUnchanged(before, sessions...)
				w.wantPending(w.newPending(a, s), nil)
			}
		}
	}},
}
