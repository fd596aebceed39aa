package personalhttp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/cms-personal/personal/shared/personal"
)

// envelope is the form of every response except openapi.json (HTTP contract, section 2).
type envelope struct {
	Success int    `json:"success"`
	Result  result `json:"result"`
	Data    any    `json:"data,omitempty"`
}

type result struct {
	Type    string                `json:"TYPE"`
	Message string                `json:"MESSAGE,omitempty"`
	Code    personal.Code         `json:"CODE,omitempty"`
	Fields  map[string]FieldError `json:"FIELDS,omitempty"`
}

// write sends the response: of a success the message and the data, or the error. It
// returns the status of the contract and, for an error, the code.
func (h *Handler) write(w http.ResponseWriter, r *http.Request, message string, data any, err error) (int, personal.Code) {
	var body []byte
	if err == nil {
		switch data.(type) {
		case json.RawMessage:
		case unverified:
			data = envelope{Success: 1, Result: result{Type: "OK", Message: h.texts(r)["success.unverified"]}}
		default:
			data = envelope{Success: 1, Result: result{Type: "OK", Message: message}, Data: data}
		}
		body, err = marshal(data)
	}
	header := w.Header()
	status, code := http.StatusOK, personal.Code("")
	if err != nil {
		x := h.ErrorResponse(r, err)
		if x.RetryAfter > 0 {
			header.Set("Retry-After", strconv.FormatInt(x.RetryAfter, 10))
		}
		status, code = x.Status, x.Code
		body, _ = marshal(envelope{Result: result{Type: "ERROR", Message: x.Message, Code: x.Code,
			Fields: x.FieldErrors}}) // texts only: it cannot fail
	}
	setSecurityHeaders(header)
	header.Set("Content-Type", "application/json; charset=utf-8")
	header.Add("Vary", "Accept-Language")
	if h.options.AlwaysOK {
		w.WriteHeader(http.StatusOK)
	} else {
		w.WriteHeader(status)
	}
	_, _ = w.Write(body) // on an error the client is gone
	return status, code
}

// marshal encodes JSON without the escapes that only HTML needs.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encoding a response: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// The following types are the data of responses (HTTP contract, section 3).

type credentialsData struct {
	UserID   int64  `json:"user_id"`
	UserHash string `json:"user_hash"`
}

func newCredentialsData(c personal.Credentials) credentialsData {
	return credentialsData{UserID: c.UserID, UserHash: c.UserHash}
}

// proofData is the data of prove/.
type proofData struct {
	Proof string `json:"proof"`
	Until string `json:"proved_until"`
}

func newProofData(p personal.Proof) proofData {
	return proofData{Proof: p.Proof, Until: formatTime(p.Until)}
}

type profileOnlyData struct {
	Profile       profileData `json:"user_profile"`
	EmailVerified bool        `json:"email_verified"`
	TwoFactor     bool        `json:"two_factor"`
	HasPassword   bool        `json:"has_password"`
	Missing       []string    `json:"missing_fields,omitempty"`
}

func newProfileData(p personal.Profile) profileOnlyData {
	return profileOnlyData{
		Profile: profileData(p), EmailVerified: p.EmailVerified, TwoFactor: p.TwoFactor, HasPassword: !p.NoPassword, Missing: p.Missing,
	}
}

// unverified stands for the data of a registration whose e-mail must be confirmed before
// the user can sign in. It has its own message and no data.
type unverified struct{}

type signedInData struct {
	credentialsData
	profileOnlyData
	*proofData // nil: the running plugin version gives none
}

func newSignedInData(s personal.SignedIn) signedInData {
	d := signedInData{newCredentialsData(s.Credentials), newProfileData(s.Profile), nil}
	if s.Proof != (personal.Proof{}) {
		proof := newProofData(s.Proof)
		d.proofData = &proof
	}
	return d
}

func newRegisteredData(s personal.SignedIn) any {
	if s.Credentials.UserID == 0 {
		return unverified{}
	}
	return newSignedInData(s)
}

