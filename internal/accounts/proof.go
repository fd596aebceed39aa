package accounts

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"time"

	"github.com/cms-personal/personal/internal/token"
	"github.com/cms-personal/personal/shared/personal"
)

// ProofStore keeps a proof in the row of its session.
type ProofStore interface {
	// SetProof uses up the code and the passkey's attempt, stores the proof of a
	// session in place of an earlier one, and stores the jobs. ErrCodeUsed; ErrCeremonyUsed; ErrMailedCodeUsed;
	// ErrStale if the account has another credential version than the proof, is disabled, or does
	// not have the session or the identity (any more).
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

	Identity personal.Identity // likewise; it is stored as a digest, and never read

	MailedCode [32]byte // the attempt of the mailed code that gave it, which storing the proof uses up; zero: none; it is not stored
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

// maxSignInProof is how long the proof of a sign-in is valid at most (HTTP contract, section 3, prove).
const maxSignInProof = 5 * time.Minute

// signInDigest is what is stored of the proof of a sign-in. It differs from that of another proof, so
// that operations that ask for a code again, and versions before 0.3.0, refuse it.
func signInDigest(digest [32]byte) [32]byte {
	return sha256.Sum256(append([]byte("sign-in"), digest[:]...))
}

// signInProofLifetime is the lifetime of proofs of sign-ins.
func (s *Service) signInProofLifetime() time.Duration {
	return min(s.settings.ProofLifetime, maxSignInProof)
}

// proofUse returns the proof of the evidence, and whether it is the valid one of the caller's session.
func (s *Service) proofUse(who caller, e evidence) (use ProofUse, valid bool) {
	digest, ok := token.MailDigest(e.proof)
	p, lifetime := who.session.Proof, s.settings.ProofLifetime
	if subtle.ConstantTimeCompare(digest[:], p.Digest[:]) == 0 {
		digest, lifetime = signInDigest(digest), s.signInProofLifetime()
		ok = ok && !e.anew && subtle.ConstantTimeCompare(digest[:], p.Digest[:]) == 1
	}
	now := s.store.Now()
	valid = ok && lasts(p.Created, lifetime, now) && p.CredentialVersion == who.account.CredentialVersion && p.EmailKey == who.account.Email.Key
	return ProofUse{SessionID: who.session.ID, Digest: digest, After: now.Add(-lifetime)}, valid
}

// evidence is what a request has to show that the session's user makes it. If there is a proof,
// it is judged alone.
type evidence struct {
	parameter      string // that the password has
	password, code string
	proof          string
	anew           bool // the proof of a sign-in is not enough
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
	if r.MailedCode != "" {
		who, attempt, code, err := s.proveMailedCode(ctx, r)
		if err != nil {
			return personal.Proof{}, err
		}
		return s.storeProof(ctx, who, code, provedPasskey{}, attempt)
	}
	byPasskey := r.Attempt != "" || r.Credential != ""
	who, guess, err := s.identifyGuess(ctx, r.Credentials, cmp.Or(r.Credential, r.Password), nil)
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
	return s.storeProof(ctx, who, code, p, [32]byte{})
}

// storeProof stores a proof of the caller, and uses up what has given it.
func (s *Service) storeProof(ctx context.Context, who caller, code checkedCode, p provedPasskey, mailed [32]byte) (personal.Proof, error) {
	text, proof := newProof(who.account, s.store.Now())
	proof.WithCode, proof.PasskeyID, proof.MailedCode = code.judged() || p.withCode, p.use.ID, mailed
	err := s.store.SetProof(ctx, who.account.ID, who.session.ID, proof, code.use, p.use, code.jobs...)
	if errors.Is(err, ErrCeremonyUsed) {
		return personal.Proof{}, errWrongCredential()
	}
	if errors.Is(err, ErrMailedCodeUsed) {
		return personal.Proof{}, errWrongMailedCodeOfProof()
	}
	if err := s.authorized(ctx, code, "storing a proof", err); err != nil {
		return personal.Proof{}, err
	}
	return personal.Proof{Proof: text, Until: proof.Created.Add(s.settings.ProofLifetime).UTC()}, nil
}

// newProof returns a proof that an account's user gave at a time, and its text.
func newProof(a Account, given time.Time) (text string, p Proof) {
	text, digest := token.NewMailToken()
	return text, Proof{Digest: digest, Created: given, CredentialVersion: a.CredentialVersion, EmailKey: a.Email.Key}
}

// signInProof is newProof for a sign-in: as it is stored, and as the user gets it.
func (s *Service) signInProof(a Account, given time.Time) (Proof, personal.Proof) {
	text, p := newProof(a, given)
	p.Digest = signInDigest(p.Digest)
	return p, personal.Proof{Proof: text, Until: given.Add(s.signInProofLifetime()).UTC()}
}
