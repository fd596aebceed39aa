package token

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// zero is the text of 32 zero bytes.
var zero = strings.Repeat("A", 43)

// malformed are texts that are not tokens, each for another reason.
var malformed = map[string]string{
	"empty":              "",
	"short":              zero[:42],
	"long":               zero + "A",
	"padded":             zero + "=",
	"padded within":      zero[:42] + "=",
	"standard base64":    zero[:42] + "/",
	"unused bits set":    zero[:42] + "B",
	"line end":           zero[:42] + "\n",
	"line end in excess": zero + "\n",
	"space":              " " + zero[:42],
	"other letters":      strings.Repeat("Ж", 21) + "A",
}

func TestMailDigest_ReturnsDigestOfNewToken(t *testing.T) {
	text, digest := NewMailToken()
	if len(text) != 43 {
		t.Errorf("got %d characters, want 43", len(text))
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(raw) != 32 || sha256.Sum256(raw) != digest {
		t.Errorf("got digest %x of %x (%v), want the SHA-256 of 32 bytes", digest, raw, err)
	}
	if got, ok := MailDigest(text); !ok || got != digest {
		t.Errorf("got %x, %v, want %x", got, ok, digest)
	}
	if other, _ := NewMailToken(); other == text {
		t.Errorf("got the token %s twice", text)
	}
}

func TestDecode_RefusesMalformedTokens(t *testing.T) {
	for name, text := range malformed {
		if digest, ok := MailDigest(text); ok || digest != [32]byte{} {
			t.Errorf("%s: MailDigest accepted it", name)
		}
		if selector, secret, ok := ParseHash(text); ok || selector != (Selector{}) || secret != (Secret{}) {
			t.Errorf("%s: ParseHash accepted it", name)
		}
	}
	if _, _, ok := ParseHash(zero); !ok {
		t.Error("ParseHash refused 32 zero bytes")
	}
}

func TestNewSession_PartsAreRandom(t *testing.T) {
	selector1, secret1, key1 := NewSession()
	selector2, secret2, key2 := NewSession()
	if selector1 == selector2 || secret1 == secret2 || key1 == key2 {
		t.Error("two sessions share a part")
	}
	if selector1 == (Selector{}) || secret1 == (Secret{}) || key1 == (ChainKey{}) {
		t.Error("a part is zero")
	}
}

func bytesOf(t *rapid.T, n int, label string) []byte {
	return rapid.SliceOfN(rapid.Byte(), n, n).Draw(t, label)
}

func TestParseHash_ReadsWhatFormatHashWrites(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		selector, secret := Selector(bytesOf(t, 8, "selector")), Secret(bytesOf(t, 24, "secret"))
		text := FormatHash(selector, secret)
		if len(text) != 43 {
			t.Fatalf("got %d characters, want 43", len(text))
		}
		gotSelector, gotSecret, ok := ParseHash(text)
		if !ok || gotSelector != selector || gotSecret != secret {
			t.Fatalf("%s: got %x, %x, %v, want %x, %x", text, gotSelector[:], gotSecret[:], ok, selector[:], secret[:])
		}
	})
}

// The key and the data of RFC 4231, test case 2, have other lengths, so these values
// come from another implementation (Python's hmac).
func TestNext_IsHMACOfTheSecret(t *testing.T) {
	var key ChainKey
	var secret Secret
	for i := range key {
		key[i] = byte(i)
	}
	for i := range secret {
		secret[i] = byte(0x80 + i)
	}
	next := secret.Next(key)
	if got := hex.EncodeToString(next[:]); got != "2522b255aaea1970c73eb500df0d2ec6b300a5458c9f3c04" {
		t.Errorf("got next secret %s", got)
	}
	digest := secret.Digest()
	if got := hex.EncodeToString(digest[:]); got != "caaa103f63119c936c7ef540cf0ef850a93f0a7d1a3faffcfc1e9ff87280704c" {
		t.Errorf("got digest %s", got)
	}
}

func stepsOn(key ChainKey, s Secret, steps int) Secret {
	for range steps {
		s = s.Next(key)
	}
	return s
}

