package password

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestMatchForms_NamesTheFormOfTheVectors(t *testing.T) {
	tested := 0
	for _, v := range formatVectors {
		if v.form == "" || strings.HasPrefix(v.form, "bcrypt") || strings.HasPrefix(v.form, "$") {
			continue
		}
		tested++
		if got := MatchForms(v.hash, v.salt, v.password); !slices.Contains(got, v.form) {
			t.Errorf("%s: got %q, want %s", v.source, got, v.form)
		}
		if got := MatchForms(v.hash, v.salt, "x"+v.password); len(got) > 0 {
			t.Errorf("%s, another password: got %q, want none", v.source, got)
		}
	}
	if tested < 10 {
		t.Errorf("%d vectors with a form, want 10", tested)
	}
	if got := MatchForms("3cb4e732631f47e6eb961f34554b7cde", "", phrase); !slices.Equal(got, []string{"md5(p)"}) {
		t.Errorf("got %q, want md5(p)", got)
	}
	if got := MatchForms("1718b1e30bf3987e092e9bf62a31b1a7:Zr8aQ", "", phrase); !slices.Equal(got, []string{"md5(p.s)"}) {
		t.Errorf("got %q, want md5(p.s)", got)
	}
	if got := MatchForms("$2y$05$32NViFI06tEIA85AKhLuI.oKKe.Pz.nndt.Dl8nJiju5UIxRBJkRy", "", phrase); len(got) > 0 {
		t.Errorf("a bcrypt: got %q, want none", got)
	}
}

func TestFormDigits_Limits(t *testing.T) {
	for form, good := range map[string]bool{
		"md5(p)": true, "sha512(s.p.s)": true, "md5(md5(s).md5(p))": true, "sha1(s.sha1(s.sha1(p)))": true, "md5(s.-.p)": true,
		"bcrypt(s.p)": true, "bcrypt(md5(p))": true, "bcrypt(s)": false, "bcrypt(p": false, "md5(bcrypt(p))": false, "bcrypt": false,
		"$pbkdf2-sha256$i=64000,l=32$": true, "pbkdf2-sha512$i=10000": true,
		"": false, "p": false, "md5()": false, "md5(s)": false, "md5(p": false, "md5(p))": false, "md5(p.)": false, "md4(p)": false, "md5(x)": false,
		"md5(p)md5(p)": false, "md5 (p)": false, "MD5(p)": false, "md5($p)": false, "md5(p..s)": false,
		"md5(md5(md5(md5(md5(md5(p))))))": true, "md5(md5(md5(md5(md5(md5(md5(p)))))))": false,
		"md5(" + strings.Repeat("s.", 40) + "p)": false, "pbkdf2-md5$i=1": false,
		"pbkdf2-sha256$i=0": false, "pbkdf2-sha256$i=4000001": false, "pbkdf2-sha256$i=4000000": true, "$pbkdf2-sha256$i=9999999,l=32$": false,
		"pbkdf2-sha256$i=1,l=0": false, "pbkdf2-sha256$i=1,l=15": false, "pbkdf2-sha256$i=1,l=129": false, "pbkdf2-sha512$i=1000,l=64": true,
	} {
		if _, err := FormDigits(form); (err == nil) != good || err != nil && !errors.Is(err, ErrBadHash) {
			t.Errorf("%q: got %v, want it taken: %t", form, err, good)
		}
	}
}

