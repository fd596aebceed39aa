package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// relative writes how many texts there are as N.
func relative(out string) string {
	return regexp.MustCompile(`(\d+) of (\d+)`).ReplaceAllStringFunc(out, func(counts string) string {
		var missing, all int
		_, err := fmt.Sscanf(counts, "%d of %d", &missing, &all)
		switch {
		case err != nil:
			return counts
		case missing == 0:
			return "0 of N"
		case missing == all:
			return "N of N"
		}
		return fmt.Sprintf("N-%d of N", all-missing)
	})
}

func TestTextsMissing(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"messages/pl.json": `{"success.auth": "Zalogowano."}`, "pages/pl.json": `{"own_name": "Polski", "cancel": "Anuluj"}`, "admin/pl.json": "{}",
		"mails/recovery.pl.txt": "Subject: Nowe hasło\n\n{{.Token}}\n", "wrong/pl.json": `{"success.auht": "Zalogowano."}`,
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	own := strings.NewReplacer("DIR", dir).Replace("--messages DIR/messages --pages DIR/pages --admin DIR/admin --mails DIR/mails")
	for _, test := range []struct {
		args       string
		want, fail string
	}{
		{args: "uk", want: "messages  0 of N are missing\npages     0 of N are missing\nadmin     0 of N are missing\nmails     0 of N are missing\n"},
		{args: "de-AT", want: "messages  0 of N are missing\n"}, // its parent has all
		{args: "pl", want: "messages  N of N are missing\n"},
		{args: "pl " + own, want: "messages  N-1 of N are missing\npages     N-2 of N are missing\nadmin     N of N are missing\nmails     N-1 of N are missing\nThe missing mails are access_reset, code_refused,"},
		{args: "pl pages " + own, want: "{\n  \"account\": \"Account\",\n"},
		{args: "pl messages", want: "{\n  \"code.account_disabled\": \"This account is disabled."},
		{args: "uk pages", want: "{}\n"},
		{args: "x", fail: `"x" is not a language: write it like de or pt-BR`},
		{args: "pl mails", fail: `there is no part "mails": the parts are messages, pages and admin`},
		{args: "pl --messages " + dir + "/wrong", fail: `--messages: pl.json: there is no text with the key "success.auht"`},
		{args: "pl --pages " + dir + "/none", fail: "--pages: listing the files with texts"},
		{args: "pl --mails " + dir + "/none", fail: "--mails: the folder of mail templates cannot be read"},
	} {
		out, _, err := command(t, append([]string{"texts", "missing"}, strings.Fields(test.args)...)...)
		switch {
		case test.fail != "" && (err == nil || !strings.HasPrefix(err.Error(), test.fail)):
			t.Errorf("%s: got the error %v, want %s", test.args, err, test.fail)
		case test.fail == "" && (err != nil || !strings.HasPrefix(relative(out), test.want)):
			t.Errorf("%s: got %s (%v), want %s", test.args, out, err, test.want)
		}
	}
	if out, _ := mustCommand(t, append([]string{"texts", "missing", "pl", "pages"}, strings.Fields(own)...)...); strings.Contains(out, `"cancel"`) ||
		!strings.Contains(out, `"password_too_short": {`) {
		t.Errorf("got the texts %s, want those that the folder lacks, with their forms", out)
	}
}
