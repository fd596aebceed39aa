package main

import (
	"encoding/base64"
	"net/netip"
	"strings"
	"testing"

	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

func TestHealth_SaysThatLoginsAreCountedForTheProcess(t *testing.T) {
	url := testdb.SQLite(t)
	warnings := func(letters string) string {
		t.Helper()
		c := rpc.Configuration{DatabaseURL: url}
		for _, letter := range letters {
			c.SecretKeys = append(c.SecretKeys, secretKey(string(letter)))
		}
		m := newNode(t, c)
		m.begin(t)
		all, err := m.Health(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.service.Authorize(t.Context(), personal.AuthorizeRequest{Login: "ada", Password: "wrong"}); personal.CodeOf(err) != personal.CodeInvalidCredentials {
			t.Errorf("with keys %q: got %v, want that sign-in goes on", letters, err)
		}
		return strings.Join(all, "; ")
	}
	for _, step := range []struct{ letters, want string }{
		{"", "because the host has no secret key"}, {"a", ""}, {"ba", ""}, {"c", "because the secret key that encrypts the login key is missing"},
	} {
		if got := warnings(step.letters); step.want == "" && got != "" || !strings.Contains(got, step.want) {
			t.Errorf("with keys %q: got the warnings %q, want %q", step.letters, got, step.want)
		}
	}
	t.Setenv("PERSONAL_DATABASE", url)
	if out, _ := mustCommand(t, "status"); !strings.HasSuffix(out, "\nlogins    counted under a key that the secret key "+keyID(t, "a")+" encrypts\n") {
		t.Errorf("got\n%s", out)
	}
}

func TestUser_LimitsOfLoginsNeedTheSecretKey(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		m := newNode(t, rpc.Configuration{DatabaseURL: url, SecretKeys: [][]byte{secretKey("a")}})
		m.begin(t)
		t.Setenv("PERSONAL_DATABASE", url)
		mustCommand(t, "user", "create", "anna")
		ctx := personal.WithCall(t.Context(), personal.Call{Address: netip.MustParseAddr("192.0.2.1")})
		guess := func() personal.Code {
			_, err := m.service.Authorize(ctx, personal.AuthorizeRequest{Login: "Anna", Password: "wrong"})
			return personal.CodeOf(err)
		}
		for n := 0; guess() == personal.CodeInvalidCredentials; n++ {
			if n > 20 {
				t.Fatal("no limit holds")
			}
		}
		file := write(t, "secret.key", base64.StdEncoding.EncodeToString(secretKey("a"))+"\n")
		const hidden, held = "The limits guess and guess_account are not", "Too many wrong passwords for anna"
		for _, step := range []struct {
			args          string
			hidden, shown bool
			want          personal.Code
		}{
			{"user explain anna --address 192.0.2.1", true, false, personal.CodeTooManyAttempts},
			{"user explain anna --address 192.0.2.1 --json", true, false, personal.CodeTooManyAttempts},
			{"user explain anna --secret-key " + file + " --address 192.0.2.1", false, true, personal.CodeTooManyAttempts},
			{"user lift-limits anna --address 192.0.2.1", true, false, personal.CodeTooManyAttempts},
			{"user lift-limits anna --secret-key " + file + " --address 192.0.2.1", false, false, personal.CodeInvalidCredentials},
		} {
			out, _ := mustCommand(t, strings.Fields(step.args)...)
			if strings.Contains(out, hidden) != step.hidden || strings.Contains(out, held) != step.shown {
				t.Errorf("%s: got %s", step.args, out)
			}
			if got := guess(); got != step.want {
				t.Errorf("after %s: got %s, want %s", step.args, got, step.want)
			}
		}
	})
}
