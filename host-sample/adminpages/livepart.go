package adminpages

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
)

// livePart is a part of a page that a script asks for again and again.
type livePart[T any] struct {
	Digest string // of what it shows
	Shows  T
}

// newLivePart makes a part of a value that JSON can hold.
func newLivePart[T any](shows T) livePart[T] {
	data, err := json.Marshal(shows)
	if err != nil {
		panic(err) // a type that JSON cannot hold: a mistake in this package
	}
	sum := sha256.Sum256(data)
	return livePart[T]{Digest: hex.EncodeToString(sum[:8]), Shows: shows}
}

// answerPart sends a part of a page, or that it still is what the browser has: what
// does not change stays untouched, with its focus and what was unfolded.
func answerPart[T any](s *site, w http.ResponseWriter, r *http.Request, page, name string, shows T) {
	part := newLivePart(shows)
	if r.URL.Query().Get("seen") == part.Digest {
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(http.StatusNoContent)
		return
	}
	s.pages.Part(w, r, page, name, part)
}
