package password

import (
	"crypto/sha256"
	"crypto/sha512"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

const (
	phrase   = "correct horse"
	cyrillic = "пароль и слово"
)

// digits80 is longer than the 72 bytes that count for bcrypt.
var digits80 = strings.Repeat("0123456789", 8)

// foreignVectors are hashes by the original implementations, at low costs.
var foreignVectors = []struct{ maker, password, encoded string }{
	{"PHP 8.2, md5", phrase, "3cb4e732631f47e6eb961f34554b7cde"},
	{"PHP 8.2, md5", cyrillic, "E0D2469E3CCAEAA78FA6CEADDF41272B"},
	{"PHP 8.2, password_hash", phrase, "$2y$05$32NViFI06tEIA85AKhLuI.oKKe.Pz.nndt.Dl8nJiju5UIxRBJkRy"},
	{"PHP 8.2, password_hash", cyrillic, "$2y$05$gq/dWEH08nXTQLGfUPXAduY4Kah4aHZvtewwlWN4kea.44cOoxnpW"},
	{"PHP 8.2, password_hash", digits80 + "x", "$2y$05$Np.awW9G5CiMUVfsGgSp9.JBi99mjzCk6RMJtr4GT8e6j/Yw79Pga"},
	{"Python bcrypt 3.2.2", phrase, "$2a$05$5EawS8ikkcjIeDvecuj.XOwm8Ojj2Z0lUH5.1duX8uY8rwtT0JvRq"},
	{"Python bcrypt 3.2.2", phrase, "$2b$05$GcfJS9Yx8W.U9SML8fhA/eYoi8IGoDvaOiddQP.GoHAaalrbiS9Z."},
	{"Python bcrypt 3.2.2", digits80 + "x", "$2b$05$mCgN32ZG5ZXXf5rhLyRvvOO0c.6EqkAfGLuL/KL9VrBCGvvc30haS"},
	{"PHP 8.2, password_hash", phrase, "$argon2i$v=19$m=64,t=2,p=1$TGQ2T3U2bUJDUHo2eTJJTg$87OSGywC3deRu67CAB46FyVe4L4IWSL9aZqkjZK1FXI"},
	{"PHP 8.2, password_hash", cyrillic, "$argon2i$v=19$m=64,t=2,p=1$cm5uTmdqVVNDNUhQM3lqYw$p6X4U4q1cn0RiqQGFwRE+rQ+bWanAAosDeiC2dJmamk"},
	{"PHP 8.2, password_hash", phrase, "$argon2id$v=19$m=64,t=2,p=1$UWVoYWlBRkdqVUd2Sm80NQ$IO72OLg/DCw0u46jDtMytlF9c39rVMtvLanchEeQNSw"},
	{"Django 3.2, PBKDF2PasswordHasher", phrase, "pbkdf2_sha256$1000$IO7f0TkcB1bCvri2wzuPJE$1l0dhl/i3yNVeeh3NZWY1AMmbH33ahC15B9k+s/aX2s="},
	{"Django 3.2, PBKDF2PasswordHasher", cyrillic, "pbkdf2_sha256$1000$V9F7mJaKKLQt5CzoHTrV6P$SGcnpIXtDseWMp5x23HssAxi0Sr1vKzBu0SgjpvAsnA="},
	{"Django 3.2, PBKDF2PasswordHasher", strings.Repeat("a", 4000), "pbkdf2_sha256$1000$izpBx4ACGuB43Rlznmuu5r$f6MdCFPOJq3/KSt5mZQBIQBl0/DtWcMJyXozBSKM9E4="},
	{"Django 3.2, PBKDF2SHA1PasswordHasher", phrase, "pbkdf2_sha1$1000$d2YLGuCMK7U7Qh2xG7Sxun$MxEXsQ0E4lRw02eRU6lGUxxKeXk="},
	{"Django 3.2, PBKDF2SHA1PasswordHasher", cyrillic, "pbkdf2_sha1$1000$zTwykYN6OMOyoRNCUNZZOj$hNilO2K3Qb2XyO+NgokMa5t+ock="},
	{"WordPress 6.1, PasswordHash(8)", phrase, "$P$BfEAVu23ObjBkUbr6.1RaiASnSr9u9/"},
	{"WordPress 6.1, PasswordHash(7)", phrase, "$P$AXdaFwoTP.OYf4koJgdfbK9U.n/QaN."},
	{"WordPress 6.1, PasswordHash(8)", cyrillic, "$P$BfQsEO4.4rbOQXUN28vCgpy8.kxCk//"},
	{"phpBB 3.3, salted_md5", phrase, "$H$99T6UAL/QQ93gU8rt6FYijAHlDv8qJ1"},
	{"phpBB 3.3, salted_md5", cyrillic, "$H$9n9vT3aRmBZpCUywxQaO1M6fd70izK."},
	{"WordPress 7.0, wp_hash_password as since 6.8", phrase, "$wp$2y$05$.9f.bCADApueukThUBWGVeMtGROLmCOtX9YPjzoeOsDz0K3Y3qwia"},
	{"WordPress 7.0, wp_hash_password as since 6.8", cyrillic, "$wp$2y$05$TbjKpp1FhCGsqjaBXWPdKucH61DEhCL0.qZrnJi/c1fCTxh7tC0bC"},
	{"WordPress 7.0, wp_hash_password as since 6.8", digits80 + "x", "$wp$2y$05$8qmgsxjRWqbrly/Nk5jB5uWH2cnzoE/bk/qBwgB1pjg47RpG8bc0."},
	{"passlib 1.7", phrase, "$scrypt$ln=10,r=8,p=1$lZKSMobwnrPWGgNgrFUqBQ$bVpqm+CHHjqQF7nMJoWDg4CZlat+lk5aiYohLM2SyuY"},
	{"passlib 1.7", cyrillic, "$scrypt$ln=9,r=4,p=2$ovQ+B4CwNkbo/f+fMyakFA$tORU9XQ+TEgj7ZxJ5viCNpJzt7j8RiEoKCuNiW/KDE4"},
	{"Django 5, ScryptPasswordHasher", phrase, "scrypt$1024$GXjQyYAo3zCXkTdj5XGBy1$8$5$UhMe1/iqSI78zrtYHd8Zryfh6d1iFgW1+UB76ZlpQ64xg93BJG+Q0fBZyReun+iGKeuQ2tGw6Vm9u/fJouxHWg=="},
	{"Django 5, ScryptPasswordHasher", cyrillic, "scrypt$512$urMUQfxFqAfgvhDWdnJzqa$4$1$W1WqLqjUrYvEZJR+5DfNtdREGnJF1dYE4/C81VztGvmV3vm7RA2Uf3iK+0vtBq0BUE4XjdYJRXkgvnZIzRCacw=="},
}

func TestVerify_ForeignHashMatchesAndIsDueForRehash(t *testing.T) {
	h := newHasher(t, cheap)
	for _, v := range foreignVectors {
		t.Run(v.maker+" "+v.encoded[:8], func(t *testing.T) {
			encoded, err := Adopt(v.encoded)
			if err != nil {
				t.Fatal(err)
			}
			mustVerify(t, h, encoded, v.password, Result{Match: true, Rehash: len(v.password) <= MaxBytes})
			mustVerify(t, h, encoded, "x"+v.password, Result{})
			mustVerify(t, h, encoded, "", Result{})
			mustVerify(t, h, encoded, strings.Repeat("a", maxRawBytes+1), Result{})
		})
	}
}

// md5Of returns what is stored of an MD5 that waits to be wrapped.
func md5Of(password string) string {
	return waitingPrefix + newDigest(md5Form, "", digests["md5"].hex(password))
}

func mustVerify(t *testing.T, h *Hasher, encoded, entered string, want Result) {
	t.Helper()
	if got, err := h.Verify(t.Context(), user, encoded, entered); err != nil || got != want {
		t.Errorf("entered %.20q: got %+v, %v, want %+v", entered, got, err, want)
	}
}

func TestVerify_FollowsRulesOfForeignSystem(t *testing.T) {
	h := newHasher(t, cheap)
	for name, test := range map[string]struct {
		encoded, entered string
		want             bool
	}{
		"72 bytes count for bcrypt":         {"$2y$05$Np.awW9G5CiMUVfsGgSp9.JBi99mjzCk6RMJtr4GT8e6j/Yw79Pga", digits80[:72] + "else", true},
		"no fewer bytes count for bcrypt":   {"$2y$05$Np.awW9G5CiMUVfsGgSp9.JBi99mjzCk6RMJtr4GT8e6j/Yw79Pga", digits80[:71] + "else", false},
		"all bytes count for WordPress 6.8": {"$wp$2y$05$HoKaV5kM1S5lZ7un9YyHFO8VKPgLNh7KTBAb7WmmFxMIiDwxGWubK", digits80 + "y", false},
		"MD5 of the empty password fails":   {md5Of(""), "", false},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := h.Verify(t.Context(), user, test.encoded, test.entered)
			if err != nil || got.Match != test.want {
				t.Errorf("got %+v, %v, want match %v", got, err, test.want)
			}
		})
	}
}

