package main

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/mailtext"
	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

func TestMailList_NamesKindsAndFields(t *testing.T) {
	out, _ := mustCommand(t, "mail", "list")
	for _, d := range mailtext.Descriptions() {
		if !strings.Contains(out, string(d.Kind)+" ") {
			t.Errorf("got no kind %s:\n%s", d.Kind, out)
		}
		for _, f := range d.Fields {
			if !strings.Contains(out, f.Meaning()) {
				t.Errorf("got no meaning of .%s:\n%s", f, out)
			}
		}
	}
}

func TestMailList_WritesTemplatesThatLoad(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "mails")
	if out, _, err := command(t, "mail", "list", "--write", dir); err != nil || !strings.Contains(out, " templates written") {
		t.Fatalf("got %q (%v), want the number of templates", out, err)
	}
	if _, err := mailtext.Load(dir); err != nil {
		t.Error(err)
	}
}

func TestMailList_OverwritesNothing(t *testing.T) {
	file := write(t, "recovery.en.txt", "mine")
	dir := filepath.Dir(file)
	_, _, err := command(t, "mail", "list", "--write", dir)
	if err == nil || !strings.Contains(err.Error(), "recovery.en.txt exists already, nothing was written") {
		t.Errorf("got %v, want an error that names the file", err)
	}
	files, err := fs.Glob(os.DirFS(dir), "*")
	if content, _ := os.ReadFile(file); err != nil || len(files) != 1 || string(content) != "mine" {
		t.Errorf("got files %q (%v), want only the one that was there, unchanged", files, err)
	}
}

