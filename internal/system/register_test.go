package system

import (
	"strings"
	"testing"
)

func testRegister(t *testing.T, s *system) {
	testRegisterRules(t, s)
	t.Run("data is user_id, user_hash and user_profile, and signs in", func(t *testing.T) {
		p := applicant(params{"login": "Anna-" + unique(), "email": "Anna." + unique() + "@Mail.Example", "name": "Анна"})
		a := s.post(t, "register/", p).wantData(t, "user_id", "user_hash", "user_profile")
		profile := a.profile(t)
		for _, name := range []string{"login", "email", "name"} {
			if profile[name] != p[name] {
				t.Errorf("%s is shown as %v, registered as %v", name, profile[name], p[name])
			}
		}
		s.wantAlive(t, "a hash from registration", a.pair(t))
		login, email := strings.ToUpper(p["login"].(string)), strings.ToLower(p["email"].(string))
		s.post(t, "register/", applicant(params{"login": login})).wantFaults(t, "already_exists", faults{"login": "taken"})
		s.post(t, "register/", applicant(params{"login": fullWidth(strings.ToLower(login))})).wantFaults(t, "already_exists", faults{"login": "taken"})
		s.post(t, "register/", applicant(params{"email": email})).wantFaults(t, "already_exists", faults{"email": "taken"})
		s.post(t, "auth/", params{"login": login, "password": p["password"]}).want(t, "")
	})
	t.Run("a name is null if there is none", func(t *testing.T) {
		for _, p := range []params{applicant(nil), applicant(params{"name": nil}), applicant(params{"name": ""})} {
			if name := s.post(t, "register/", p).profile(t)["name"]; name != nil {
				t.Errorf("the name of %v is %v", p, name)
			}
		}
	})
	t.Run("an address under a Unicode domain is kept under its A-label", func(t *testing.T) {
		login := unique()
		profile := s.post(t, "register/", applicant(params{"login": login, "email": login + "@пример.рф"})).profile(t)
		if want := login + "@xn--e1afmkfd.xn--p1ai"; profile["email"] != want {
			t.Errorf("email is %v, want %s", profile["email"], want)
		}
		s.post(t, "register/", applicant(params{"email": login + "@xn--e1afmkfd.xn--p1ai"})).wantFaults(t, "already_exists", faults{"email": "taken"})
	})
	t.Run("a password is compared in its composed form", func(t *testing.T) {
		p := applicant(params{"password": "cafe\u0301 noir", "confirm_password": "cafe\u0301 noir"})
		s.post(t, "register/", p).want(t, "")
		s.post(t, "auth/", params{"login": p["login"], "password": "caf\u00e9 noir"}).want(t, "")
	})
	t.Run("a refused registration stores nothing", func(t *testing.T) {
		p := applicant(params{"age": "x"})
		s.post(t, "register/", p).want(t, "validation_failed")
		s.post(t, "auth/", params{"login": p["login"], "password": p["password"]}).want(t, "invalid_credentials")
		delete(p, "age")
		s.post(t, "register/", p).want(t, "")
	})
}

