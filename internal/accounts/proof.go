package accounts

import (
	"context"
	"crypto/subtle"
	"errors"
	"time"

	"github.com/cms-personal/personal/internal/token"
	"github.com/cms-personal/personal/shared/personal"
)

// ProofStore keeps a proof in the row of its session.
type ProofStore interface {
	// SetProof uses up the code and the passkey's attempt, stores the proof of a
	// session in place of an earlier one, and stores the jobs. ErrCodeUsed; ErrCeremonyUsed;
	// ErrStale if the account has another credential version than the proof, is disabled, or does
	// not have the session (any more).
	SetProof(ctx context.Context, accountID, sessionID int64, p Proof, code CodeUse, by PasskeyUse, jobs ...NewJob) error
}

// Proof is what is stored of a proof. The zero value is none.
type Proof struct {
	Digest  [32]byte
	Created time.Time // it ends ProofLifetime later

	// The account's when the proof was given: with others it is void.
	CredentialVersion int64
	EmailKey          string

	WithCode  bool  // a code of the second factor was judged, or the passkey was added with one
	PasskeyID int64 // of the passkey that gave it: when that is removed it is void; 0: none
}

// ProofUse is a proof that was found valid. The transaction that it authorises finds it again, or
// fails with ErrProofVoid, or with ErrStale if the session has ended. The zero value is none.
type ProofUse struct {
	SessionID int64
	Digest    [32]byte
	After     time.Time // a proof that was created until then has ended
}

// ErrProofVoid means that a proof was replaced, has ended, or was given for another e-mail. Its
// session goes on. Nothing was written.
var ErrProofVoid = errors.New("the proof is void")

// proves reports whether a text is the valid proof of the caller's session.
func (s *Service) proves(who caller, text string) bool {
	digest, ok := token.MailDigest(text)
	p := who.session.Proof
	return ok && subtle.ConstantTimeCompare(digest[:], p.Digest[:]) == 1 && lasts(p.Created, s.settings.ProofLifetime, s.store.Now()) &&
		p.CredentialVersion == who.account.CredentialVersion && p.EmailKey == who.account.Email.Key
}

// proofUse returns the caller's proof, which was found valid.
func (s *Service) proofUse(who caller) ProofUse {
	return ProofUse{SessionID: who.session.ID, Digest: who.session.Proof.Digest, After: s.store.Now().Add(-s.settings.ProofLifetime)}
}

// provedUntil returns when a proof ends.
func (s *Service) provedUntil(p Proof) time.Time {
	return p.Created.Add(s.settings.ProofLifetime).UTC()
}

// evidence is what a request has to show that the session's user makes it. If there is a proof,
// it is judged alone.
type evidence struct {
	parameter      string // that the password has
	password, code string
	proof          string
}

// guess returns the password that is judged; "" for none.
func (e evidence) guess() string {
	if e.proof != "" {
		return ""
	}
	return e.password
}

// Prove implements [personal.Service].
func (s *Service) Prove(ctx context.Context, r personal.ProveRequest) (personal.Proof, error) {
	r = personal.AsTyped(r)
	byPasskey := r.Attempt != "" || r.Credential != ""
	entered := r.Password
	if byPasskey {
		entered = r.Credential
	}
	who, guess, err := s.identifyGuess(ctx, r.Credentials, entered, nil)
	if err != nil {
		return personal.Proof{}, err
	}
	var p provedPasskey
	var code checkedCode
	if byPasskey {
		p, code, err = s.provePasskey(ctx, who, guess, r)
	} else {
		code, err = s.confirm(ctx, who, guess, r.FieldErrors, evidence{parameter: "password", password: r.Password, code: r.Code})
	}
	if err != nil {
		return personal.Proof{}, err
	}
	text, proof := s.newProof(who.account)
	proof.WithCode, proof.PasskeyID = code.judged() || p.withCode, p.use.ID
	err = s.store.SetProof(ctx, who.account.ID, who.session.ID, proof, code.use, p.use, code.jobs...)
	if errors.Is(err, ErrCeremonyUsed) {
		return personal.Proof{}, errWrongCredential()
	}
	if err := s.authorized(ctx, code, "storing a proof", err); err != nil {
		return personal.Proof{}, err
	}
	return personal.Proof{Proof: text, Until: s.provedUntil(proof)}, nil
}

// newProof returns a proof of an account's user, and its text.
func (s *Service) newProof(a Account) (text string, p Proof) {
	text, digest := token.NewMailToken()
	return text, Proof{
		Digest: digest, Created: s.store.Now(), CredentialVersion: a.CredentialVersion, EmailKey: a.Email.Key,
	}
}