// profileData is an object whose members have the order of the contract: login, name,
// email, then the user fields in the order of the schema.
type profileData personal.Profile

// MarshalJSON returns an error for a value of a type that no user field has. It writes
// most values itself: reflection would take a tenth of a profile's CPU time in the host.
func (p profileData) MarshalJSON() ([]byte, error) {
	b := make([]byte, 0, 256)
	b = appendText(append(b, `{"login":`...), p.Login)
	if p.Name == nil {
		b = append(b, `,"name":null`...)
	} else {
		b = appendText(append(b, `,"name":`...), *p.Name)
	}
	b = appendText(append(b, `,"email":`...), p.Email)
	for _, f := range p.Fields {
		b = append(appendText(append(b, ','), f.Name), ':')
		switch v := f.Value.(type) {
		case nil:
			b = append(b, "null"...)
		case bool:
			b = strconv.AppendBool(b, v)
		case int64:
			b = strconv.AppendInt(b, v, 10)
		case string:
			b = appendText(b, v)
		case float64:
			number, err := json.Marshal(v)
			if err != nil {
				return nil, fmt.Errorf("user field %s: %w", f.Name, err)
			}
			b = append(b, number...)
		case []string:
			b = append(b, '[')
			for i, item := range v {
				if i > 0 {
					b = append(b, ',')
				}
				b = appendText(b, item)
			}
			b = append(b, ']')
		default:
			return nil, fmt.Errorf("user field %s has a value of type %T", f.Name, v)
		}
	}
	return append(b, '}'), nil
}

// appendText appends a JSON string. It copies one of printable ASCII without a
// character that JSON escapes.
func appendText(b []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			escaped, _ := marshal(text) // a text cannot fail
			return append(b, escaped...)
		}
	}
	b = append(append(b, '"'), text...)
	return append(b, '"')
}

type sessionsData struct {
	Sessions []sessionData `json:"sessions"`
}

type sessionData struct {
	ID       string `json:"id"`
	Created  string `json:"created"` // RFC 3339 in UTC, like the other times
	LastSeen string `json:"last_seen"`
	Expires  string `json:"expires"`
	Address  string `json:"address"`
	Agent    string `json:"agent"`
	Current  bool   `json:"current"`
	Method   string `json:"method,omitempty"`
}

func formatTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func newSessionsData(list []personal.Session) sessionsData {
	return sessionsData{each(list, func(s personal.Session) sessionData {
		return sessionData{
			ID:       s.ID,
			Created:  formatTime(s.Created),
			LastSeen: formatTime(s.LastSeen),
			Expires:  formatTime(s.Expires),
			Address:  s.Address,
			Agent:    s.Agent,
			Current:  s.Current,
			Method:   s.Method,
		}
	})}
}

// each converts the items of a list. The result is not nil, so that an empty list is [] in JSON.
func each[T, D any](list []T, convert func(T) D) []D {
	converted := make([]D, 0, len(list))
	for _, item := range list {
		converted = append(converted, convert(item))
	}
	return converted
}

type featuresData struct {
	Password struct {
		MinLength int `json:"min_length"` // in characters
		MaxBytes  int `json:"max_bytes"`
	} `json:"password"`
	Login struct {
		MinLength int  `json:"min_length"` // in characters
		MaxLength int  `json:"max_length"`
		WithEmail bool `json:"with_email"`
	} `json:"login"`
	EmailVerification personal.EmailVerification `json:"email_verification"`
	TwoFactor         bool                       `json:"two_factor"`
	Passkeys          bool                       `json:"passkeys"`
	MailedCode        bool                       `json:"mailed_code"`
	Deletion          struct {
		GraceHours int64 `json:"grace_hours"` // rounded down: a page must not promise more
	} `json:"deletion"`
}

func newFeaturesData(f personal.Features) featuresData {
	d := featuresData{EmailVerification: f.EmailVerification, TwoFactor: f.TwoFactor, Passkeys: f.Passkeys, MailedCode: f.MailedCode}
	d.Password.MinLength, d.Password.MaxBytes = f.PasswordMinLength, f.PasswordMaxBytes
	d.Login.MinLength, d.Login.MaxLength, d.Login.WithEmail = f.LoginMinLength, f.LoginMaxLength, f.LoginWithEmail
	d.Deletion.GraceHours = int64(f.DeletionGrace / time.Hour)
	return d
}

