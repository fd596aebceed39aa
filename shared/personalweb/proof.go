package personalweb

import (
	"net/http"
	"strings"
	"time"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhttp"
)

// ProofCookie is the name of the cookie of a proof, to which __Host- is added over HTTPS. Browsers do not send it with any request
// that comes from another site.
const ProofCookie = "proof"

// ofSignIn begins the value of the cookie of a sign-in's proof.
const ofSignIn = "sign_in."

// minProofCookie is how long browsers keep a proof at least, although the clock of this host is
// ahead of the database's: a proof that has ended is refused.
const minProofCookie = time.Minute

// KeptProof is a proof that a visitor's browser keeps.
type KeptProof struct {
	Proof    string // "": it keeps none
	OfSignIn bool   // RenewRecoveryCodes and RemoveOwnTwoFactor refuse it
}

// KeepProof lets the browser keep the proof of a sign-in, [personal.SignedIn.Proof], until it ends: the
// account pages do not ask the user again who they are. Call it after [Session.SignIn], which
// deletes the proof of the previous session. The zero Proof is not kept.
func KeepProof(api *personalhttp.Handler, w http.ResponseWriter, r *http.Request, p personal.Proof) {
	if p.Proof != "" {
		p.Proof = ofSignIn + p.Proof
	}
	KeepGivenProof(api, w, r, p)
}

// KeepGivenProof is [KeepProof] for a proof that the user was asked for, see [personal.Service.Prove].
func KeepGivenProof(api *personalhttp.Handler, w http.ResponseWriter, r *http.Request, p personal.Proof) {
	if p.Proof == "" {
		return
	}
	life := max(time.Until(p.Until), minProofCookie)
	SetCookie(api, w, r, http.Cookie{
		Name: ProofCookie, Value: p.Proof, MaxAge: int(life / time.Second), SameSite: http.SameSiteStrictMode,
	})
}

// ForgetProof deletes the proof that the visitor's browser keeps: it is void, or of another session.
func ForgetProof(api *personalhttp.Handler, w http.ResponseWriter, r *http.Request) {
	if CookieValue(api, r, ProofCookie) != "" {
		SetCookie(api, w, r, http.Cookie{Name: ProofCookie, MaxAge: -1, SameSite: http.SameSiteStrictMode})
	}
}

// ProofOf returns the proof that the visitor's browser has sent, which may be void.
func ProofOf(api *personalhttp.Handler, r *http.Request) KeptProof {
	text, signIn := strings.CutPrefix(CookieValue(api, r, ProofCookie), ofSignIn)
	return KeptProof{Proof: text, OfSignIn: signIn}
}
