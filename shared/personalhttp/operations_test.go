package personalhttp_test

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/personalhttp"
)

// recorder is a service that records the request of the last call.
func recorder(got *any) *personaltest.Service {
	return &personaltest.HandledBy(func(_ context.Context, operation personal.OperationName, request any) (any, error) {
		if operation != personal.OpFields { // which handlers of other paths call as well
			*got = request
		}
		return nil, nil
	}).Service
}

// One function reads the parameters of all operations into their requests: TestOpenAPI_DescribesReadParameters knows their names.
func TestOperations_PassParametersToService(t *testing.T) {
	pair := personal.Credentials{UserID: 42, UserHash: hash}
	type fieldErrors = personal.FieldErrors
	type fields = map[string]personal.Input
	for _, c := range []struct {
		name, method, path, media, body string
		want                            any // nil: malformed_request
	}{
		{"auth", "POST", "auth/", form, "login=a&password=b&code=c&x=1&x=2", personal.AuthorizeRequest{Login: "a", Password: "b", Code: "c"}},
		{"auth without anything", "POST", "auth/", "", "", personal.AuthorizeRequest{}},
		{"auth in the query", "POST", "auth/?login=a&password=b", "", "", personal.AuthorizeRequest{}},
		{"auth with an odd password", "POST", "auth/", asJSON, `{"login":"a","password":" \u0000\n"}`,
			personal.AuthorizeRequest{Login: "a", Password: " \x00\n"}},
		{"auth with other types", "POST", "auth/", asJSON, `{"login":1,"password":true}`,
			personal.AuthorizeRequest{FieldErrors: fieldErrors{"login": personal.FieldErrorInvalidType, "password": personal.FieldErrorInvalidType}}},
		{"auth with a list and an object", "POST", "auth/", asJSON, `{"login":["a"],"password":{}}`,
			personal.AuthorizeRequest{FieldErrors: fieldErrors{"login": personal.FieldErrorInvalidType, "password": personal.FieldErrorInvalidType}}},
		{"auth with a list in a form", "POST", "auth/", form, "login[]=a&password=b",
			personal.AuthorizeRequest{Password: "b", FieldErrors: fieldErrors{"login": personal.FieldErrorInvalidType}}},
		{"auth with a repeated login", "POST", "auth/", form, "login=a&login=a&password=b", nil},
		{"auth with a repeated empty login", "POST", "auth/", form, "login=&login=", nil},
		{"auth_refresh by GET", "GET", "auth_refresh/", "", "", pair},
		{"auth_refresh by POST", "POST", "auth_refresh/", "", "", pair},
		{"register", "POST", "register/", form, "login=a&password=b&confirm_password=c&email=d&name=e&tags=1&tags=2&x=",
			personal.RegisterRequest{Login: "a", Password: "b", ConfirmPassword: "c", Email: "d",
				Fields: fields{"name": text("e"), "tags": repeated("1", "2"), "x": {}}}},
		{"register with nothing", "POST", "register/", "", "", personal.RegisterRequest{Fields: fields{}}},
		{"profile", "GET", "profile/", "", "", pair},
		{"profile saved", "POST", "profile/", asJSON, `{"name":null,"login":"x","age":"42"}`,
			personal.UpdateProfileRequest{Credentials: pair, Fields: fields{"name": {}, "login": text("x"), "age": text("42")}}},
		{"prove", "POST", "prove/", form, "password=a&code=b&attempt=d&credential=e&proof=f&proof=g",
			personal.ProveRequest{Credentials: pair, Password: "a", Code: "b", Attempt: "d", Credential: "e"}},
		{"prove with a number", "POST", "prove/", asJSON, `{"password":1}`,
			personal.ProveRequest{Credentials: pair, FieldErrors: fieldErrors{"password": personal.FieldErrorInvalidType}}},
		{"password", "POST", "password/", form, "old_password=a&password=b&confirm_password=c&code=d&proof=e&remove_other_ways_in=true", personal.ChangePasswordRequest{
			Credentials: pair, OldPassword: "a", Password: "b", ConfirmPassword: "c", Code: "d", Proof: "e", RemoveOtherWaysIn: true}},
		{"email_confirm", "POST", "email_confirm/", form, "token=a&login=b", personal.ConfirmEmailRequest{Token: "a", Login: "b"}},
		{"email_confirm with numbers", "POST", "email_confirm/", asJSON, `{"token":1,"login":1}`,
			personal.ConfirmEmailRequest{FieldErrors: fieldErrors{"token": personal.FieldErrorInvalidType, "login": personal.FieldErrorInvalidType}}},
		{"logout", "POST", "logout/", "", "", personal.LogoutRequest{Credentials: pair}},
		{"logout of all: true", "POST", "logout/", form, "all=true", personal.LogoutRequest{Credentials: pair, All: true}},
		{"logout of all: 1", "POST", "logout/", form, "all=1", personal.LogoutRequest{Credentials: pair, All: true}},
		{"logout of all: on", "POST", "logout/", form, "all=on", personal.LogoutRequest{Credentials: pair, All: true}},
		{"logout of all: off", "POST", "logout/", form, "all=off", personal.LogoutRequest{Credentials: pair}},
		{"logout of all: 0", "POST", "logout/", form, "all=0", personal.LogoutRequest{Credentials: pair}},
		{"logout of all: empty", "POST", "logout/", form, "all=", personal.LogoutRequest{Credentials: pair}},
		{"logout of all: JSON true", "POST", "logout/", asJSON, `{"all":true}`, personal.LogoutRequest{Credentials: pair, All: true}},
		{"logout of all: JSON false", "POST", "logout/", asJSON, `{"all":false}`, personal.LogoutRequest{Credentials: pair}},
		{"logout of all: yes", "POST", "logout/", form, "all=yes",
			personal.LogoutRequest{Credentials: pair, FieldErrors: fieldErrors{"all": personal.FieldErrorInvalidType}}},
		{"logout of all: a number", "POST", "logout/", asJSON, `{"all":1}`,
			personal.LogoutRequest{Credentials: pair, FieldErrors: fieldErrors{"all": personal.FieldErrorInvalidType}}},
		{"passkey_auth", "POST", "passkey_auth/", form, "attempt=a&credential=%7B%7D&code=c",
			personal.AuthorizePasskeyRequest{Attempt: "a", Credential: "{}", Code: "c"}},
		{"passkey_auth with an object", "POST", "passkey_auth/", asJSON, `{"attempt":"a", "credential": {"id": "b\u0063", "response":{"x":[1, 2]}}}`,
			personal.AuthorizePasskeyRequest{Attempt: "a", Credential: `{"id":"b\u0063","response":{"x":[1,2]}}`}},
		{"passkey_auth with a list", "POST", "passkey_auth/", asJSON, `{"attempt":"a","credential":[{}]}`,
			personal.AuthorizePasskeyRequest{Attempt: "a", Credential: "[{}]"}},
		{"prove with an object", "POST", "prove/", asJSON, `{"attempt":"a","credential":{}}`,
			personal.ProveRequest{Credentials: pair, Attempt: "a", Credential: "{}"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got any
			s := newSite(t, recorder(&got), personalhttp.Options{})
			a := s.do(c.method, prefix+c.path, c.media, c.body, "User-Id", "42", "User-Hash", hash)
			if c.want == nil {
				a.want(t, 400, personal.CodeMalformedRequest)
			} else {
				a.want(t, 200, "")
			}
			if diff := cmp.Diff(c.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOperations_ReturnContractData(t *testing.T) {
	name := "Ann <&> \u2028"
	pair := personal.Credentials{UserID: 1<<53 - 1, UserHash: hash}
	ann := personal.Profile{Login: "ann", Name: &name, Email: "a@example.com", Fields: []personal.ProfileField{
		{Name: "z", Value: int64(-9007199254740991)}, {Name: "a", Value: nil}, {Name: "b", Value: true}, {Name: "f", Value: 1.5},
		{Name: "whole", Value: 5.0}, {Name: "t", Value: "x"}, {Name: "l", Value: []string{"p", "q"}}, {Name: "e", Value: []string(nil)},
	}, Missing: []string{"a", "z"}}
	const annJSON = `{"login":"ann","name":"Ann <&> \u2028","email":"a@example.com",` +
		`"z":-9007199254740991,"a":null,"b":true,"f":1.5,"whole":5,"t":"x","l":["p","q"],"e":[]}`
	pairJSON := `"user_id":9007199254740991,"user_hash":"` + hash + `"`
	s := everything()
	s.AuthorizeFunc = func(context.Context, personal.AuthorizeRequest) (personal.SignedIn, error) {
		return personal.SignedIn{Credentials: pair, Profile: ann}, nil
	}
	s.RegisterFunc = func(context.Context, personal.RegisterRequest) (personal.SignedIn, error) {
		return personal.SignedIn{Credentials: pair, Profile: personal.Profile{Login: "bob", Email: "b@example.com"}}, nil
	}
	s.RefreshFunc = func(context.Context, personal.Credentials) (personal.Credentials, error) { return pair, nil }
	s.ProveFunc = func(context.Context, personal.ProveRequest) (personal.Proof, error) {
		return personal.Proof{Proof: hash, Until: time.Date(2026, 1, 2, 3, 4, 5, 999, time.FixedZone("", 3600))}, nil
	}
	s.ChangePasswordFunc = func(context.Context, personal.ChangePasswordRequest) (personal.Credentials, error) { return pair, nil }
	s.ProfileFunc = func(context.Context, personal.Credentials) (personal.Profile, error) { return ann, nil }
	s.UpdateProfileFunc = func(context.Context, personal.UpdateProfileRequest) (personal.Profile, error) { return ann, nil }
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.FixedZone("", 3600))
	s.DeleteFunc = func(context.Context, personal.DeleteRequest) (time.Time, error) { return at, nil }
	s.ExportFunc = func(context.Context, personal.ExportRequest) (personal.Export, error) {
		return personal.Export{
			UserID: 42, Profile: personal.Profile{Login: "bob", Email: "b@example.com", EmailVerified: true, Missing: []string{"a"}}, Created: at, Updated: at,
			Sessions:       []personal.Session{{ID: "s", Created: at, LastSeen: at, Expires: at, Address: "192.0.2.1", Agent: "A", Current: true, Method: "oidc"}},
			Passkeys:       []personal.Passkey{{ID: "p", Name: "P", Created: at, LastUsed: at, BackedUp: true}},
			KnownAddresses: []personal.KnownAddress{{Address: "192.0.2.1", LastSeen: at}},
			Identities:     []personal.LinkedIdentity{{Identity: personal.Identity{Issuer: "https://op.example", Subject: "7"}, Linked: at}, {Linked: at, LastUsed: at}},
			Events:         []personal.ExportedEvent{{Type: personal.EventSignedIn, Time: at, Address: "192.0.2.1", Actor: personal.ActorUser}},
			PendingMails:   []personal.PendingMail{{Kind: "recovery", Created: at}},
			Truncated:      true,
		}, nil
	}
	s.BeginPasskeyFunc = func(context.Context, personal.BeginPasskeyRequest) (personal.PasskeyCeremony, error) {
		return personal.PasskeyCeremony{Attempt: "a", Options: `{"challenge":"c"}`}, nil
	}
	s.BeginMailedCodeFunc = func(context.Context, personal.BeginMailedCodeRequest) (personal.MailedCodeAttempt, error) {
		return personal.MailedCodeAttempt{Attempt: "a"}, nil
	}
	s.AuthorizeMailedCodeFunc = func(ctx context.Context, _ personal.AuthorizeMailedCodeRequest) (personal.SignedIn, error) {
		return s.AuthorizePasskey(ctx, personal.AuthorizePasskeyRequest{})
	}
	s.AuthorizePasskeyFunc = func(context.Context, personal.AuthorizePasskeyRequest) (personal.SignedIn, error) {
		return personal.SignedIn{Credentials: pair, Profile: ann,
			Proof: personal.Proof{Proof: hash, Until: at}}, nil
	}
	s.PasskeysFunc = func(context.Context, personal.Credentials) ([]personal.Passkey, error) {
		return []personal.Passkey{{ID: "p", Name: "P", Created: at}}, nil
	}
	s.ConfirmPasskeyFunc = func(context.Context, personal.ConfirmPasskeyRequest) (personal.Passkey, error) {
		return personal.Passkey{ID: "p", Name: "P", Created: at}, nil
	}
	s.FeaturesFunc = func(context.Context) (personal.Features, error) {
		return personal.Features{PasswordMinLength: 1, PasswordMaxBytes: 2, LoginMinLength: 3, LoginMaxLength: 4, LoginWithEmail: true,
			EmailVerification: personal.VerificationOptional, TwoFactor: true, Passkeys: true, DeletionGrace: 119 * time.Minute}, nil
	}
	s.SessionsFunc = func(context.Context, personal.Credentials) ([]personal.Session, error) {
		return []personal.Session{{ID: "s", Created: at, LastSeen: at.Add(time.Hour), Expires: at.Add(2 * time.Hour), Address: "::1", Agent: "x", Current: true}}, nil
	}
	server := newSite(t, s, personalhttp.Options{})
	const utc = `"2026-01-02T02:04:05Z"`
	for route, want := range map[string]string{
		"POST auth/":        `{` + pairJSON + `,"user_profile":` + annJSON + `,"email_verified":false,"two_factor":false,"has_password":true,"missing_fields":["a","z"]}`,
		"POST register/":    `{` + pairJSON + `,"user_profile":{"login":"bob","name":null,"email":"b@example.com"},"email_verified":false,"two_factor":false,"has_password":true}`,
		"GET auth_refresh/": `{` + pairJSON + `}`,
		"POST prove/":       `{"proof":"` + hash + `","proved_until":` + utc + `}`,
		"POST password/":    `{` + pairJSON + `}`,
		"GET profile/":      `{"user_profile":` + annJSON + `,"email_verified":false,"two_factor":false,"has_password":true,"missing_fields":["a","z"]}`,
		"POST profile/":     `{"user_profile":` + annJSON + `,"email_verified":false,"two_factor":false,"has_password":true,"missing_fields":["a","z"]}`,
		"GET sessions/": `{"sessions":[{"id":"s","created":` + utc + `,"last_seen":"2026-01-02T03:04:05Z",` +
			`"expires":"2026-01-02T04:04:05Z","address":"::1","agent":"x","current":true}]}`,
		"GET fields/": `{"fields":[]}`,
		"GET features/": `{"password":{"min_length":1,"max_bytes":2},"login":{"min_length":3,"max_length":4,"with_email":true},` +
			`"email_verification":"optional","two_factor":true,"passkeys":true,"mailed_code":false,"deletion":{"grace_hours":1}}`,
		"POST passkey_begin/": `{"attempt":"a","options":{"challenge":"c"}}`,
		"POST passkey_auth/": `{` + pairJSON + `,"user_profile":` + annJSON + `,"email_verified":false,"two_factor":false,"has_password":true,"missing_fields":["a","z"]` +
			`,"proof":"` + hash + `","proved_until":` + utc + `}`,
		"POST code_begin/": `{"attempt":"a"}`,
		"POST code_auth/": `{` + pairJSON + `,"user_profile":` + annJSON + `,"email_verified":false,"two_factor":false,"has_password":true,"missing_fields":["a","z"]` +
			`,"proof":"` + hash + `","proved_until":` + utc + `}`,
		"GET passkeys/":              `{"passkeys":[{"id":"p","name":"P","created":` + utc + `,"last_used":null,"backed_up":false}]}`,
		"POST passkeys_add/":         `{"attempt":"","options":null}`,
		"POST passkeys_add_confirm/": `{"passkey":{"id":"p","name":"P","created":` + utc + `,"last_used":null,"backed_up":false}}`,
		"POST passkeys_rename/":      ``,
		"POST passkeys_remove/":      ``,
		"POST recover/":              ``,
		"POST recover_confirm/":      ``,
		"POST email/":                ``,
		"POST email_confirm/":        ``,
		"POST logout/":               ``,
		"POST sessions_revoke/":      ``,
		"POST email_resend/":         ``,
		"POST delete/":               `{"erase_at":` + utc + `}`,
		"POST delete_undo/":          ``,
		"POST export/": `{"export":{"user_id":42,"created":` + utc + `,"updated":` + utc +
			`,"user_profile":{"login":"bob","name":null,"email":"b@example.com"},"email_verified":true,"two_factor":false,"has_password":true` +
			`,"sessions":[{"id":"s","created":` + utc + `,"last_seen":` + utc + `,"expires":` + utc + `,"address":"192.0.2.1","agent":"A","current":true,"method":"oidc"}]` +
			`,"passkeys":[{"id":"p","name":"P","created":` + utc + `,"last_used":` + utc + `,"backed_up":true}]` +
			`,"known_addresses":[{"address":"192.0.2.1","last_seen":` + utc + `}]` +
			`,"identities":[{"issuer":"https://op.example","subject":"7","linked":` + utc + `,"last_used":null},{"issuer":"","subject":"","linked":` + utc + `,"last_used":` + utc + `}]` +
			`,"events":[{"type":"signed_in","time":` + utc + `,"address":"192.0.2.1","actor":"user"}]` +
			`,"pending_mails":[{"kind":"recovery","created":` + utc + `}],"truncated":true}}`,
	} {
		method, path, _ := strings.Cut(route, " ")
		a := server.do(method, prefix+path, "", "")
		if got := string(a.Data); got != want {
			t.Errorf("%s: got %s\nwant %s", route, got, want)
		}
		if method == "POST" && !slices.Contains([]string{"auth_refresh/", "passkey_begin/", "passkeys_add/"}, path) && a.Result.Message == "" {
			t.Errorf("%s: got no message, want one", route)
		}
	}
}

func TestRegister_WithoutASessionHasAMessageAndNoData(t *testing.T) {
	s := everything()
	s.RegisterFunc = func(context.Context, personal.RegisterRequest) (personal.SignedIn, error) {
		return personal.SignedIn{}, nil
	}
	a := newSite(t, s, personalhttp.Options{}).do("POST", prefix+"register/", "", "")
	a.want(t, 200, "")
	if a.Data != nil || a.Result.Message == "Your account has been created." || a.Result.Message == "" {
		t.Errorf("got data %s and the message %q, want no data and its own message", a.Data, a.Result.Message)
	}
}

func TestEnvelope_ExactJSON(t *testing.T) {
	s := everything()
	s.AuthorizeFunc = func(context.Context, personal.AuthorizeRequest) (personal.SignedIn, error) {
		return personal.SignedIn{}, personal.FieldErrors{"password": "required", "login": "too_long", "x": "made_up_later"}.Err()
	}
	server := newSite(t, s, personalhttp.Options{})
	for route, want := range map[string]string{
		"GET auth_refresh/": `{"success":1,"result":{"TYPE":"OK"},"data":{"user_id":0,"user_hash":""}}`,
		"POST recover/":     `{"success":1,"result":{"TYPE":"OK","MESSAGE":"If the account exists, an e-mail with further instructions is on its way."}}`,
		"GET x/":            `{"success":0,"result":{"TYPE":"ERROR","MESSAGE":"This page or operation does not exist.","CODE":"not_found"}}`,
		"POST auth/": `{"success":0,"result":{"TYPE":"ERROR","MESSAGE":"Please check what you have entered.","CODE":"validation_failed","FIELDS":{` +
			`"login":{"CODE":"too_long","MESSAGE":"Enter a shorter login: at most 64 characters."},"password":{"CODE":"required","MESSAGE":"Please fill this in."},` +
			`"x":{"CODE":"made_up_later","MESSAGE":"This value is not accepted. Enter another."}}}}`,
	} {
		method, path, _ := strings.Cut(route, " ")
		if got := server.do(method, prefix+path, "", "").Body; got != want {
			t.Errorf("%s: got %s\nwant %s", route, got, want)
		}
	}
}

func TestFields_OmitUnsetMembers(t *testing.T) {
	low, high := 5.0, 1e6
	s := everything()
	s.FieldsFunc = func(context.Context) ([]personal.Field, error) {
		return []personal.Field{
			{Name: "plain", Type: personal.TypeDate},
			{Name: "age", Type: personal.TypeInteger, Label: personal.LocalText{"en": "Age", "ru": "Возраст"}, Required: true,
				Default: personal.Input{Kind: personal.InputNumber, Text: "18"}, Min: &low, Max: &high, Order: 3, Group: "g"},
			{Name: "size", Type: personal.TypeEnum, ReadOnly: true, MaxLength: 9, Pattern: "^<a>&",
				Hint: personal.LocalText{"en": "As on the label.", "ru": "Как на этикетке."}, PatternMessage: personal.LocalText{"en": "One letter."},
				Options: []personal.Option{{Value: "s", Label: personal.LocalText{"en": "Small"}}, {Value: "l"}}},
		}, nil
	}
	const want = `{"fields":[{"name":"plain","type":"date","label":"plain","required":false,"read_only":false},` +
		`{"name":"age","type":"integer","label":"Age","required":true,"default":18,"min":5,"max":1000000,"read_only":false,"order":3,"group":"g"},` +
		`{"name":"size","type":"enum","label":"size","hint":"As on the label.","required":false,"max_length":9,"pattern":"^<a>&","pattern_message":"One letter.",` +
		`"options":[{"value":"s","label":"Small"},{"value":"l","label":"l"}],"read_only":true}]}`
	if got := string(newSite(t, s, personalhttp.Options{}).do("GET", prefix+"fields/", "", "").Data); got != want {
		t.Errorf("got fields %s\nwant %s", got, want)
	}
}

func TestFields_IncludeEffectiveLimits(t *testing.T) {
	list := []personal.Field{
		{Name: "phone", Type: personal.TypeText},
		{Name: "about", Type: personal.TypeLongText, MaxLength: 30000},
		{Name: "friends", Type: personal.TypeLinkSet},
		{Name: "born", Type: personal.TypeDate},
	}
	site := newSite(t, withFields(list...), personalhttp.Options{})
	const want = `{"fields":[{"name":"phone","type":"text","label":"phone","required":false,"max_length":1000,"read_only":false},` +
		`{"name":"about","type":"long_text","label":"about","required":false,"max_length":30000,"read_only":false},` +
		`{"name":"friends","type":"link_set","label":"friends","required":false,"max_length":255,"max_items":1000,"read_only":false},` +
		`{"name":"born","type":"date","label":"born","required":false,"read_only":false}]}`
	if got := string(site.do("GET", prefix+"fields/", "", "").Data); got != want {
		t.Errorf("got fields %s\nwant %s", got, want)
	}
	type limits struct {
		MaxLength, MaxItems int
		Items               *limits
	}
	var document struct {
		Components struct {
			Schemas map[string]struct{ Properties map[string]limits }
		}
	}
	if err := json.Unmarshal([]byte(site.do("GET", prefix+"openapi.json", "", "").Body), &document); err != nil {
		t.Fatal(err)
	}
	for _, operation := range []string{"register_parameters", "profile_parameters"} {
		got := document.Components.Schemas[operation].Properties
		for name, want := range map[string]limits{
			"phone": {MaxLength: 1000}, "about": {MaxLength: 30000}, "friends": {MaxItems: 1000, Items: &limits{MaxLength: 255}}, "born": {},
		} {
			if diff := cmp.Diff(want, got[name]); diff != "" {
				t.Errorf("%s, %s (-want +got):\n%s", operation, name, diff)
			}
		}
	}
}

func TestFromHeaders_WellFormedPairOnly(t *testing.T) {
	for _, c := range []struct {
		name    string
		headers []string
		ok      bool
	}{
		{"pair", []string{"User-Id", "42", "User-Hash", hash}, true},
		{"largest id", []string{"User-Id", "9007199254740991", "User-Hash", hash}, true},
		{"nothing", nil, false},
		{"no hash", []string{"User-Id", "42"}, false},
		{"no id", []string{"User-Hash", hash}, false},
		{"id given twice", []string{"User-Id", "42", "User-Id", "42", "User-Hash", hash}, false},
		{"hash given twice", []string{"User-Id", "42", "User-Hash", hash, "User-Hash", hash}, false},
		{"list of ids", []string{"User-Id", "42, 42", "User-Hash", hash}, false},
		{"list of hashes", []string{"User-Id", "42", "User-Hash", hash + "," + hash}, false},
		{"id zero", []string{"User-Id", "0", "User-Hash", hash}, false},
		{"negative id", []string{"User-Id", "-1", "User-Hash", hash}, false},
		{"id with a sign", []string{"User-Id", "+1", "User-Hash", hash}, false},
		{"id with a leading zero", []string{"User-Id", "042", "User-Hash", hash}, false},
		{"id in other digits", []string{"User-Id", "٤٢", "User-Hash", hash}, false},
		{"id with a fraction", []string{"User-Id", "42.0", "User-Hash", hash}, false},
		{"id in hexadecimal", []string{"User-Id", "0x2a", "User-Hash", hash}, false},
		{"id too large", []string{"User-Id", "9007199254740992", "User-Hash", hash}, false},
		{"id beyond 64 bits", []string{"User-Id", "18446744073709551658", "User-Hash", hash}, false},
		{"short hash", []string{"User-Id", "42", "User-Hash", hash[1:]}, false},
		{"long hash", []string{"User-Id", "42", "User-Hash", hash + "A"}, false},
		{"padded hash", []string{"User-Id", "42", "User-Hash", hash[1:] + "="}, false},
		{"hash in the other alphabet", []string{"User-Id", "42", "User-Hash", hash[1:] + "+"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got any
			newSite(t, recorder(&got), personalhttp.Options{}).do("GET", prefix+"profile", "", "", c.headers...).want(t, 200, "")
			if known := got != (personal.Credentials{}); known != c.ok {
				t.Errorf("got %v, want credentials: %t", got, c.ok)
			}
		})
	}
}

func FuzzIdentity(f *testing.F) {
	f.Add("42", hash)
	f.Add("007", hash)
	f.Add("9007199254740992", hash[1:]+"=")
	f.Fuzz(func(t *testing.T, id, userHash string) {
		r := httptest.NewRequest("GET", prefix+"profile", nil)
		r.Header["User-Id"], r.Header["User-Hash"] = []string{id}, []string{userHash}
		c, ok := personalhttp.FromHeaders(r)
		if !ok {
			if c != (personal.Credentials{}) {
				t.Errorf("%q %q: got %v with false, want zero credentials", id, userHash, c)
			}
			return
		}
		if c.UserID < 1 || c.UserID > 1<<53-1 || len(c.UserHash) != 43 || strings.ContainsAny(c.UserHash, "=+/, ") {
			t.Errorf("%q %q: got true, want false", id, userHash)
		}
		if again, ok := personalhttp.ParseUserID(id); !ok || again != c.UserID {
			t.Errorf("ParseUserID(%q): got %d, %t; want %d", id, again, ok, c.UserID)
		}
	})
}
