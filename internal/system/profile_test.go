package system

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"testing"
)

func testProfile(t *testing.T, s *system) {
	t.Run("holds login, name, email and every shown field in order", func(t *testing.T) {
		u := s.newUser(t)
		want := append([]string{"login", "name", "email"}, shownFields...)
		for _, a := range []*answer{
			s.getAs(t, u.pair, "profile/").wantData(t, "user_profile"),
			s.postAs(t, u.pair, "profile/", params{}).wantData(t, "user_profile"),
			s.post(t, "auth/", params{"login": u.login, "password": u.password}),
			s.post(t, "register/", applicant(nil)),
		} {
			if got := orderedKeys(t, a.Data["user_profile"]); !slices.Equal(got, want) {
				t.Errorf("user_profile has %q, want %q", got, want)
			}
		}
	})
	t.Run("a default is applied at registration and can be cleared", func(t *testing.T) {
		u := s.newUser(t)
		if got := s.getAs(t, u.pair, "profile/").profile(t)["newsletter"]; got != false {
			t.Errorf("the default of newsletter is %v", got)
		}
		if got := s.postAs(t, u.pair, "profile/", params{"newsletter": nil}).profile(t)["newsletter"]; got != nil {
			t.Errorf("newsletter, cleared, is %v", got)
		}
	})
	t.Run("an update changes what is sent and nothing else", func(t *testing.T) {
		u := s.newUser(t)
		s.postAs(t, u.pair, "profile/", params{"name": "Anna", "age": 30, "interests": []string{"go"}}).want(t, "")
		s.do(t, call{path: "profile/", as: u.pair, form: map[string][]string{"age": {"31"}, "name": {""}}}).want(t, "")
		got := s.getAs(t, u.pair, "profile/").profile(t)
		if got["age"] != 31.0 || got["name"] != nil || len(got["interests"].([]any)) != 1 {
			t.Errorf("user_profile is %v", got)
		}
	})
	t.Run("a refused update changes nothing", func(t *testing.T) {
		u := s.newUser(t)
		s.postAs(t, u.pair, "profile/", params{"age": 30, "colour": "green", "nonsense": 1}).
			wantFaults(t, "validation_failed", faults{"colour": "not_in_list", "nonsense": "unknown_field"})
		if got := s.getAs(t, u.pair, "profile/").profile(t)["age"]; got != nil {
			t.Errorf("age is %v", got)
		}
	})
	t.Run("an update cannot touch what has operations of its own", func(t *testing.T) {
		u := s.newUser(t)
		for _, name := range []string{"login", "email", "password", "confirm_password", "disabled", "id", "created"} {
			a := s.postAs(t, u.pair, "profile/", params{name: "changed"}).want(t, "validation_failed")
			if code := a.Result.Fields[name].Code; code != "read_only" && code != "unknown_field" {
				t.Errorf("%s is refused as %q", name, code)
			}
		}
	})
	t.Run("fields/ tells how to draw a form, in the caller's language", func(t *testing.T) { testFieldList(t, s) })
}

func testFieldList(t *testing.T, s *system) {
	for language, want := range map[string][2]string{"en": {"Phone", "Red"}, "ru": {"Телефон", "Красный"}} {
		a := s.do(t, call{method: http.MethodGet, path: "fields/", header: http.Header{"Accept-Language": {language}}}).wantData(t, "fields")
		var fields []struct {
			Name, Type, Label, Group, Pattern string
			Required                          bool
			ReadOnly                          bool     `json:"read_only"`
			MaxLength                         int      `json:"max_length"`
			MaxItems                          int      `json:"max_items"`
			Min, Max                          *float64 // absent: without limit
			Options                           []struct{ Value, Label string }
		}
		a.read(t, "fields", &fields)
		names := []string{}
		for _, f := range fields {
			names = append(names, f.Name)
			switch {
			case f.Name == "phone" && (f.Label != want[0] || f.Type != "text" || f.Group != "contact" || f.Pattern != `\+[0-9]{5,15}` || f.MaxLength != 1000),
				f.Name == "friends" && (f.MaxLength != 255 || f.MaxItems != 1000),
				f.Name == "colour" && (len(f.Options) != 2 || f.Options[0].Value != "red" || f.Options[0].Label != want[1]),
				f.Name == "about" && f.MaxLength != 10,
				f.Name == "age" && (f.Min == nil || *f.Min != 0 || f.Max == nil || *f.Max != 150),
				f.ReadOnly != (f.Name == "customer_number"):
				t.Errorf("in %s the field is %+v", language, f)
			}
		}
		if !slices.Equal(names, shownFields) {
			t.Errorf("fields are %q, want %q", names, shownFields)
		}
	}
}

// orderedKeys returns the names in a flat JSON object as they stand.
func orderedKeys(t testing.TB, object []byte) (keys []string) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(object))
	if _, err := d.Token(); err != nil {
		t.Fatal(err)
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			t.Fatal(err)
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key.(string))
	}
	return keys
}
