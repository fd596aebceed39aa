package main

import (
	"encoding/json"
	"io"
	"net/netip"
	"time"

	"github.com/cms-personal/personal/internal/password"
	"github.com/cms-personal/personal/shared/personal"
)

// jsonFlag chooses the form of the output. docs/user-commands.md documents the keys: they
// only grow.
type jsonFlag struct {
	JSON bool `name:"json" help:"Print JSON, for programs: docs/user-commands.md lists the keys."`
}

// writeJSON writes an object, indented.
func writeJSON(w io.Writer, object any) error {
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	return out.Encode(object)
}

// listedUser is a user of `user list`.
type listedUser struct {
	ID              int64          `json:"id"`
	Login           string         `json:"login"`
	Name            *string        `json:"name,omitempty"`
	Email           string         `json:"email,omitempty"`
	EmailVerified   bool           `json:"email_verified"`
	UnverifiedEmail string         `json:"unverified_email,omitempty"`
	Disabled        bool           `json:"disabled"`
	EraseAt         time.Time      `json:"erase_at,omitzero"`
	TwoFactor       bool           `json:"two_factor"`
	Created         time.Time      `json:"created"`
	Updated         time.Time      `json:"updated"`
	LastSeen        time.Time      `json:"last_seen,omitzero"`
	LastSignIn      time.Time      `json:"last_sign_in,omitzero"`
	Fields          map[string]any `json:"fields,omitempty"`
}

func userJSON(u personal.User) listedUser {
	listed := listedUser{
		ID: u.ID, Login: u.Login, Name: u.Name, Email: u.Email, EmailVerified: u.EmailVerified, UnverifiedEmail: u.UnverifiedEmail,
		Disabled: u.Disabled, EraseAt: u.EraseAt, TwoFactor: u.TwoFactor,
		Created: u.Created, Updated: u.Updated, LastSeen: u.LastSeen, LastSignIn: u.LastSignIn,
	}
	if u.Fields != nil {
		listed.Fields = map[string]any{}
	}
	for _, f := range u.Fields {
		listed.Fields[f.Name] = f.Value
	}
	return listed
}

// shownUser is what `user show` prints.
type shownUser struct {
	listedUser
	Password   bool            `json:"password"`
	Sessions   int             `json:"sessions"`
	Passkeys   []shownPasskey  `json:"passkeys"`
	Identities []shownIdentity `json:"identities"`
}

type shownPasskey struct {
	Name     string    `json:"name"`
	Created  time.Time `json:"created"`
	LastUsed time.Time `json:"last_used,omitzero"`
	BackedUp bool      `json:"backed_up"`
	Void     bool      `json:"void"`
}

type shownIdentity struct {
	Issuer  string    `json:"issuer"`
	Subject string    `json:"subject"`
	Linked  time.Time `json:"linked"`
	Void    bool      `json:"void"`
}

func (r userRecord) json() shownUser {
	shown := shownUser{
		listedUser: userJSON(r.User), Password: !password.IsUnusable(r.account.PasswordHash), Sessions: r.sessions,
		Passkeys: []shownPasskey{}, Identities: []shownIdentity{},
	}
	shown.Fields = r.account.Fields
	for _, p := range r.passkeys {
		shown.Passkeys = append(shown.Passkeys, shownPasskey{p.Name, p.Created, p.LastUsed, p.BackedUp, p.Void})
	}
	for _, i := range r.identities {
		shown.Identities = append(shown.Identities, shownIdentity{i.Issuer, i.Subject, i.Linked, i.Void})
	}
	return shown
}

// explained is what `user explain` prints.
type explained struct {
	User     *listedUser        `json:"user,omitempty"`
	Verdicts []explainedVerdict `json:"verdicts"`
}

type explainedVerdict struct {
	Reason  personal.Reason `json:"reason"`
	Text    string          `json:"text"`
	Action  personal.Action `json:"action,omitempty"`
	Help    string          `json:"help,omitempty"`
	Limit   string          `json:"limit,omitempty"`
	Address string          `json:"address,omitempty"`
	Since   time.Time       `json:"since,omitzero"`
	Until   time.Time       `json:"until,omitzero"`
	Kind    string          `json:"kind,omitempty"`
	Reply   string          `json:"reply,omitempty"`
	Count   int             `json:"count,omitempty"`
}

// explanationJSON returns an explanation that was asked for with some addresses. The argument
// who names the user in commands.
func explanationJSON(e personal.Explanation, who string, addresses []netip.Addr) explained {
	var out explained
	if e.User != nil {
		user := userJSON(*e.User)
		out.User = &user
	}
	for _, v := range e.Verdicts {
		out.Verdicts = append(out.Verdicts, explainedVerdict{
			Reason: v.Reason, Text: sentence(v), Action: v.Action, Help: helps(v.Action, who, addresses), Limit: v.Limit,
			Address: v.Address, Since: v.Since, Until: v.Until, Kind: v.Kind, Reply: v.Reply, Count: v.Count,
		})
	}
	return out
}
