package system

import (
	"net/http"
	"strconv"
	"testing"
)

// testIdentity shows headers that identify nobody: one answer for all of them.
func testIdentity(t *testing.T, s *system) {
	u, other := s.newUser(t), s.newUser(t)
	id := strconv.FormatInt(u.ID, 10)
	none := s.do(t, call{method: http.MethodGet, path: "profile/"}).want(t, "unauthenticated")
	tests := []struct {
		name     string
		id, hash []string
	}{
		{"no hash", []string{id}, nil},
		{"no id", nil, []string{u.Hash}},
		{"empty headers", []string{""}, []string{""}},
		{"two ids", []string{id, id}, []string{u.Hash}},
		{"two hashes", []string{id}, []string{u.Hash, u.Hash}},
		{"a list of ids", []string{id + ", " + id}, []string{u.Hash}},
		{"an id with a leading zero", []string{"0" + id}, []string{u.Hash}},
		{"an id with a sign", []string{"+" + id}, []string{u.Hash}},
		{"a negative id", []string{"-" + id}, []string{u.Hash}},
		{"a fraction", []string{id + ".0"}, []string{u.Hash}},
		{"an exponent", []string{id + "e0"}, []string{u.Hash}},
		{"hexadecimal", []string{"0x1"}, []string{u.Hash}},
		{"nought", []string{"0"}, []string{u.Hash}},
		{"2^53", []string{"9007199254740992"}, []string{u.Hash}},
		{"a number beyond 64 bits", []string{"99999999999999999999999999"}, []string{u.Hash}},
		{"other digits", []string{"١"}, []string{u.Hash}},
		{"text", []string{"anna"}, []string{u.Hash}},
		{"the login", []string{u.login}, []string{u.Hash}},
		{"an unknown id", []string{"9007199254740991"}, []string{u.Hash}},
		{"another's id", []string{strconv.FormatInt(other.ID, 10)}, []string{u.Hash}},
		{"another's hash", []string{id}, []string{other.Hash}},
		{"a short hash", []string{id}, []string{u.Hash[1:]}},
		{"a long hash", []string{id}, []string{u.Hash + "A"}},
		{"a padded hash", []string{id}, []string{u.Hash + "="}},
		{"a hash of other characters", []string{id}, []string{"+/" + u.Hash[2:]}},
		{"a hash with another beginning", []string{id}, []string{flip(u.Hash, 0)}},
		{"a hash with another end", []string{id}, []string{flip(u.Hash, 40)}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			header := http.Header{}
			if test.id != nil {
				header["User-Id"] = test.id
			}
			if test.hash != nil {
				header["User-Hash"] = test.hash
			}
			for _, path := range []string{"profile/", "auth_refresh/", "sessions/"} {
				a := s.do(t, call{method: http.MethodGet, path: path, header: header}).want(t, "unauthenticated")
				if string(a.Raw) != string(none.Raw) {
					t.Errorf("GET %s answers %s, without headers %s", path, a.Raw, none.Raw)
				}
			}
		})
	}
	s.wantAlive(t, "the hash, after all of that,", u.pair)
}

// flip changes one character of a hash to another of the same alphabet.
func flip(hash string, at int) string {
	other := "A"
	if hash[at] == 'A' {
		other = "B"
	}
	return hash[:at] + other + hash[at+1:]
}