type fieldsData struct {
	Fields []fieldData `json:"fields"`
}

// fieldData is what a client needs to know of a user field to show a form. Unset
// members are left out.
type fieldData struct {
	Name      string             `json:"name"`
	Type      personal.FieldType `json:"type"`
	Label     string             `json:"label"` // in the caller's language, as Hint and Message are
	Hint      string             `json:"hint,omitempty"`
	Required  bool               `json:"required"`
	Default   personal.Input     `json:"default,omitzero"`
	MaxLength int                `json:"max_length,omitempty"`
	MaxItems  int                `json:"max_items,omitempty"`
	Min       *float64           `json:"min,omitempty"`
	Max       *float64           `json:"max,omitempty"`
	Pattern   string             `json:"pattern,omitempty"`
	Message   string             `json:"pattern_message,omitempty"`
	Options   []optionData       `json:"options,omitempty"`
	ReadOnly  bool               `json:"read_only"`
	Order     int                `json:"order,omitempty"`
	Group     string             `json:"group,omitempty"`
}

type optionData struct {
	Value string `json:"value"`
	Label string `json:"label"`
}

func newFieldsData(list []personal.Field, l *labels) fieldsData {
	d := fieldsData{Fields: make([]fieldData, 0, len(list))}
	for _, f := range list {
		var options []optionData
		for _, o := range f.Options {
			options = append(options, optionData{Value: o.Value, Label: l.choose(o.Label, o.Value)})
		}
		d.Fields = append(d.Fields, fieldData{
			Name:      f.Name,
			Type:      f.Type,
			Label:     l.choose(f.Label, f.Name),
			Hint:      l.choose(f.Hint, ""),
			Required:  f.Required,
			Default:   f.Default,
			MaxLength: f.EffectiveMaxLength(),
			MaxItems:  f.MaxItems(),
			Min:       f.Min,
			Max:       f.Max,
			Pattern:   f.Pattern,
			Message:   l.choose(f.PatternMessage, ""),
			Options:   options,
			ReadOnly:  f.ReadOnly,
			Order:     f.Order,
			Group:     f.Group,
		})
	}
	return d
}

// deletedData is the data of delete/.
type deletedData struct {
	EraseAt string `json:"erase_at"`
}

func newDeletedData(eraseAt time.Time) deletedData { return deletedData{formatTime(eraseAt)} }

// twoFactorData is the data of two_factor/.
type twoFactorData struct {
	Secret string `json:"secret"`
	URI    string `json:"uri"`
}

func newTwoFactorData(s personal.TwoFactorSecret) twoFactorData { return twoFactorData(s) }

// recoveryCodesData is the data of two_factor_codes/.
type recoveryCodesData struct {
	RecoveryCodes []string `json:"recovery_codes"`
}

func newRecoveryCodesData(codes []string) recoveryCodesData { return recoveryCodesData{codes} }

// confirmedTwoFactorData is the data of two_factor_confirm/.
type confirmedTwoFactorData struct {
	credentialsData
	recoveryCodesData
}

func newConfirmedTwoFactorData(c personal.ConfirmedTwoFactor) confirmedTwoFactorData {
	return confirmedTwoFactorData{newCredentialsData(c.Credentials), newRecoveryCodesData(c.RecoveryCodes)}
}

// mailedCodeAttemptData is the data of code_begin/.
type mailedCodeAttemptData struct {
	Attempt string `json:"attempt"`
}

func newMailedCodeAttemptData(a personal.MailedCodeAttempt) mailedCodeAttemptData {
	return mailedCodeAttemptData{a.Attempt}
}

// passkeyAttemptData is the data of passkey_begin/ and passkeys_add/.
type passkeyAttemptData struct {
	Attempt string          `json:"attempt"`
	Options json.RawMessage `json:"options"`
}

