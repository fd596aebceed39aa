package mailbox

import (
	"errors"
	"fmt"
	"net/mail"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhost/mailer"
)

func put(t *testing.T, dir, name, source string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
}

func names(mails []Mail) string {
	var all []string
	for _, m := range mails {
		all = append(all, strings.TrimSuffix(m.Name, ".eml"))
	}
	return strings.Join(all, " ")
}

func TestList_ReadsCapturedMail(t *testing.T) {
	dir := t.TempDir()
	capture, err := mailer.NewCapture(dir, &mail.Address{Name: "Сайт", Address: "no-reply@example.org"})
	if err != nil {
		t.Fatal(err)
	}
	sent := personal.Mail{ID: "m1", To: "anna@example.com", Subject: "Новый пароль", Text: "Код:\n\nabc\n", HTML: "<p>Код: <b>abc</b></p>\n"}
	if err := capture.Send(t.Context(), sent); err != nil {
		t.Fatal(err)
	}
	page, err := Box(dir).List("", 10)
	if err != nil || len(page.Mails) != 1 {
		t.Fatalf("got %+v, %v, want one mail", page, err)
	}
	want := Mail{From: "Сайт <no-reply@example.org>", To: "<anna@example.com>", Subject: sent.Subject, Text: sent.Text, HTML: sent.HTML}
	got := page.Mails[0]
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Mail{}, "Name", "Date", "Headers")); diff != "" {
		t.Error(diff)
	}
	if got.Date.IsZero() || len(got.Headers) < 6 {
		t.Errorf("got date %v and headers %v", got.Date, got.Headers)
	}
}

func TestList_PagesFromNewest(t *testing.T) {
	dir := t.TempDir()
	for i := range 5 {
		put(t, dir, fmt.Sprintf("%d.eml", i), "Subject: x\r\n\r\n")
	}
	put(t, dir, "other.txt", "")
	put(t, dir, ".hidden.eml", "")
	b := Box(dir)
	before := ""
	for _, want := range []string{"4 3", "2 1", "0"} {
		page, err := b.List(before, 2)
		if err != nil || names(page.Mails) != want {
			t.Fatalf("got %s, %v, want %s", names(page.Mails), err, want)
		}
		before = page.Next
	}
	if before != "" {
		t.Errorf("last page: got next %q, want none", before)
	}
	if page, _ := b.List("", 5); page.Next != "" {
		t.Errorf("full last page: got next %q, want none", page.Next)
	}
}

func TestDelete_OneAndAllSeen(t *testing.T) {
	dir := t.TempDir()
	for i := range 4 {
		put(t, dir, fmt.Sprintf("%d.eml", i), "")
	}
	b := Box(dir)
	if err := b.Delete("1.eml"); err != nil {
		t.Fatal(err)
	}
	if err := b.Delete("1.eml"); !errors.Is(err, ErrNotFound) {
		t.Errorf("second deletion: got %v, want %v", err, ErrNotFound)
	}
	if err := b.Clear("2.eml"); err != nil {
		t.Fatal(err)
	}
	if page, err := b.List("", 9); err != nil || names(page.Mails) != "3" {
		t.Errorf("after Clear: got %s, %v, want 3", names(page.Mails), err)
	}
}

func TestRead_NamesStayInsideFolder(t *testing.T) {
	outside := t.TempDir()
	put(t, outside, "secret.eml", "Subject: secret\r\n\r\n")
	dir := filepath.Join(outside, "mail")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(outside, "secret.eml"), filepath.Join(dir, "link.eml")); err != nil {
		t.Fatal(err)
	}
	b := Box(dir)
	for _, name := range []string{"", ".", "..", "../secret.eml", "/etc/passwd", "a/../../secret.eml", ".eml", "link.eml", "x\x00.eml",
		"missing.eml"} {
		if m, err := b.Read(name); err == nil {
			t.Errorf("reading %q: got %+v, want an error", name, m)
		}
		if err := b.Delete(name); err == nil && name != "link.eml" {
			t.Errorf("deleting %q: got no error", name)
		}
	}
	if _, err := os.Stat(filepath.Join(outside, "secret.eml")); err != nil {
		t.Error(err)
	}
}

func TestParse_AsFarAsPossible(t *testing.T) {
	tests := map[string]struct {
		source string
		want   Mail
	}{
		"plain":       {"Subject: Hi\r\n\r\nHello\r\n", Mail{Subject: "Hi", Text: "Hello\n"}},
		"cut short":   {"Content-Type: multipart/alternative; boundary=b\r\n\r\n--b\r\n\r\nte", Mail{Text: "te", Broken: true}},
		"not a mail":  {"\x00\x01", Mail{Broken: true}},
		"empty":       {"", Mail{Broken: true}},
		"not UTF-8":   {"Subject: \xff\r\n\r\n\xff", Mail{Subject: "\uFFFD", Text: "\uFFFD"}},
		"no boundary": {"Content-Type: multipart/alternative\r\n\r\nx", Mail{Broken: true}},
		"HTML only":   {"Content-Type: text/html\r\n\r\n<p>А</p>", Mail{HTML: "<p>А</p>"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, parse("", []byte(test.source)), cmpopts.IgnoreFields(Mail{}, "Headers")); diff != "" {
				t.Error(diff)
			}
		})
	}
}
