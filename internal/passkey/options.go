package passkey

import (
	"encoding/json"
	"fmt"
)

// timeout is how long an authenticator may take: as long as an attempt is valid.
const timeout = AttemptLifetime

type entity struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	DisplayName string `json:"displayName,omitempty"`
}

type parameter struct {
	Type      string `json:"type"`
	Algorithm int    `json:"alg"`
}

type descriptor struct {
	Type       string   `json:"type"`
	ID         string   `json:"id"`
	Transports []string `json:"transports,omitempty"` // without them browsers offer every way, a phone too
}

type creationOptions struct {
	RP         entity       `json:"rp"`
	User       entity       `json:"user"`
	Challenge  string       `json:"challenge"`
	Parameters []parameter  `json:"pubKeyCredParams"`
	Timeout    int64        `json:"timeout"` // in milliseconds
	Exclude    []descriptor `json:"excludeCredentials"`
	Selection  struct {
		ResidentKey        string `json:"residentKey"`
		RequireResidentKey bool   `json:"requireResidentKey"`
		UserVerification   string `json:"userVerification"`
	} `json:"authenticatorSelection"`
	Attestation string `json:"attestation"`
}

type requestOptions struct {
	Challenge        string       `json:"challenge"`
	Timeout          int64        `json:"timeout"` // in milliseconds
	RPID             string       `json:"rpId"`
	Allow            []descriptor `json:"allowCredentials"`
	UserVerification string       `json:"userVerification"`
}

// CreationOptions returns the options with which a page creates a passkey
// (PublicKeyCredentialCreationOptionsJSON). Authenticators that have one of the excluded
// passkeys refuse: otherwise they would replace it.
func (s Site) CreationOptions(challenge []byte, u User, exclude []Key) string {
	o := creationOptions{
		RP:        entity{ID: s.ID, Name: s.Name},
		User:      entity{ID: encode(u.Handle), Name: u.Name, DisplayName: u.DisplayName},
		Challenge: encode(challenge), Timeout: timeout.Milliseconds(), Exclude: descriptors(exclude), Attestation: "none",
	}
	if o.RP.Name == "" {
		o.RP.Name = s.ID
	}
	for _, a := range algorithms {
		o.Parameters = append(o.Parameters, parameter{Type: publicKey, Algorithm: int(a)})
	}
	o.Selection.ResidentKey, o.Selection.RequireResidentKey, o.Selection.UserVerification = "required", true, "required"
	return text(o)
}

// RequestOptions returns the options with which a page asks for an assertion
// (PublicKeyCredentialRequestOptionsJSON): by one of the allowed passkeys, or, without any, by
// one that the user chooses.
func (s Site) RequestOptions(challenge []byte, allow []Key) string {
	return text(requestOptions{
		Challenge: encode(challenge), Timeout: timeout.Milliseconds(), RPID: s.ID, Allow: descriptors(allow), UserVerification: "required",
	})
}

const publicKey = "public-key"

func descriptors(keys []Key) []descriptor {
	list := make([]descriptor, 0, len(keys)) // not null
	for _, k := range keys {
		list = append(list, descriptor{Type: publicKey, ID: encode(k.CredentialID), Transports: k.Transports})
	}
	return list
}

func text(options any) string {
	data, err := json.Marshal(options)
	if err != nil { // they are texts and numbers
		panic(fmt.Sprintf("passkey: options have no JSON form: %v", err))
	}
	return string(data)
}