func TestAdoptForm_ConcernsDigitsOfItsLengthOnly(t *testing.T) {
	const digits, bcrypt = "3cb4e732631f47e6eb961f34554b7cde", "$2y$05$32NViFI06tEIA85AKhLuI.oKKe.Pz.nndt.Dl8nJiju5UIxRBJkRy"
	for name, test := range map[string]struct{ hash, salt, form, want, reason string }{
		"another format has a form":         {hash: bcrypt, form: "md5(p.s)", want: bcrypt},
		"a bcrypt has a form of digits":     {hash: bcrypt, salt: "ada", form: "sha1(s.p)", want: bcrypt},
		"a bcrypt has its form":             {hash: bcrypt, salt: "ada", form: "bcrypt(s.p)", want: "$bcrypt-of$bcrypt(s.p)$YWRh" + bcrypt},
		"a bcrypt lacks the salt":           {hash: bcrypt, form: "bcrypt(s.p)", reason: "the salt of the form bcrypt(s.p) is missing"},
		"digits have a form of bcrypt":      {hash: digits, form: "bcrypt(s.p)", want: "$waits$$digest$md5(p)$$" + digits},
		"another format has a salt":         {hash: bcrypt, salt: "x", want: bcrypt},
		"plain digits":                      {hash: digits, form: "md5(p)", want: "$waits$$digest$md5(p)$$" + digits},
		"nested":                            {hash: strings.ToUpper(digits), form: "md5(md5(p))", want: "$waits$$digest$md5(md5(p))$$" + digits},
		"salt in a column":                  {hash: digits, salt: "ab", form: "md5(p.s)", want: "$waits$$digest$md5(p.s)$YWI$" + digits},
		"salt after a colon":                {hash: digits + ":a:b", form: "md5(p.s)", want: "$waits$$digest$md5(p.s)$YTpi$" + digits},
		"salted without a form":             {hash: digits, salt: "ab", reason: "state the form"},
		"a colon without a form":            {hash: digits + ":ab", reason: "state the form"},
		"no salt for the form":              {hash: digits, form: "md5(p.s)", reason: "is missing"},
		"a salt beside the form":            {hash: digits, salt: "ab", form: "md5(md5(p))", reason: "there is a salt"},
		"digits of another length":          {hash: digits, form: "sha1(p)", want: "$waits$$digest$md5(p)$$" + digits},
		"salted digits of another length":   {hash: digits, salt: "ab", form: "sha1(p.s)", reason: "state the form"},
		"digits of another length, a colon": {hash: digits + ":ab", form: "sha1(p.s)", reason: "state the form"},
		"long digits without a form":        {hash: digits + "01234567", reason: "state the form"},
		"no form at all":                    {hash: digits, form: "md5", reason: "the form is not like"},
		"too long a salt":                   {hash: digits, salt: strings.Repeat("a", 129), form: "md5(p.s)", reason: "salt is too long"},
		"a PBKDF2 without a salt":           {hash: digits + digits, form: "$pbkdf2-sha256$i=64000,l=32$", reason: "salt of the PBKDF2"},
		"a PBKDF2 of too much work":         {hash: digits + digits, salt: "a", form: "pbkdf2-sha256$i=4000001", reason: "iterations are not"},
		"a PBKDF2 of another length":        {hash: digits, form: "$pbkdf2-sha256$i=64000,l=32$", want: "$waits$$digest$md5(p)$$" + digits},
		"a PBKDF2 of the stated length":     {hash: digits, salt: "salt", form: "$pbkdf2-sha256$i=64000,l=16$", want: "$pbkdf2-sha256$i=64000,l=16$c2FsdA$PLTnMmMfR+brlh80VUt83g"},
		"a PBKDF2 of no stated length":      {hash: digits, salt: "salt", form: "$pbkdf2-sha256$i=64000$", reason: "state the form"},
		"a hash that is stored, a form":     {hash: "$waits$$digest$md5(p.s)$YWI$" + digits, form: "md5(s.p)", want: "$waits$$digest$md5(p.s)$YWI$" + digits},
		"a user without a password":         {hash: "!", form: "md5(p.s)", want: "!"},
		"an empty hash":                     {form: "md5(p.s)", reason: "unknown format"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := AdoptForm(test.hash, test.salt, test.form)
			if test.reason == "" && (err != nil || got != test.want) {
				t.Errorf("got %q, %v, want %q", got, err, test.want)
			}
			if test.reason != "" && (!errors.Is(err, ErrBadHash) || !strings.Contains(err.Error(), test.reason)) {
				t.Errorf("got %q, %v, want %q", got, err, test.reason)
			}
		})
	}
}

func TestAdopt_SaysWhyBehindAPrefixToo(t *testing.T) {
	for hash, reason := range map[string]string{
		"{CRYPT}$2x$05$/OK.fbVrR/bpIqNJ5ianF.CE5elHaaO4EbggVDjb8P19RukzXSM3e": "implementation with a defect",
		"{CRYPT}$y$j9T$salt$sum":                         "yescrypt",
		"{crypt}$apr1$salt$sum":                          "Apache",
		"{SSHA}2f9e53523b62abc141a2b4d6019d23cba835dbd0": "in base64",
		"{SHA512}" + strings.Repeat("0a", 64):            "in base64",
		"{SMD5}3cb4e732631f47e6eb961f34554b7cde5a723861": "in base64",
	} {
		if _, err := Adopt(hash); !errors.Is(err, ErrBadHash) || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s: got %v, want %q", hash, err, reason)
		}
	}
}

