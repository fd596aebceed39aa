package dump_test

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/cms-personal/personal/internal/transfer/dump"
)

func readRealm(r io.Reader) (users []string, err error) {
	err = dump.ReadRealm(r, func(line int, u dump.User) error {
		users = append(users, fmt.Sprintf("%d: %s %s %d", line, u.Username, u.Attributes["city"], len(u.Credentials)))
		return nil
	})
	return users, err
}

func TestReadRealm_Users(t *testing.T) {
	const users = `"users" : [ {
  "username" : "ada", "attributes" : { "city" : [ "kazan" ] }, "credentials" : [ { "type" : "password" } ], "groups" : [ "/users" ]
}, {
  "username" : "bob" } ]`
	for name, text := range map[string]string{
		"a realm":         "{\n \"realm\" : \"users\", \"roles\" : { \"users\" : [ { \"name\" : \"x\" } ] }, \"list\" : [ [ 1 ] ],\n" + users + ", \"clients\" : [ ] }\n",
		"a list of one":   "[{\n\n" + users + "}]",
		"a file of users": "{\n\"realm\" : \"x\",\n" + users + "}",
	} {
		got, err := readRealm(strings.NewReader(text))
		if want := "[3: ada [kazan] 1 5: bob [] 0]"; err != nil || fmt.Sprint(got) != want {
			t.Errorf("%s: got %v, %v, want %s", name, got, err, want)
		}
	}
}

func TestReadRealm_HostileExportEndsWithItsLine(t *testing.T) {
	for name, test := range map[string]struct {
		r    io.Reader
		want string
	}{
		"no JSON":        {strings.NewReader("\n\nx"), "line 3: this is no export"},
		"a text":         {strings.NewReader(`"users"`), "line 1: this is no export"},
		"cut off":        {strings.NewReader("{\"users\":[{\"username\":\"a\"}\n,{"), "line 2: the export is cut off"},
		"no users":       {strings.NewReader("{}"), "line 1: the file has no users"},
		"several realms": {strings.NewReader("[{\"users\":[]},\n{\"users\":[]}]"), "line 2: the file has the users of several realms"},
		"another type":   {strings.NewReader("{\"users\":[\n{\"username\":1}]}"), "line 2: this is no export of a realm: a user's username is of another type"},
		"text after it":  {strings.NewReader("{\"users\":[]}\n{}"), "line 2: this is no export"},
		"a long value":   {repeated("{\n\"x\":\"", strings.Repeat("a", 8<<10), "\"}", 64<<20), "line 2: a value, or a user, is longer"},
		"a long user":    {repeated("{\"users\":[\n{\"x\":[1", strings.Repeat(",1", 4<<10), "]}]}", 64<<20), "line 2: a value, or a user, is longer"},
		"deep nesting":   {repeated("{\n\"x\":", strings.Repeat("[", 8<<10), "", 64<<20), "line 2: from here on, objects and lists are nested more than 100 levels deep"},
		"many lines":     {repeated("{\"users\":[{\"x\":[1", strings.Repeat("\n", 8<<10), "]}]}", 64<<20), "line 1: a value, or a user, is longer"},
	} {
		if got, err := readRealm(test.r); err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%s: got %v, %v, want %s", name, got, err, test.want)
		}
	}
}

func FuzzReadRealm(f *testing.F) {
	f.Add(`{"realm":"x","roles":{"users":[{}]},"users":[{"username":"a","enabled":true,"attributes":{"b":["c"]}},{}]}`)
	f.Add(`[{"users":[]}]`)
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := readRealm(strings.NewReader(text)); err != nil && !strings.HasPrefix(err.Error(), "line ") {
			t.Errorf("got %v, want an error with a line", err)
		}
	})
}
