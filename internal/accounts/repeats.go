package accounts

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/cms-personal/personal/internal/seal"
	"github.com/cms-personal/personal/internal/token"
	"github.com/cms-personal/personal/shared/personal"
)

// RepeatStore keeps responses for requests that are repeated because the response was lost.
type RepeatStore interface {
	// FindRepeat returns the repeat of the session that has, or had before it, the selector. ErrNotFound.
	FindRepeat(ctx context.Context, s token.Selector) (Repeat, error)
	// EndRepeat removes the repeat of a session; a missing one is not an error.
	EndRepeat(ctx context.Context, sessionID int64) error
}

// Repeat is a response that the same request gets again. A session has one. The zero value is none.
type Repeat struct {
	SessionID int64
	Former    token.Selector // that the session had before; zero: it has the same one
	Sealed    [2][]byte      // the response under the hash of the request, and under the one that replaces it
	Created   time.Time      // set by the store
}

// errNoRepeat means that a request repeats none.
var errNoRepeat = errors.New("no repeat")

// RepeatLifetime is how long a request can be repeated (HTTP contract, section 3).
const RepeatLifetime = time.Minute

// repeatable identifies a request: with other parameters its response cannot be opened.
type repeatable struct {
	credentials personal.Credentials
	about       []byte
}

// repeatableRequest returns the request of an operation.
func repeatableRequest(operation string, c personal.Credentials, invalid personal.FieldErrors, parameters ...string) repeatable {
	parts := append([]string{operation, strconv.FormatInt(c.UserID, 10), strconv.Itoa(len(invalid))}, parameters...)
	return repeatable{c, appendParts(nil, parts)}
}

// repeatedResponse is what a repeat seals.
type repeatedResponse struct {
	UserHash      string `json:",omitempty"` // the session's new one; "": it keeps its hash
	RecoveryCodes []string
}

// repeat returns the repeat of a request of the caller. The next hash is the one that replaces that
// of the request.
func (r repeatable) repeat(who caller, next token.Secret, response repeatedResponse) (Repeat, error) {
	_, presented, _ := token.ParseHash(r.credentials.UserHash)
	data, err := json.Marshal(response)
	if err != nil {
		return Repeat{}, fail("encoding a response", err)
	}
	kept := Repeat{SessionID: who.session.ID}
	if response.UserHash != "" {
		kept.Former = who.session.Selector
	}
	for i, secret := range []token.Secret{presented, next} {
		if kept.Sealed[i], err = seal.Under(secret[:], data, r.about); err != nil {
			return Repeat{}, fail("sealing a response", err)
		}
	}
	return kept, nil
}

// repeated returns the response to a request that repeats the last one, and whether it does. Any
// other request ends the repeat. Like any use of a session it needs credentials that are valid:
// those of the request, or the new ones that its response has, while these were not used elsewhere.
func (s *Service) repeated(ctx context.Context, r repeatable) (response repeatedResponse, ok bool, err error) {
	selector, presented, ok := token.ParseHash(r.credentials.UserHash)
	if !ok {
		return response, false, nil
	}
	kept, err := s.store.FindRepeat(ctx, selector)
	if errors.Is(err, ErrNotFound) {
		return response, false, nil
	}
	if err != nil {
		return response, false, fail("finding a repeat", err)
	}
	now := s.store.Now()
	if lasts(kept.Created, RepeatLifetime, now) && kept.opens(presented, r.about, &response) {
		who, err := s.readRepeater(ctx, r.credentials, response, now)
		if err == nil {
			err = s.chargeWrite(ctx, who)
		}
		if err == nil || personal.CodeOf(err) != personal.CodeUnauthenticated {
			return response, err == nil, err
		}
	}
	return repeatedResponse{}, false, fail("ending a repeat", s.store.EndRepeat(ctx, kept.SessionID))
}

// readRepeater returns the caller that repeats a request.
func (s *Service) readRepeater(ctx context.Context, c personal.Credentials, response repeatedResponse, now time.Time) (caller, error) {
	if response.UserHash == "" {
		return s.identify(ctx, c, AccountState)
	}
	c.UserHash = response.UserHash
	who, err := s.verify(ctx, c, AccountState, now)
	if err == nil && (who.hash != current || !who.session.Used.IsZero() || who.session.Rotations > 0) {
		err = refusal(personal.CodeUnauthenticated) // it was used elsewhere
	}
	return who, err
}

// opens opens a repeat with either hash.
func (k Repeat) opens(secret token.Secret, about []byte, response *repeatedResponse) bool {
	for _, sealed := range k.Sealed {
		if data, err := seal.OpenUnder(secret[:], sealed, about); err == nil {
			return json.Unmarshal(data, response) == nil
		}
	}
	return false
}

// endRepeat ends the repeat of the session that has, or had before, the pair.
func (s *Service) endRepeat(ctx context.Context, c personal.Credentials) error {
	selector, _, ok := token.ParseHash(c.UserHash)
	if !ok {
		return nil
	}
	kept, err := s.store.FindRepeat(ctx, selector)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err == nil {
		err = s.store.EndRepeat(ctx, kept.SessionID)
	}
	return fail("ending a repeat", err)
}
