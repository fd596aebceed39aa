package accounts

import (
	"encoding/base32"
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

// The secret of RFC 6238's vectors for SHA-1 (appendix B).
var vectorSecret = []byte("12345678901234567890")

// Codes of 6 digits are the last 6 of the vectors' 8.
func TestMatchStep_RFC6238Vectors(t *testing.T) {
	for seconds, code := range map[int64]string{
		59: "94287082", 1111111109: "07081804", 1111111111: "14050471",
		1234567890: "89005924", 2000000000: "69279037", 20000000000: "65353130",
	} {
		step, err := matchStep(vectorSecret, code[2:], time.Unix(seconds, 0), 0)
		if err != nil || step != seconds/30 {
			t.Errorf("at %d s: got step %d, error %v; want step %d", seconds, step, err, seconds/30)
		}
	}
}

func TestMatchStep_AllowsOneStepOfDrift(t *testing.T) {
	const step = 1234567890 / 30
	first := time.Unix(step*30, 0) // of the step
	for _, c := range []struct {
		now  time.Time
		last int64
		want int64
	}{
		{first.Add(-30*time.Second - 1), 0, 0},
		{first.Add(-30 * time.Second), 0, step},
		{first, 0, step},
		{first.Add(60*time.Second - 1), 0, step},
		{first.Add(60 * time.Second), 0, 0},
		{first, step - 1, step},
		{first, step, 0},
		{first, step + 1, 0},
	} {
		got, err := matchStep(vectorSecret, "005924", c.now, c.last)
		if got != c.want || (c.want == 0) != errors.Is(err, errWrongCode) {
			t.Errorf("%v after the step, last step %d: got %d (%v), want %d", c.now.Sub(first), c.last-step, got, err, c.want)
		}
	}
}

// Neighbouring steps may have the same code: of one in a million.
func TestMatchStep_OldestUnusedStepCounts(t *testing.T) {
	secret, code := []byte("3\x82,45678901234567890"), "064759" // of the steps 100 and 101
	now := time.Unix(100*codePeriod, 0)
	for last, want := range map[int64]int64{0: 100, 99: 100, 100: 101, 101: 0} {
		if got, _ := matchStep(secret, code, now, last); got != want {
			t.Errorf("last step %d: got step %d, want %d", last, got, want)
		}
	}
}

func TestTwoFactorSecret_EscapesIssuerAndLogin(t *testing.T) {
	for _, c := range []struct{ issuer, login, label string }{
		{"personal", "ada", "personal:ada"},
		{"Fish & Chips", "ada@example.com", "Fish%20%26%20Chips:ada%40example.com"},
		{"50% + tax?", "a/b#c d", "50%25%20%2B%20tax%3F:a%2Fb%23c%20d"},
		{"Кухня", "Ünter", "%D0%9A%D1%83%D1%85%D0%BD%D1%8F:%C3%9Cnter"},
	} {
		got := twoFactorSecret(c.issuer, c.login, vectorSecret)
		const secret = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ"
		if prefix := "otpauth://totp/" + c.label + "?secret=" + secret + "&issuer="; got.Secret != secret || !strings.HasPrefix(got.URI, prefix) {
			t.Errorf("got %+v, want the secret %s and a URI that begins with %s", got, secret, prefix)
		}
		u, err := url.Parse(got.URI)
		if err != nil {
			t.Fatal(err)
		}
		q := u.Query()
		if u.Path != "/"+c.issuer+":"+c.login || q.Get("issuer") != c.issuer || q.Get("secret") != secret || len(q) != 5 ||
			q.Get("algorithm") != "SHA1" || q.Get("digits") != "6" || q.Get("period") != "30" {
			t.Errorf("%s: got path %q and parameters %v", got.URI, u.Path, q)
		}
	}
}

func TestNewRecoveryCodes_AreTenDifferentOnes(t *testing.T) {
	codes, digests := newRecoveryCodes()
	if len(codes) != 10 || len(digests) != 10 {
		t.Fatalf("got %d codes and %d digests, want 10", len(codes), len(digests))
	}
	seen := map[string]bool{}
	for i, code := range codes {
		groups := strings.Split(code, "-")
		if len(groups) != 6 || slices.ContainsFunc(groups, func(g string) bool { return len(g) != 4 }) || seen[code] {
			t.Errorf("got code %d with %d groups, want 6 of four characters, once", i, len(groups))
		}
		seen[code] = true
		for _, spelled := range []string{code, strings.ToLower(code), strings.ReplaceAll(code, "-", ""),
			" " + strings.ReplaceAll(code, "-", "\u2013 ")} {
			if _, digest := parseCode(spelled); digest != digests[i] {
				t.Errorf("code %d, written otherwise: got another digest", i)
			}
		}
	}
}

func FuzzParseCode_AcceptsOnlyTheTwoForms(f *testing.F) {
	for _, seed := range []string{"", "123456", "123 456", "12-34-56", "1234567", "１２３４５６", "12345\n6", "+12345",
		"abcd-efgh-ijkl-mnop-qrst-uvwx",
		"ABCDEFGHIJKLMNOPQRSTUVW=", "2222222222222222222222222", "ABCDEFGHIJKLMNOPQRSTUVW1", "\xff\xfe", "ſBCDEFGHIJKLMNOPQRSTUVWX"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, entered string) {
		code, digest := parseCode(entered)
		recovery := digest != [32]byte{}
		if code == "" && !recovery {
			return
		}
		rest := strings.NewReplacer(" ", "", "-", "").Replace(strings.ToUpper(entered))
		switch {
		case code != "" && recovery:
			t.Errorf("%q is both", entered)
		case code != "":
			if len(code) != 6 || strings.Trim(code, "0123456789") != "" || !containsInOrder(rest, code) {
				t.Errorf("%q: got a code that is not the 6 digits of it", entered)
			}
		default:
			kept := strings.Map(func(r rune) rune {
				if strings.ContainsRune("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", r) {
					return r
				}
				return -1
			}, rest)
			if _, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(kept); err != nil || len(kept) != 24 {
				t.Errorf("%q: got a recovery code that is not 24 characters of base32", entered)
			}
		}
	})
}

// containsInOrder reports whether all bytes of part are in text, in this order.
func containsInOrder(text, part string) bool {
	for i := range len(part) {
		at := strings.IndexByte(text, part[i])
		if at < 0 {
			return false
		}
		text = text[at+1:]
	}
	return true
}