func TestMailPreview_PrintsWhatWouldBeSent(t *testing.T) {
	dir := filepath.Dir(write(t, "recovery.de.txt", "Subject: Neues Passwort\n\nIhr Code: {{.Token}}\n"))
	if err := os.WriteFile(filepath.Join(dir, "recovery.de.html"), []byte("<b>{{.Token}}</b>\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	token := mailtext.Sample().Token
	for _, test := range []struct{ args, want string }{
		{"recovery --locale de --templates " + dir, "Subject: Neues Passwort\n\nIhr Code: " + token + "\n"},
		{"recovery --locale de-AT --html --templates " + dir, "<b>" + token + "</b>\n"},
		{"session_theft --locale ru", "Subject: Example: Сеанс вашей учётной записи завершён\n\nСеанс"},
		{"session_theft", "Subject: Example: A session of your account was ended\n\nA session of your account at Example was"},
	} {
		if out, _, err := command(t, append([]string{"mail", "preview"}, strings.Fields(test.args)...)...); err != nil ||
			!strings.HasPrefix(out, test.want) {
			t.Errorf("%s: got %q (%v), want %q", test.args, out, err, test.want)
		}
	}
}

func TestMailPreview_All(t *testing.T) {
	dir := filepath.Dir(write(t, "recovery.de.txt", "Subject: Neues Passwort\n\nIhr Code: {{.Token}}\n"))
	out, _ := mustCommand(t, "mail", "preview", "--all", "--templates", dir)
	for _, d := range mailtext.Descriptions() {
		for _, locale := range personal.Languages() {
			if n := strings.Count(out, "=== "+string(d.Kind)+" "+locale+"\nSubject: "); n != 1 {
				t.Errorf("%s %s: got it %d times", d.Kind, locale, n)
			}
		}
	}
	if !strings.Contains(out, "=== recovery de\nSubject: Neues Passwort\n\nIhr Code: ") {
		t.Error("the site's own template is missing")
	}
}

func TestMailPreview_ErrorsNameWhatExists(t *testing.T) {
	dir := filepath.Dir(write(t, "deletion.de.txt", "Subject: Gelöscht\n\n{{.Tokn}}\n"))
	for _, test := range []struct{ args, want string }{
		{"", "name the kind of a mail, or give --all"},
		{"recovery --all", "name the kind of a mail, or give --all"},
		{"recover", `there is no mail "recover": the kinds are recovery, invitation, email_change`},
		{"recovery --locale pl", `--locale: there is no mail recovery in "pl", its reader gets en: the locales are en, de, es, fr, pt-BR, uk, ru`},
		{"recovery --locale German!", "--locale: \"German!\" is not a locale"},
		{"recovery --templates " + dir, "--templates: " + dir + "/deletion.de.txt:3:2: .Tokn does not exist"},
		{"recovery --templates /nonexistent", "--templates: the folder of mail templates cannot be read"},
	} {
		if _, _, err := command(t, append([]string{"mail", "preview"}, strings.Fields(test.args)...)...); err == nil ||
			!strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", test.args, err, test.want)
		}
	}
}

func TestPreflight_ChecksMailTemplates(t *testing.T) {
	for name, test := range map[string]struct{ content, reason string }{ // and one of a made-up 0.3.0
		"valid":   {"Subject: Neues Passwort\n\n{{.Token}}\n", ""},
		"invalid": {"Subject: Neues Passwort\n\n{{.Tokn}}\n", "/recovery.de.txt:3:2: .Tokn does not exist"},
	} {
		dir := filepath.Dir(write(t, "recovery.de.txt", test.content))
		if err := os.WriteFile(filepath.Join(dir, "passkey_renamed.de.txt"), []byte("Subject: {{.Later}}\n\n{{.Later}}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		m, err := builder(newMeasurements(), slog.New(slog.DiscardHandler), nil)(t.Context(), rpc.Configuration{
			DatabaseURL: "sqlite://" + filepath.Join(t.TempDir(), "personal.db"),
			Settings:    []byte("[mail]\ntemplates = \"" + dir + "\"\n"),
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		report, err := m.Preflight(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got, prefix := refusal(report), "mail: mail.templates: "+dir+test.reason; test.reason == "" && got != "" ||
			test.reason != "" && !strings.HasPrefix(got, prefix) {
			t.Errorf("%s templates: got the refusal %q, want the reason %q", name, got, test.reason)
		}
		warned := slices.ContainsFunc(report.Checks, func(c rpc.Check) bool {
			return c.Warning && strings.HasPrefix(c.Reason, "mail.templates: "+dir+"/passkey_renamed.de.txt: there is no mail")
		})
		if !warned {
			t.Errorf("%s templates: got %v, want a warning of the unknown kind", name, report.Checks)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestBuilder_LinksToTheHostsPages shows what mails link to, and without them if the host names no URL.
func TestBuilder_LinksToTheHostsPages(t *testing.T) {
	for url, want := range map[string]string{
		"":                            "",
		"https://example.com/account": "https://example.com/account/recover#token={token}",
		"https://example.com/?a=b":    "the URL of the account pages",
	} {
		m, err := builder(newMeasurements(), slog.New(slog.DiscardHandler), nil)(t.Context(), rpc.Configuration{
			DatabaseURL: "sqlite://" + filepath.Join(t.TempDir(), "personal.db"), AccountURL: url,
		}, nil)
		if err != nil {
			if !errors.As(err, new(*rpc.PermanentError)) || want == "" || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%q: got error %v, want %q", url, err, want)
			}
			continue
		}
		if got := m.(*module).settings.accounts().RecoveryURL; got != want {
			t.Errorf("%q: got the link %q, want %q", url, got, want)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestHealth_SaysThatTheRelayRefusesTheSite(t *testing.T) {
	host := &personaltest.Host{}
	built, err := builder(newMeasurements(), slog.New(slog.DiscardHandler), nil)(t.Context(),
		rpc.Configuration{DatabaseURL: testdb.SQLite(t), SecretKeys: [][]byte{secretKey("a")}}, host)
	if err != nil {
		t.Fatal(err)
	}
	n := &node{module: built.(*module)}
	defer n.Close()
	n.begin(t)
	if _, err := n.service.Register(t.Context(), personal.RegisterRequest{
		Login: "anna", Password: personaltest.Password, ConfirmPassword: personaltest.Password, Email: "anna@example.com"}); err != nil {
		t.Fatal(err)
	}
	if err := n.service.Recover(t.Context(), personal.RecoverRequest{Login: "anna"}); err != nil {
		t.Fatal(err)
	}
	jobs, err := n.store.ClaimJobs(t.Context(), outbox.Claim{Kinds: []outbox.Kind{accounts.KindRecovery}, N: 1, Lease: time.Minute})
	if err != nil || len(jobs) != 1 {
		t.Fatalf("got jobs %v (%v), want one", jobs, err)
	}
	for _, step := range []struct {
		reply string
		warns bool
	}{{"450 4.2.0", false}, {"554 5.7.1", true}, {"450 4.2.0", true}, {"", false}} {
		host.SendMailFunc = func(context.Context, personal.Mail) error {
			if step.reply == "" {
				return nil
			}
			return &personal.MailFailedError{Reply: step.reply}
		}
		if err := n.worker.Handlers[accounts.KindRecovery](t.Context(), jobs[0]); (err == nil) != (step.reply == "") {
			t.Errorf("after %q: got %v", step.reply, err)
		}
		warnings, err := n.Health(t.Context())
		if err != nil || strings.Contains(strings.Join(warnings, ""), "the mail relay refuses mails of this site with 554 5.7.1") != step.warns {
			t.Errorf("after %q: got the warnings %q (%v), want one: %t", step.reply, warnings, err, step.warns)
		}
	}
}