func newPasskeyAttemptData(a personal.PasskeyCeremony) passkeyAttemptData {
	d := passkeyAttemptData{Attempt: a.Attempt}
	if a.Options != "" {
		d.Options = json.RawMessage(a.Options)
	}
	return d
}

type passkeyData struct {
	ID       string  `json:"id"`
	Name     string  `json:"name"`
	Created  string  `json:"created"`
	LastUsed *string `json:"last_used"`
	BackedUp bool    `json:"backed_up"`
}

func newPasskeyData(p personal.Passkey) passkeyData {
	return passkeyData{ID: p.ID, Name: p.Name, Created: formatTime(p.Created), LastUsed: formatUsed(p.LastUsed), BackedUp: p.BackedUp}
}

// formatUsed returns the time of a last use; nil for never.
func formatUsed(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	used := formatTime(t)
	return &used
}

// confirmedPasskeyData is the data of passkeys_add_confirm/.
type confirmedPasskeyData struct {
	Passkey passkeyData `json:"passkey"`
}

func newConfirmedPasskeyData(p personal.Passkey) confirmedPasskeyData {
	return confirmedPasskeyData{newPasskeyData(p)}
}

// passkeysData is the data of passkeys/.
type passkeysData struct {
	Passkeys []passkeyData `json:"passkeys"`
}

func newPasskeysData(list []personal.Passkey) passkeysData {
	return passkeysData{each(list, newPasskeyData)}
}

// exportData is the data of export/.
type exportData struct {
	Export exportedData `json:"export"`
}

type exportedData struct {
	UserID  int64  `json:"user_id"`
	Created string `json:"created"`
	Updated string `json:"updated"`
	profileOnlyData
	sessionsData
	passkeysData
	KnownAddresses []knownAddressData `json:"known_addresses"`
	Identities     []identityData     `json:"identities"`
	Events         []eventData        `json:"events"`
	PendingMails   []pendingMailData  `json:"pending_mails"`
	Truncated      bool               `json:"truncated"`
}

type identityData struct {
	Issuer   string  `json:"issuer"`
	Subject  string  `json:"subject"`
	Linked   string  `json:"linked"`
	LastUsed *string `json:"last_used"`
}

type knownAddressData struct {
	Address  string `json:"address"`
	LastSeen string `json:"last_seen"`
}

type eventData struct {
	Type    personal.EventType `json:"type"`
	Time    string             `json:"time"`
	Address string             `json:"address"`
	Actor   personal.Actor     `json:"actor"`
}

type pendingMailData struct {
	Kind    string `json:"kind"`
	Created string `json:"created"`
}

func newExportData(e personal.Export) exportData {
	e.Profile.Missing = nil // what the site asks for is nothing that is kept about the user
	return exportData{exportedData{
		UserID: e.UserID, Created: formatTime(e.Created), Updated: formatTime(e.Updated),
		profileOnlyData: newProfileData(e.Profile),
		sessionsData:    newSessionsData(e.Sessions),
		passkeysData:    newPasskeysData(e.Passkeys),
		KnownAddresses: each(e.KnownAddresses, func(a personal.KnownAddress) knownAddressData {
			return knownAddressData{a.Address, formatTime(a.LastSeen)}
		}),
		Identities: each(e.Identities, func(i personal.LinkedIdentity) identityData {
			return identityData{i.Issuer, i.Subject, formatTime(i.Linked), formatUsed(i.LastUsed)}
		}),
		Events: each(e.Events, func(v personal.ExportedEvent) eventData {
			return eventData{v.Type, formatTime(v.Time), v.Address, v.Actor}
		}),
		PendingMails: each(e.PendingMails, func(m personal.PendingMail) pendingMailData {
			return pendingMailData{m.Kind, formatTime(m.Created)}
		}),
		Truncated: e.Truncated,
	}}
}

// EncodeExport returns the JSON of an export as the operation export/ sends it in
// data.export, for a page that offers it as a file.
func EncodeExport(e personal.Export) ([]byte, error) { return marshal(newExportData(e).Export) }