func TestDistance_FindsCurrentSecretWithinMaxSteps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key, first := ChainKey(bytesOf(t, 32, "key")), Secret(bytesOf(t, 24, "secret"))
		want := rapid.IntRange(0, 200).Draw(t, "steps")
		maxSteps := rapid.IntRange(0, 200).Draw(t, "max steps")
		current := stepsOn(key, first, want)
		steps, secret, ok := Distance(key, first, current.Digest(), int64(maxSteps))
		if want > maxSteps {
			if ok || steps != 0 || secret != (Secret{}) {
				t.Fatalf("got %d steps, %v beyond the maximum of %d, want none", steps, ok, maxSteps)
			}
			return
		}
		if !ok || steps != int64(want) || secret != current {
			t.Fatalf("got %d steps, %v, want %d", steps, ok, want)
		}
	})
}

func TestDistance_RefusesSecretsOutsideTheChain(t *testing.T) {
	_, first, key := NewSession()
	_, other, otherKey := NewSession()
	current := stepsOn(key, first, 3)
	for name, test := range map[string]struct {
		key    ChainKey
		secret Secret
	}{
		"the secret of another session": {key, other},
		"another chain key":             {otherKey, first},
		"a later secret":                {key, current.Next(key)},
	} {
		if _, secret, ok := Distance(test.key, test.secret, current.Digest(), 64); ok || secret != (Secret{}) {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestSecret_IsRedactedWhenFormatted(t *testing.T) {
	_, secret, key := NewSession()
	type row struct {
		Secret Secret
		Key    *ChainKey
		Keys   map[string]ChainKey
	}
	holder := row{secret, &key, map[string]ChainKey{"a": key}}
	var forms []string
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%b"} {
		for _, v := range []any{secret, key, holder, []Secret{secret}} {
			forms = append(forms, fmt.Sprintf(verb, v))
		}
	}
	var log bytes.Buffer
	for _, handler := range []slog.Handler{slog.NewTextHandler(&log, nil), slog.NewJSONHandler(&log, nil)} {
		slog.New(handler).Info("x", "secret", secret, "row", holder)
	}
	marshalled, err := json.Marshal(holder)
	if err != nil {
		t.Fatal(err)
	}
	forms = append(forms, log.String(), string(marshalled))
	for _, form := range forms {
		for _, hidden := range [][]byte{secret[:], key[:]} {
			for _, spelling := range []string{
				string(hidden[:4]), fmt.Sprintf("%x", hidden[:4]), fmt.Sprintf("%X", hidden[:4]), fmt.Sprintf("%d %d %d %d", hidden[0], hidden[1], hidden[2], hidden[3]),
				fmt.Sprintf("%d,%d,%d,%d", hidden[0], hidden[1], hidden[2], hidden[3]), base64.StdEncoding.EncodeToString(hidden[:6]),
			} {
				if strings.Contains(form, spelling) {
					t.Errorf("%q reveals a secret", form)
				}
			}
		}
		if !strings.Contains(form, redacted) && !strings.Contains(form, "0x") {
			t.Errorf("got %q, want a placeholder in it", form)
		}
	}
}

func TestParseHash_DoesNotAllocate(t *testing.T) {
	selector, secret, key := NewSession()
	text, current := FormatHash(selector, secret), secret.Digest()
	if n := testing.AllocsPerRun(100, func() { ParseHash(text) }); n > 0 {
		t.Errorf("ParseHash: got %v allocations, want 0", n)
	}
	if n := testing.AllocsPerRun(100, func() { Distance(key, secret, current, 64) }); n > 0 {
		t.Errorf("Distance of the current secret: got %v allocations, want 0", n)
	}
}

func FuzzParseHash(f *testing.F) {
	for _, text := range malformed {
		f.Add(text)
	}
	f.Add(zero)
	f.Add(FormatHash(Selector{1, 2, 3}, Secret{0xff, 0xfe}))
	f.Fuzz(func(t *testing.T, text string) {
		selector, secret, ok := ParseHash(text)
		if _, isMail := MailDigest(text); isMail != ok {
			t.Fatal("MailDigest and ParseHash accept different texts")
		}
		if ok && FormatHash(selector, secret) != text {
			t.Fatalf("%q is not the canonical text of its bytes", text)
		}
		if !ok && (selector != Selector{} || secret != Secret{}) {
			t.Fatal("a refused text returned a selector or a secret")
		}
	})
}