func testRegisterRules(t *testing.T, s *system) {
	login := unique()
	secret := func(password string) params { return params{"password": password, "confirm_password": password} }
	tests := []struct {
		name   string
		change params
		want   faults // nil: it succeeds
	}{
		{"nothing at all but nulls", params{"login": nil, "email": nil, "password": nil, "confirm_password": nil},
			faults{"login": "required", "email": "required", "password": "required", "confirm_password": "required"}},

		{"a login of 2 characters", params{"login": "ab"}, faults{"login": "too_short"}},
		{"a login of 64 characters", params{"login": login + strings.Repeat("x", 64-len(login))}, nil},
		{"a login of 65 characters", params{"login": login + strings.Repeat("x", 65-len(login))}, faults{"login": "too_long"}},
		{"a login with an @", params{"login": login + "@x"}, faults{"login": "invalid_format"}},
		{"a login with a space", params{"login": "anna maria"}, faults{"login": "invalid_format"}},
		{"a login with a control character", params{"login": "anna\u0007"}, faults{"login": "invalid_format"}},
		{"a login with a zero-width character", params{"login": "an\u200bna"}, faults{"login": "invalid_format"}},
		{"a Cyrillic login", params{"login": "анна" + strings.Repeat("я", 3) + "-" + digits(login)}, nil},
		{"Latin with Cyrillic", params{"login": "pаypal-" + digits(login)}, faults{"login": "invalid_format"}},
		{"Latin with Greek", params{"login": "αlpha-" + digits(login)}, faults{"login": "invalid_format"}},

		{"an address without @", params{"email": "anna"}, faults{"email": "invalid_format"}},
		{"an address with a name", params{"email": "Anna <anna@mail.example>"}, faults{"email": "invalid_format"}},
		{"two addresses", params{"email": "a@mail.example, b@mail.example"}, faults{"email": "invalid_format"}},
		{"an address beyond ASCII", params{"email": "анна@mail.example"}, faults{"email": "invalid_format"}},
		{"an address with a line break", params{"email": "a@mail.example\r\nBcc: b@mail.example"}, faults{"email": "invalid_format"}},
		{"an address with a space", params{"email": "a b@mail.example"}, faults{"email": "invalid_format"}},
		{"an address of 255 characters", params{"email": "a@" + strings.Repeat("abcdefghi.", 24) + "abcdefgh.example"}, faults{"email": "too_long"}},

		{"a name of 200 characters", params{"name": strings.Repeat("я", 200)}, nil},
		{"a name of 201 characters", params{"name": strings.Repeat("я", 201)}, faults{"name": "too_long"}},
		{"a name with a line break", params{"name": "Anna\nMaria"}, faults{"name": "invalid_format"}},
		{"a name of another type", params{"name": 5}, faults{"name": "invalid_type"}},

		{"a password of 7 characters", secret("йцукен7"), faults{"password": "too_short"}},
		{"a password of 8 characters", secret("жщъыэю9ф"), nil},
		{"a password of 1024 bytes", secret(strings.Repeat("abcdefg ", 128)), nil},
		{"a password of 1025 bytes", secret(strings.Repeat("abcdefg ", 128) + "x"), faults{"password": "too_long"}},
		{"a common password", secret("password1"), faults{"password": "too_common"}},
		{"the login as password", params{"login": login + "q", "password": login + "q", "confirm_password": login + "q"}, faults{"password": "too_common"}},
		{"the e-mail as password", params{"email": login + "@m.example", "password": login + "@m.example", "confirm_password": login + "@m.example"}, faults{"password": "too_common"}},
		{"letters alone", secret("onlyletterslongenough"), nil},
		{"another confirmation", params{"confirm_password": "correct horse 8"}, faults{"confirm_password": "mismatch"}},

		{"an unknown field", params{"nonsense": "x"}, faults{"nonsense": "unknown_field"}},
		{"an unknown field that is null", params{"nonsense": nil}, faults{"nonsense": "unknown_field"}},
		{"a hidden field", params{"secret_note": "x"}, faults{"secret_note": "read_only"}},
		{"a read-only field", params{"customer_number": "x"}, faults{"customer_number": "read_only"}},
		{"system names", params{"id": 1, "user_id": 1, "user_hash": "x", "login_key": "x", "groups": []string{"admin"}, "roles": "x",
			"disabled": false, "created": "x", "updated": "x", "token": "x"},
			faults{"id": "read_only", "user_id": "read_only", "user_hash": "read_only", "login_key": "read_only", "groups": "read_only",
				"roles": "read_only", "disabled": "read_only", "created": "read_only", "updated": "read_only", "token": "read_only"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			a := s.post(t, "register/", applicant(test.change))
			if test.want == nil {
				a.want(t, "")
				return
			}
			a.wantFaults(t, "validation_failed", test.want)
		})
	}
}

// digits returns digits that go with a unique login.
func digits(login string) string {
	var b strings.Builder
	for _, r := range login {
		b.WriteByte(byte('0' + r%10))
	}
	return b.String()
}
