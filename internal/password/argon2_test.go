package password

import (
	"encoding/hex"
	"errors"
	"strings"
	"testing"
)

// Published by the reference implementation: phc-winner-argon2, src/test.c.
func TestArgon2id_AgreesWithReferenceImplementation(t *testing.T) {
	for _, v := range []struct{ encoded, key, password string }{
		{"$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4",
			"9dfeb910e80bad0311fee20f9c0e2b12c17987b4cac90c2ef54d5b3021c68bfe", "password"},
		{"$argon2id$v=19$m=256,t=2,p=2$c29tZXNhbHQ$bQk8UB/VmZZF4Oo79iDXuL5/0ttZwg2f/5U52iv1cDc",
			"6d093c501fd5999645e0ea3bf620d7b8be7fd2db59c20d9fff9539da2bf57037", "password"},
	} {
		s, err := parse(v.encoded)
		if err != nil {
			t.Fatal(err)
		}
		h := *s.made
		if got := hex.EncodeToString(h.key); got != v.key {
			t.Errorf("%s: got key %s, want %s", v.encoded, got, v.key)
		}
		if !h.matches(v.password) {
			t.Errorf("%s: got no match of its password", v.encoded)
		}
		if h.matches("Password") {
			t.Errorf("%s: got a match of another password", v.encoded)
		}
	}
}

const (
	salt16 = "c2FsdHNhbHRzYWx0c2FsdA"
	key32  = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY"
)

func TestParse_RefusesArgon2OutsideLimits(t *testing.T) {
	const good = "$argon2id$v=19$m=64,t=1,p=1$" + salt16 + "$" + key32
	if _, err := parse(good); err != nil {
		t.Fatal(err)
	}
	if _, err := parse(strings.Replace(good, "m=64,t=1", "m=65536,t=16", 1)); err != nil {
		t.Errorf("the maximum costs: %v", err)
	}
	for name, encoded := range map[string]string{
		"empty":                  "",
		"another algorithm":      strings.Replace(good, "argon2id", "argon2d", 1),
		"another version":        strings.Replace(good, "v=19", "v=16", 1),
		"no version":             strings.Replace(good, "v=19$", "", 1),
		"memory above the limit": strings.Replace(good, "m=64", "m=262145", 1),
		"memory beyond uint32":   strings.Replace(good, "m=64", "m=4294967296", 1),
		"memory below 8 p":       strings.Replace(good, "m=64", "m=7", 1),
		"no passes":              strings.Replace(good, "t=1", "t=0", 1),
		"too many passes":        strings.Replace(good, "t=1", "t=17", 1),
		"no threads":             strings.Replace(good, "p=1", "p=0", 1),
		"too many threads":       strings.Replace(good, "m=64,t=1,p=1", "m=256,t=1,p=17", 1),
		"threads beyond uint8":   strings.Replace(good, "p=1", "p=257", 1),
		"leading zero":           strings.Replace(good, "m=64", "m=064", 1),
		"sign":                   strings.Replace(good, "m=64", "m=+64", 1),
		"further parameter":      strings.Replace(good, "p=1", "p=1,keyid=a", 1),
		"short salt":             strings.Replace(good, salt16, "c2FsdHNhbA", 1),
		"long salt":              strings.Replace(good, salt16, strings.Repeat("c2Fs", 22), 1),
		"short key":              strings.Replace(good, key32, "MDEyMzQ1Njc4OWFiY2Rl", 1),
		"long key":               strings.Replace(good, key32, strings.Repeat("c2Fs", 22), 1),
		"padded base64":          good + "=",
		"loose base64 bits":      strings.Replace(good, key32, key32[:len(key32)-1]+"Z", 1),
		"line end in the base64": good + "\n",
		"trailing part":          good + "$",
		"endless":                good + strings.Repeat("A", 1<<20),
	} {
		if _, err := parse(encoded); !errors.Is(err, ErrBadHash) {
			t.Errorf("%s: got %v, want ErrBadHash", name, err)
		}
	}
}

func TestParse_ErrorsHoldNoPartOfHash(t *testing.T) {
	_, err := parse("$argon2id$v=19$m=64,t=1,p=1$" + salt16 + "$" + key32 + "!")
	if err == nil || strings.Contains(err.Error(), key32[:6]) || strings.Contains(err.Error(), salt16[:6]) {
		t.Errorf("got %v, want an error without a part of the hash", err)
	}
}
