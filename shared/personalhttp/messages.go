package personalhttp

import "github.com/cms-personal/personal/shared/personal"

// done says what a successful operation tells the user.
type done string

const (
	doneSignedIn          done = "signed_in"
	doneRegistered        done = "registered"
	doneRecoveryRequested done = "recovery_requested"
	donePasswordChanged   done = "password_changed"
	doneProfileSaved      done = "profile_saved"
	doneEmailRequested    done = "email_requested"
	doneEmailChanged      done = "email_changed"
	doneLoggedOut         done = "logged_out"
	doneSessionEnded      done = "session_ended"
)

// texts are the messages of one language. They speak to end users, and the
// same code always says the same: a message must not tell more than its code.
type texts struct {
	done   map[done]string
	codes  map[personal.Code]string
	faults map[personal.FieldErrorCode]string
	fault  string // for a fault code that a newer module made up
}

func (t texts) ofFault(code personal.FieldErrorCode) string {
	if text, ok := t.faults[code]; ok {
		return text
	}
	return t.fault
}