// Other systems hash forms that are not canonical: a decomposed text, or one with a
// tab.
func TestVerify_TriesBytesAsEntered(t *testing.T) {
	h := newHasher(t, cheap)
	const decomposed, composed, tab = "cafe\u0301 au lait", "caf\u00e9 au lait", "one\ttwo three"
	ofDecomposed, ofTab := md5Of(decomposed), md5Of(tab)
	mustVerify(t, h, ofDecomposed, decomposed, Result{Match: true, Rehash: true})
	mustVerify(t, h, ofDecomposed, composed, Result{})
	mustVerify(t, h, ofTab, tab, Result{Match: true}) // no rehash: the text has no canonical form
	raw := newArgon2id(cheap, decomposed).String()
	mustVerify(t, h, raw, decomposed, Result{Match: true, Rehash: true})
}

func TestWrap_WrappedMD5Matches(t *testing.T) {
	h := newHasher(t, cheap)
	bare, err := Adopt("3CB4E732631F47E6EB961F34554B7CDE")
	if err != nil || !IsBare(bare) {
		t.Fatalf("got %q, %v", bare, err)
	}
	wrapped, err := h.Wrap(t.Context(), bare)
	if err != nil || IsBare(wrapped) || !strings.HasPrefix(wrapped, withinPrefix) || strings.Contains(wrapped, "3cb4e732") {
		t.Fatalf("got %q, %v", wrapped, err)
	}
	mustVerify(t, h, wrapped, phrase, Result{Match: true, Rehash: true})
	mustVerify(t, h, wrapped, "3cb4e732631f47e6eb961f34554b7cde", Result{})
	if again, err := Adopt(wrapped); err != nil || again != wrapped {
		t.Errorf("adopting the wrapped hash: got %q, %v, want it unchanged", again, err)
	}
	for _, encoded := range []string{wrapped, h.dummy.String(), "", waitingPrefix} {
		if _, err := h.Wrap(t.Context(), encoded); !errors.Is(err, ErrBadHash) {
			t.Errorf("%q: got %v, want ErrBadHash", encoded, err)
		}
	}
}

