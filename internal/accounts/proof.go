package accounts

import (
	"context"
	"crypto/subtle"
	"errors"
	"maps"
	"time"

	"github.com/cms-personal/personal/internal/token"
	"github.com/cms-personal/personal/shared/personal"
)

// ProofStore keeps a proof in the row of its session.
type ProofStore interface {
	// SetProof uses up the code, stores the proof of a session in place of an earlier one, and
	// stores the jobs. ErrCodeUsed; ErrStale if the account has another credential version than
	// the proof, is disabled, or does not have the session (any more).
	SetProof(ctx context.Context, accountID, sessionID int64, p Proof, code CodeUse, jobs ...NewJob) error
}

// Proof is what is stored of a proof. The zero value is none.
type Proof struct {
	Digest [32]byte
	Until  time.Time

	// The account's when the proof was given: with others it is void.
	CredentialVersion int64
	EmailKey          string

	WithCode bool // a code of the second factor was judged
}

// ProofUse is a proof that was found valid. The transaction that it authorises finds it again, or
// fails with ErrProofVoid. The zero value is none.
type ProofUse struct {
	SessionID int64
	Digest    [32]byte
}

// ErrProofVoid means that a proof was replaced, has ended with its session, or was given for
// another e-mail. Nothing was written.
var ErrProofVoid = errors.New("the proof is void")

// proves reports whether a text is the valid proof of the caller's session.
func (who caller) proves(text string, now time.Time) bool {
	digest, ok := token.MailDigest(text)
	p := who.session.Proof
	return ok && subtle.ConstantTimeCompare(digest[:], p.Digest[:]) == 1 && now.Before(p.Until) &&
		p.CredentialVersion == who.account.CredentialVersion && p.EmailKey == who.account.Email.Key
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
	e := evidence{parameter: "password", password: r.Password, code: r.Code}
	byPasskey := r.Attempt != "" || r.Credential != ""
	if byPasskey {
		e.password = "" // it is not judged
	}
	who, attempt, err := s.identifyGuess(ctx, r.Credentials, e.guess(), nil)
	if err != nil {
		return personal.Proof{}, err
	}
	if byPasskey { // of which there are none
		invalid := maps.Clone(r.FieldErrors)
		require(&invalid, "attempt", r.Attempt)
		require(&invalid, "credential", r.Credential)
		invalid.Add("credential", personal.FieldErrorMismatch)
		return personal.Proof{}, invalid.Err()
	}
	code, err := s.confirm(ctx, who, attempt, r.FieldErrors, e)
	if err != nil {
		return personal.Proof{}, err
	}
	text, digest := token.NewMailToken()
	proof := Proof{
		Digest: digest, Until: s.store.Now().Add(s.settings.ProofLifetime),
		CredentialVersion: who.account.CredentialVersion, EmailKey: who.account.Email.Key,
		WithCode: code.use != CodeUse{},
	}
	err = s.store.SetProof(ctx, who.account.ID, who.session.ID, proof, code.use, code.jobs...)
	if err := s.authorized(ctx, code, "storing a proof", err); err != nil {
		return personal.Proof{}, err
	}
	return personal.Proof{Proof: text, Until: proof.Until.UTC()}, nil
}
