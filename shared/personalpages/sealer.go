package personalpages

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/cms-personal/personal/shared/personalhttp"
	"github.com/cms-personal/personal/shared/personalweb"
)

// sealer keeps values in cookies of the visitor's browser that no one else can read or make up. A value is good
// only in the cookie for which it was sealed.
type sealer struct {
	api  *personalhttp.Handler
	keys []cipher.AEAD // the first one seals, all open
}

// newSealer returns a sealer with keys of 32 bytes. Without any, it has a key of its own, which lasts as long as the
// process: after a restart, and on another node, the visitor starts again.
func newSealer(api *personalhttp.Handler, keys ...[]byte) (sealer, error) {
	s := sealer{api: api}
	if len(keys) == 0 {
		keys = [][]byte{make([]byte, 32)}
		_, _ = rand.Read(keys[0]) // never fails
	}
	for _, key := range keys {
		if len(key) != 32 {
			return s, errors.New("a key to seal cookies has not 32 bytes")
		}
		block, err := aes.NewCipher(key)
		if err != nil {
			return s, err
		}
		aead, err := cipher.NewGCMWithRandomNonce(block)
		if err != nil {
			return s, err
		}
		s.keys = append(s.keys, aead)
	}
	return s, nil
}

// value returns what a cookie keeps.
func (s sealer) value(cookie string, content any) string {
	var plain bytes.Buffer
	encoder := json.NewEncoder(&plain)
	encoder.SetEscapeHTML(false) // cookies are limited to 4096 bytes
	if err := encoder.Encode(content); err != nil {
		panic(err) // the types have no value that fails
	}
	return base64.RawURLEncoding.EncodeToString(s.keys[0].Seal(nil, nil, plain.Bytes(), []byte(cookie)))
}

// open reads what a cookie keeps into content. It returns false if the request has no such cookie.
func (s sealer) open(r *http.Request, cookie string, content any) bool {
	sealed, err := base64.RawURLEncoding.DecodeString(personalweb.CookieValue(s.api, r, cookie))
	if err != nil {
		return false
	}
	for _, key := range s.keys {
		if plain, err := key.Open(nil, nil, sealed, []byte(cookie)); err == nil {
			return json.Unmarshal(plain, content) == nil
		}
	}
	return false
}