func TestVerify_UnusableHashMatchesNothing(t *testing.T) {
	h := newHasher(t, cheap)
	for _, encoded := range []string{"!", "!vUkA1dR2sN0p"} { // as Django writes them
		adopted, err := Adopt(encoded)
		if err != nil || !IsUnusable(adopted) {
			t.Fatalf("got %q, %v", adopted, err)
		}
		for _, entered := range []string{"", "!", encoded, phrase} {
			mustVerify(t, h, adopted, entered, Result{})
		}
	}
	if _, err := h.Verify(t.Context(), user, "!more", phrase); !errors.Is(err, ErrBadHash) {
		t.Errorf("got %v, want ErrBadHash", err)
	}
}

func TestAdopt_RefusesHashesOutsideLimits(t *testing.T) {
	const sum = "bVpqm+CHHjqQF7nMJoWDg4CZlat+lk5aiYohLM2SyuY"
	for _, encoded := range []string{
		"", "plain", "*", "3cb4e732631f47e6eb961f34554b7cd", "3cb4e732631f47e6eb961f34554b7cdg",
		"$digest$md5(p)$$3CB4E732631F47E6EB961F34554B7CDE", "$digest$md5(p)$$3c", withinPrefix + "v=19$m=64,t=1,p=1$" + salt16 + "$" + key32,
		withinPrefix + "v=19$m=4194304,t=1,p=1$" + salt16 + "$" + key32 + "$$digest$md5(p)$$",
		"$2x$05$32NViFI06tEIA85AKhLuI.oKKe.Pz.nndt.Dl8nJiju5UIxRBJkRy",
		"$2y$03$32NViFI06tEIA85AKhLuI.oKKe.Pz.nndt.Dl8nJiju5UIxRBJkRy",
		"$2y$16$32NViFI06tEIA85AKhLuI.oKKe.Pz.nndt.Dl8nJiju5UIxRBJkRy",
		"$2y$05$32NViFI06tEIA85AKhLuI.oKKe.Pz.nndt.Dl8nJiju5UIxRBJkR",
		"$wp$2y$31$WhyxBDhSo/YsdMropMgla.QkyuKoFDnW1GX/uk6MQu5kvNFoYYq5S",
		"$argon2i$v=19$m=64,t=99,p=1$" + salt16 + "$" + key32,
		"$argon2id$v=19$m=65537,t=16,p=1$" + salt16 + "$" + key32,
		withinPrefix + "v=19$m=65537,t=16,p=1$" + salt16 + "$" + key32 + "$$digest$md5(p)$$",
		"$argon2i$v=19$m=262144,t=5,p=1$" + salt16 + "$" + key32,
		"$P$4fEAVu23ObjBkUbr6.1RaiASnSr9u9/", "$P$RfEAVu23ObjBkUbr6.1RaiASnSr9u9/", "$P$BfEAVu23ObjBkUbr6.1RaiASnSr9u9", "$P$BfEAVu23ObjBkUbr6.1RaiASnSr9u9*",
		"pbkdf2_sha256$0$salt$" + sum + "=", "pbkdf2_sha256$4000001$salt$" + sum + "=", "pbkdf2_sha256$99999999999$salt$" + sum + "=",
		"pbkdf2_sha256$1000$$" + sum + "=", "pbkdf2_sha1$1000$salt$" + sum + "=", "pbkdf2_sha512$1000$salt$" + sum + "=",
		"$scrypt$ln=19,r=8,p=1$" + salt16 + "$" + sum, "$scrypt$ln=14,r=8,p=64$" + salt16 + "$" + sum, "$scrypt$ln=0,r=8,p=1$" + salt16 + "$" + sum,
		"$phpbb$2y$15$7$RsqOrLNkvw31ldi5VPlyG2t5HxqIKeyFv5dvOFakbr/GBBC0oyfIGMOkSD1dq",
		"$scrypt$ln=7,r=8,p=1$" + salt16 + "$" + sum, "$P$GfEAVu23ObjBkUbr6.1RaiASnSr9u9/", "$6$rounds=700001$salt$" + strings.Repeat(".", 86),
		"pbkdf2_sha1$1000$" + strings.Repeat("\U0001F600", 33) + "$" + zeroSum[:len(zeroSum)-16] + "=",
		"$scrypt$ln=4,r=8,p=0$" + salt16 + "$" + sum, "$scrypt$ln=64,r=8,p=1$" + salt16 + "$" + sum, "$scrypt$ln=4,r=8,p=1$" + salt16 + "$AAAA",
		"scrypt$1000$salt$8$1$" + sum + "=", "scrypt$4294967295$salt$8$1$" + sum + "=", "scrypt$1024$salt$4294967295$1$" + sum + "=", "scrypt$1024$$8$1$" + sum + "=",
		"pbkdf2_sha256$1000$sa\x00lt$" + sum + "=", "pbkdf2_sha256$1000$salt\xff$" + sum + "=", "scrypt$1024$sa\x00lt$8$1$" + sum + "=", "scrypt$1024$sa\x7flt$8$1$" + sum + "=",
		strings.Repeat("a", 1<<20),
	} {
		if _, err := Adopt(encoded); !errors.Is(err, ErrBadHash) {
			t.Errorf("%.60q: got %v, want ErrBadHash", encoded, err)
		} else if len(encoded) > 8 && strings.Contains(err.Error(), encoded[len(encoded)-8:]) {
			t.Errorf("got %v, want an error without a part of the hash", err)
		}
	}
}

