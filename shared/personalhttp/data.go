package personalhttp

import (
	"bytes"
	"fmt"
	"time"

	"github.com/cms-personal/personal/shared/personal"
)

// The forms of data: HTTP contract, section 3.

type credentialsData struct {
	UserID   int64  `json:"user_id"`
	UserHash string `json:"user_hash"`
}

func newCredentialsData(c personal.Credentials) credentialsData {
	return credentialsData{UserID: c.UserID, UserHash: c.UserHash}
}

type profileOnlyData struct {
	Profile profileData `json:"user_profile"`
}

type signedInData struct {
	credentialsData
	profileOnlyData
}

func newSignedInData(s personal.SignedIn) signedInData {
	return signedInData{newCredentialsData(s.Credentials), profileOnlyData{profileData(s.Profile)}}
}

// profileData is an object in the order of the contract: login, name, email,
// then the user fields in the schema's.
type profileData personal.Profile

// MarshalJSON fails on a value of a type that no user field has.
func (p profileData) MarshalJSON() ([]byte, error) {
	standard := []personal.ProfileField{{Name: "login", Value: p.Login}, {Name: "name"}, {Name: "email", Value: p.Email}}
	if p.Name != nil {
		standard[1].Value = *p.Name
	}
	var b bytes.Buffer
	for _, f := range append(standard, p.Fields...) {
		name, err := marshal(f.Name)
		if err != nil {
			return nil, err
		}
		value, err := fieldValue(f.Value)
		if err != nil {
			return nil, fmt.Errorf("user field %s: %w", f.Name, err)
		}
		fmt.Fprintf(&b, ",%s:%s", name, value)
	}
	return append(append([]byte("{"), b.Bytes()[1:]...), '}'), nil
}

func fieldValue(v any) ([]byte, error) {
	switch v := v.(type) {
	case nil, bool, int64, float64, string:
		return marshal(v)
	case []string:
		return marshal(append([]string{}, v...)) // an empty list is [], never null
	}
	return nil, fmt.Errorf("a value of type %T", v)
}

type sessionsData struct {
	Sessions []sessionData `json:"sessions"`
}

type sessionData struct {
	ID       string `json:"id"`
	Created  string `json:"created"` // RFC 3339 in UTC, as the other times
	LastSeen string `json:"last_seen"`
	Expires  string `json:"expires"`
	Address  string `json:"address"`
	Agent    string `json:"agent"`
	Current  bool   `json:"current"`
}

func newSessionsData(list []personal.Session) sessionsData {
	d := sessionsData{Sessions: make([]sessionData, 0, len(list))}
	for _, s := range list {
		d.Sessions = append(d.Sessions, sessionData{
			ID:       s.ID,
			Created:  s.Created.UTC().Format(time.RFC3339),
			LastSeen: s.LastSeen.UTC().Format(time.RFC3339),
			Expires:  s.Expires.UTC().Format(time.RFC3339),
			Address:  s.Address,
			Agent:    s.Agent,
			Current:  s.Current,
		})
	}
	return d
}
