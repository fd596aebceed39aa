package passkey

import (
	"encoding/json"
	"slices"

	"github.com/go-webauthn/webauthn/protocol"
)

// The limits of the transports of a key. WebAuthn level 3 (section 5.8.4) has six, of 10 characters at
// most.
const (
	maxTransports = 10
	maxTransport  = 32 // bytes
)

// SetTransports keeps those of a browser's transports that are words of visible ASCII, sorted: unknown
// ones too, as a site does not judge them (WebAuthn level 3, section 5.2.1). A site can do without any,
// so that none of them refuses a key.
func (k *Key) SetTransports(sent []string) { k.Transports = words(sent) }

func words[T ~string](sent []T) (kept []string) {
	for _, t := range sent {
		if len(t) > 0 && len(t) <= maxTransport && visible(string(t)) {
			kept = append(kept, string(t))
		}
	}
	slices.Sort(kept)
	kept = slices.Compact(kept)
	return kept[:min(len(kept), maxTransports)]
}

func visible(text string) bool {
	return !slices.ContainsFunc([]byte(text), func(b byte) bool { return b <= ' ' || b > '~' })
}

// hints are the transports that a client sends: anything else than a list is none, and in a list
// anything else than a text.
type hints []string

// UnmarshalJSON takes every value.
func (h *hints) UnmarshalJSON(data []byte) error {
	var list []any
	_ = json.Unmarshal(data, &list)
	for _, value := range list {
		if text, ok := value.(string); ok {
			*h = append(*h, text)
		}
	}
	return nil
}

// parseCreation is the library's parser, which refuses a credential with other transports than a list
// of texts.
func parseCreation(credential string) (*protocol.ParsedCredentialCreationData, error) {
	var c struct {
		protocol.PublicKeyCredential
		Response struct {
			protocol.AuthenticatorAttestationResponse
			Transports hints `json:"transports"` // hides that of the library
		} `json:"response"`
	}
	if err := json.Unmarshal([]byte(credential), &c); err != nil {
		return nil, err
	}
	c.Response.AuthenticatorAttestationResponse.Transports = c.Response.Transports
	return protocol.CredentialCreationResponse{
		PublicKeyCredential: c.PublicKeyCredential, AttestationResponse: c.Response.AuthenticatorAttestationResponse,
	}.Parse()
}