// FuzzParse checks that every adopted hash is within the limits, and that cheap ones
// can be compared.
func FuzzParse(f *testing.F) {
	f.Add("$argon2id$v=19$m=4294967295,t=4294967295,p=255$" + salt16 + "$" + key32)
	f.Add("$argon2id$v=19$m=262144,t=16,p=16$" + salt16 + "$" + key32)
	f.Add(withinPrefix + "v=19$m=64,t=1,p=1$" + salt16 + "$" + key32 + "$$digest$md5(p)$$")
	f.Add("!as Django writes it")
	f.Add("pbkdf2_sha256$1$sa\x00lt\xff$bVpqm+CHHjqQF7nMJoWDg4CZlat+lk5aiYohLM2SyuY=")
	for _, v := range foreignVectors {
		f.Add(v.encoded)
	}
	for _, v := range formatVectors {
		f.Add(v.hash)
		if encoded, err := AdoptForm(v.hash, v.salt, v.form); err == nil {
			f.Add(encoded)
		}
	}
	for _, format := range everyFormat {
		f.Add(format.encoded)
	}
	f.Fuzz(func(t *testing.T, encoded string) {
		adopted, err := Adopt(encoded)
		if err != nil {
			return
		}
		s, err := parse(adopted)
		if err != nil {
			t.Fatalf("Adopt accepted what parse refuses: %v", err)
		}
		h := newHasher(t, LowestParams())
		class, ok := h.Class(adopted)
		if again, _ := h.Class(class); class != "" && again != class || ok == IsUnusable(adopted) {
			t.Fatalf("%q is of the class %q, that of %q, %t", adopted, class, again, ok)
		}
		if IsBare(adopted) {
			wrapped, err := h.Wrap(t.Context(), adopted)
			if got, _ := h.Class(wrapped); err != nil || got != class || IsBare(wrapped) {
				t.Fatalf("%q is wrapped as %q, error %v, whose class is %q, not %q", adopted, wrapped, err, got, class)
			}
		}
		if again, err := Adopt(adopted); err != nil || again != adopted {
			t.Fatalf("adopting %q again: got %q, %v", adopted, again, err)
		}
		if !utf8.ValidString(adopted) || strings.ContainsFunc(adopted, unicode.IsControl) {
			t.Fatalf("got %q, which no database can store as text", adopted)
		}
		memory, time := costs(t, s.class)
		if memory > 256<<20 || time > 1 {
			t.Fatalf("%s takes %d bytes and %v of the maximum time", s.class, memory, time)
		}
		if memory <= 1<<20 && time < 1e-3 {
			s.matches("a password")
		}
	})
}