func TestAdopt_WrapsWhatIsWeakerThan10000SHA256(t *testing.T) {
	for encoded, want := range map[string]bool{
		"$P$BfEAVu23ObjBkUbr6.1RaiASnSr9u9/": true, "$P$CfEAVu23ObjBkUbr6.1RaiASnSr9u9/": false, // 8192 and 16384 MD5
		"$H$99T6UAL/QQ93gU8rt6FYijAHlDv8qJ1":                                           true,
		"$1$abcdefgh$SYbjm2AEvSoHG7Xapi8so.":                                           true,
		"$5$LKO/Ute40T3FNF95$U0prpBQd4PloSGU0pnpM4z9wKn4vZ1.jsrzQfPqxph9":              true, // 5000
		"$5$rounds=10000$LKO/Ute40T3FNF95$U0prpBQd4PloSGU0pnpM4z9wKn4vZ1.jsrzQfPqxph9": false,
		"$S$A7JxIm0f7QKO3zjwVS1RH4AW8sYvmLjO0.Rn4swH0JVt6OrZ4yzZ":                      true, // 4096
		"$S$D7JxIm0f7QKO3zjwVS1RH4AW8sYvmLjO0.Rn4swH0JVt6OrZ4yzZ":                      false,
		"pbkdf2_sha1$4999$salt$" + zeroSum[:len(zeroSum)-16] + "=":                     true,
		"pbkdf2_sha1$5000$salt$" + zeroSum[:len(zeroSum)-16] + "=":                     false,
		":B:salt:9842afc7cb949c440c51347ed809362f":                                     true,
		"$2y$05$32NViFI06tEIA85AKhLuI.oKKe.Pz.nndt.Dl8nJiju5UIxRBJkRy":                 false,
	} {
		got, err := Adopt(encoded)
		if err != nil || IsBare(got) != want {
			t.Errorf("%.20s: got %q, %v, want it to wait: %t", encoded, got, err, want)
		}
	}
}

func TestVerify_LongPasswordsMatchNoCrypt(t *testing.T) {
	h := newHasher(t, cheap)
	of512 := "$6$rounds=1000$salt$pkpJWSPWF7wZ0yJdrBGMQi.crLHPI9Zv5LgB4BOgM9FhhXvuUgFKvChon8hqgMbe5Q.IE8ubYoElZOd0fFETL0"
	wrapped, err := h.Wrap(t.Context(), waitingPrefix+of512)
	if err != nil {
		t.Fatal(err)
	}
	for _, encoded := range []string{of512, wrapped} {
		mustVerify(t, h, encoded, strings.Repeat("a", 512), Result{Match: true, Rehash: true})
		mustVerify(t, h, encoded, strings.Repeat("a", 513), Result{})
	}
}

// FuzzAdoptForm checks that every form and salt is refused or gives a hash that is stored as it is.
func FuzzAdoptForm(f *testing.F) {
	for _, v := range formatVectors {
		f.Add(v.hash, v.salt, v.form)
	}
	f.Add("3cb4e732631f47e6eb961f34554b7cde", "s\x00\xff", "md5(sha512(s.-.p).sha256(p))")
	f.Fuzz(func(t *testing.T, hash, salt, form string) {
		encoded, err := AdoptForm(hash, salt, form)
		MatchForms(hash, salt, "a password")
		if err != nil {
			if !errors.Is(err, ErrBadHash) {
				t.Errorf("got %v, want ErrBadHash", err)
			}
			return
		}
		if again, err := Adopt(encoded); err != nil || again != encoded {
			t.Errorf("adopting %q again: got %q, %v", encoded, again, err)
		}
		s, err := parse(encoded)
		if err != nil {
			t.Fatal(err)
		}
		if memory, time := costs(t, s.class); memory <= 1<<20 && time < 1e-3 {
			s.matches("a password")
		}
	})
}