// costs returns the memory that a comparison with a hash of the class takes, in bytes, and its
// time as a fraction of the maximum for the format.
func costs(t *testing.T, class string) (memory uint64, time float64) {
	parts := strings.Split(strings.TrimPrefix(class, "$"), "$")
	number := func(part int, form string) (n [3]uint64) {
		args := []any{&n[0], &n[1], &n[2]}[:strings.Count(form, "%")]
		if _, err := fmt.Sscanf(parts[part], form, args...); err != nil {
			t.Fatalf("%s: %v", class, err)
		}
		return n
	}
	bcrypt := func(part int) float64 { return math.Exp2(float64(number(part, "%d")[0]) - maxBcryptCost) }
	phpass := func(part, maxCost int) float64 {
		return math.Exp2(float64(strings.Index(phpassDigits, parts[part][:1]) - maxCost))
	}
	switch parts[0] {
	case "argon2id-of":
		memory, time = costs(t, "$argon2id$"+strings.Join(parts[1:5], "$"))
		_, within := costs(t, strings.Join(parts[5:], "$"))
		return memory, max(time, within)
	case "argon2id", "argon2i":
		n := number(2, "m=%d,t=%d,p=%d")
		return n[0] << 10, float64(n[0]*n[1]) / maxWork
	case "", "!", "digest", "1":
		return 0, 0
	case "2a", "2b", "2y":
		return 4096, bcrypt(1)
	case "bcrypt-of":
		return 4096, bcrypt(4)
	case "wp":
		return 4096, bcrypt(2)
	case "bcrypt_sha256":
		return 4096, bcrypt(3)
	case "phpbb":
		return 4096, bcrypt(2) + phpass(3, maxPhpassCost)/2
	case "P", "H":
		return maxRawBytes, phpass(1, maxPhpassCost)
	case "S":
		return maxRawBytes, phpass(1, maxDrupalCost)
	case "U":
		return maxRawBytes, phpass(2, maxDrupalCost)
	case "5", "6":
		if !strings.HasPrefix(parts[1], "rounds=") {
			return maxRawBytes, float64(defaultSHACryptRounds) / maxSHACryptRounds
		}
		return maxRawBytes, float64(number(1, "rounds=%d")[0]) / maxSHACryptRounds
	case "pbkdf2-sha1", "pbkdf2-sha256", "pbkdf2-sha512":
		n, digest := number(1, "i=%d,l=%d"), strings.TrimPrefix(parts[0], "pbkdf2-")
		return sha512.Size, float64(n[0]*((n[1]-1)/uint64(digests[digest].new().Size())+1)) / float64(maxPBKDF2Iterations[digest])
	case "pbkdf2_sha256", "pbkdf2_sha1":
		return sha256.Size, float64(number(1, "%d")[0]) / float64(maxPBKDF2Iterations[strings.TrimPrefix(parts[0], "pbkdf2_")])
	case "scrypt":
		n := [3]uint64{}
		if strings.HasPrefix(parts[1], "ln=") {
			n = number(1, "ln=%d,r=%d,p=%d")
			n[0] = 1 << n[0]
		} else {
			n = [3]uint64{number(1, "%d")[0], number(3, "%d")[0], number(4, "%d")[0]}
		}
		return 128 * n[0] * n[1], float64(n[0]*n[1]*n[2]) / maxScryptWork
	}
	t.Fatalf("%s is unknown", class)
	return 0, 0
}
