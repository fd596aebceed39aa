package password

import (
	"strings"
	"testing"
)

// formatVectors are hashes of other systems. The source is the system or its published test, or
// the independent implementation that has made the hash: passlib 1.7.4, or Python's hashlib in the steps of the
// system, which the source names.
var formatVectors = []struct{ source, password, hash, salt, form string }{
	{source: "DokuWiki, auth_password.test.php", password: "drupal_sha512", hash: "$S$D7JxIm0f7QKO3zjwVS1RH4AW8sYvmLjO0.Rn4swH0JVt6OrZ4yzZ"},
	{source: "DokuWiki, auth_password.test.php", password: "pouette1234", hash: "U$S$9c47LGZuhR6TvhRQXzymkJIQ3mXthUCc6KDEGTt4B7eOL/H9Ykuy"},
	{source: "hashlib, as Drupal's password.inc", password: cyrillic, hash: "$S$9c47LGZuhn5zS7HM2GDxXueHBojOogG8XKvv3l1hcJIVHXRsQY/T"},
	{source: "hashlib, as Drupal's password.inc", password: cyrillic, hash: "U$S$9c47LGZuh0IJzNZfh9P5pvqz5tTCz3VXvMPp8fa6G4ClZAItr46z"},

	{source: "DokuWiki, auth_password.test.php", password: "foosmd5", hash: "$1$abcdefgh$SYbjm2AEvSoHG7Xapi8so."},
	{source: "DokuWiki, auth_password.test.php", password: "foo", hash: "$1$$n1rTiFE0nRifwV/43bVon/"},
	{source: "passlib, and openssl passwd -1", password: phrase, hash: "$1$saltsalt$NuzA7WTAelpl95xgBGWN60"},
	{source: "passlib", password: cyrillic, hash: "$1$saltsalt$ezD8AnLbQptYSYCIzvVyW1"},
	{source: "passlib's tests, from John the Ripper 1.7.9", password: "U*U*U*U*", hash: "$5$LKO/Ute40T3FNF95$U0prpBQd4PloSGU0pnpM4z9wKn4vZ1.jsrzQfPqxph9"},
	{source: "passlib's tests", password: "with unic\u00D6de", hash: "$5$rounds=1000$IbG0EuGQXw5EkMdP$LQ5AfPf13KufFsKtmazqnzSGZ4pxtUNw3woQ.ELRDF4"},
	{source: "passlib's tests", password: "test", hash: "$5$rounds=11858$WH1ABM5sKhxbkgCK$aTQsjPkz0rBsH3lQlJxw9HDTDXPKBxC0LlVeV69P.t1"},
	{source: "passlib, and openssl passwd -5", password: phrase, hash: "$5$salt$VceWD7himthAFDjAznpLECWSsOgDma/ItrVvf6K05b4"},
	{source: "DokuWiki, auth_password.test.php", password: "foosha512", hash: "$6$abcdefgh12345678$J9.zOcgx0lotwZdcz0uulA3IVQMinZvFZVjA5vapRLVAAqtay23XD4xeeUxQ3B4JvDWYFBIxVWW1tOYlHX13k1"},
	{source: "DokuWiki, auth_password.test.php", password: "Qwerty123", hash: "$6$rounds=3000$9in6UciYPFG6ydsJ$YBjypQ7XoRqvJoX1a2.spSysSVHcdreVXi1Xh5SyOxo2yNSxDjlUCun2YXrwk9.YP6vmRvCWrhp0fbPgSOT7.."},
	{source: "passlib, and openssl passwd -6", password: phrase, hash: "$6$salt$pfWEh40/jW3sybE9zOQ9fIpZ9F6fyy/jogzYisHAyINpuc9icJd187oNK8pukepHV.QSHFtNVGUeWCRJCE9G4/"},
	{source: "passlib", password: cyrillic, hash: "$6$rounds=1000$saltstringsalt16$KP/x0fzrWTiMA8N2PwoFXoUEwj6jaNCw.XITDZ1DY6yn6RMQvUwvw/L7xrGWINYHIRTuplqSYVSsYbfFA1z5z."},
	{source: "passlib", password: strings.Repeat("a", 512), hash: "$6$rounds=1000$salt$pkpJWSPWF7wZ0yJdrBGMQi.crLHPI9Zv5LgB4BOgM9FhhXvuUgFKvChon8hqgMbe5Q.IE8ubYoElZOd0fFETL0"},

	{source: "Django, test_hashers.py", password: "l\u00e8tmein", hash: "sha1$seasalt$cff36ea83f5706ce9aa7454e63e431fc726b2dc8"},
	{source: "Django, test_hashers.py", password: "l\u00e8tmein", hash: "md5$seasalt$3f86d0d3d465b7b458c231bf3555c0e3"},
	{source: "Django, test_hashers.py", password: "l\u00e8tmein", hash: "88a434c88cca4e900f7874cd98123f43"},
	{source: "Django, test_hashers.py", password: "l\u00e8tmein", hash: "md5$$88a434c88cca4e900f7874cd98123f43"},
	{source: "Django, test_hashers.py", password: "l\u00e8tmein", hash: "sha1$$6d138ca3ae545631b3abd71a4f076ce759c5700b"},
	{source: "Django, test_hashers.py", password: "l\u00e8tmein", hash: "pbkdf2_sha256$390000$seasalt$8xBlGd3jVgvJ+92hWPxi5ww0uuAuAnKgC45eudxro7c="},
	{source: "Django, test_hashers.py", password: "secret", hash: "argon2$argon2i$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$YC9+jJCrQhs5R6db7LlN8Q"},
	{source: "Django, test_hashers.py", password: "secret", hash: "argon2$argon2id$v=19$m=102400,t=2,p=8$Y041dExhNkljRUUy$TMa6A8fPJhCAUXRhJXCXdw"},
	{source: "Django, test_hashers.py", password: "l\u00e8tmein", hash: "scrypt$16384$seasalt$8$1$Qj3+9PPyRjSJIebHnG81TMjsqtaIGxNQG/aEB/NYafTJ7tibgfYz71m0ldQESkXFRkdVCBhhY8mx7rQwite/Pw=="},
	{source: "passlib, django_bcrypt", password: phrase, hash: "bcrypt$$2b$05$Jb9ig43bUarNXRrh/5FQnu1mWESBHjWmMVIwckq5c/n3AAVA45Ms2"},
	{source: "passlib, django_bcrypt_sha256", password: phrase, hash: "bcrypt_sha256$$2b$05$X3mJIUYEu0Sev.FNkdyjzuCFdLj4GZL6zHkdC9XNA5EOTRh1IYKFm"},
	{source: "passlib, django_bcrypt_sha256", password: cyrillic, hash: "bcrypt_sha256$$2b$05$Vfix7CuBfcUx9o4To.M1k.GGsjSai4HqZotHp.CDhMkDscdlFOiPO"},

	{source: "passlib", password: phrase, hash: "$pbkdf2$1000$c2FsdHNhbHRzYWx0c2FsdA$EUcKisx.yviAqdTmlEPmy.5ykUU"},
	{source: "passlib", password: phrase, hash: "$pbkdf2-sha256$6000$c2FsdHNhbHRzYWx0c2FsdA$yu.KvnwFDlhZZTR1SPlqJySJW8VKNNnn2oeJ2NZht7E"},
	{source: "hashcat's example of passlib's", password: "hashcat", hash: "$pbkdf2-sha512$25000$LyWE0HrP2RsjZCxlDGFMKQ$1vC5Ohk2mCS9b6akqsEfgeb4l74SF8XjH.SljXf3dMLHdlY1GK9ojcCKts6/asR4aPqBmk74nCDddU3tvSCJvw"},
	{source: "MediaWiki, Pbkdf2PasswordTest.php", password: "password", hash: ":pbkdf2:sha1:4096:20:c2FsdA==:SwB5AbdlSJq+rUnZJvch0GWkKcE="},
	{source: "MediaWiki, Pbkdf2PasswordTest.php", password: "password", hash: ":pbkdf2:sha1:2:20:c2FsdA==:6mwBTcctb4zNHtkqzh1B8NjeiVc="},
	{source: "hashlib, as MediaWiki's Pbkdf2Password", password: phrase, hash: ":pbkdf2:sha512:30000:64:MDEyMzQ1Njc4OWFiY2RlZg==:EZdYedjJ9LINuCEWb/obgbC2etwQSY8+K/kV9Sbe4upwijP8unRux35qRxFax9VOayhTRti9uKhJLnaJW9awyQ=="},
	{source: "hashlib, as MediaWiki's Pbkdf2Password", password: cyrillic, hash: ":pbkdf2:sha256:10000:128:MDEyMzQ1Njc4OWFiY2RlZg==:wFIqoRdBzpI506jHr6yW0A7p9EXBnBFhszReyfd2wNBk8muVlf7y+UQlbkv4AlPId73ECWjfBOQl1RV+4SW/oKixqej+QvgLvZVjkQ+DiEgeRe4W6rbFwfRpFsB5xh9GZhaweu3tZ4tzMyUi9KYYS4gEGen0qw2V/r1vHPIdAeM="},
	{source: "a realm that Keycloak has exported (27500, 64 bytes)", password: "admin", hash: "$pbkdf2-sha256$i=27500$SWU35ecF1zm/VYEcvzdNJg==$31MudlHfx763mvpL+ZJU/etLgu2qFt0NpX+xyK0f8MCxOagc5N5+LCLQ/lUx8PJA6+eflW/eRQcnqGR7L8qb7w=="},
	{source: "a realm that Keycloak has exported (27500, 64 bytes)", password: "user1", hash: "$pbkdf2-sha256$i=27500$H1Yjwf5UUIip/deJSkNJ+Q==$gI7lGJLNUQfn6xcMUtLp0XnOIF3JdaoAj8IogosYZsDg4Q5cFxG5JkJrKZpR7mIG5MxlH346ikZKsiZovvFKDQ=="},
	{source: "hashlib, as Keycloak's pbkdf2-sha512", password: phrase, hash: "$pbkdf2-sha512$i=10000$MDEyMzQ1Njc4OWFiY2RlZg==$Ku2kkJn6DxC9USh74Agbkv4vbBI4ZhZ8d47MX26bL/eRW8hekiZ5S9cnh202r0tlRpHPMeEkni4bLxrm9+9Cvw=="},
	{source: "hashlib, as Keycloak's pbkdf2", password: phrase, hash: "$pbkdf2$i=20000$MDEyMzQ1Njc4OWFiY2RlZg==$3j/kSXDCFGf+gK+IC5hDJD7B63eDRKJWnhTpQ3Nh9Yn4EIxpeBgLSZpVdl9LMnC6x+tygyctTfXI4xPArxGXMQ=="},
	{source: "hashlib, as Discourse's Pbkdf2", password: phrase, hash: "244c092c37392a503d95998a20791da48b17b6e8f748b480e04197774be2013f", salt: "ba3b2db2a15bbe0c3dc1a6f0cd6ca1a6", form: "$pbkdf2-sha256$i=64000,l=32$"},

	{source: "MediaWiki, MWSaltedPasswordTest.php", password: "password", hash: ":B:salt:9842afc7cb949c440c51347ed809362f"},
	{source: "MediaWiki, MWOldPasswordTest.php", password: "password", hash: ":A:salt:9842afc7cb949c440c51347ed809362f"},
	{source: "MediaWiki, MWOldPasswordTest.php", password: "password", hash: ":A:5f4dcc3b5aa765d61d8327deb882cf99"},
	{source: "DokuWiki, auth_password.test.php", password: "password", hash: ":B:838c83e1:e4ab7024509eef084cdabd03d8b2972c"},
	{source: "MediaWiki, BcryptPasswordTest.php", password: "U*U", hash: ":bcrypt:5$CCCCCCCCCCCCCCCCCCCCC.$E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW"},
	{source: "MediaWiki, Argon2PasswordTest.php", password: "password", hash: ":argon2:$argon2i$v=19$m=1024,t=2,p=2$RHpGTXJPeFlSV2NDTEswNA$VeW7rumZY4pL8XO4KeQkKD43r5uX3eazVJRtrFN7lNc"},

	{source: "hashcat's module for phpBB 3.1", password: "123456", hash: `$H\2y$7RsqOrLNk$10\vw31ldi5VPlyG2t5HxqIKe$yFv5dvOFakbr/GBBC0oyfIGMOkSD1dq`},
	{source: "passlib (phpass) and Python bcrypt, as phpBB's helper.php", password: cyrillic, hash: `$H\2y$7IQRaTwmf$05\GcfJS9Yx8W.U9SML8fhA/e$XPW4R.b4352D7TYIHBo0xMv/BS1X1Gq`},
	{source: "DokuWiki, auth_password.test.php", password: "test12345", hash: "$H$9IQRaTwmfeRo7ud9Fh4E2PdI0S3r.L0"},

	{source: "DokuWiki, auth_password.test.php", password: "foossha", hash: "{SSHA}QMHG+uC7bHNYKkmoLbNsNI38/dJhYmNk"},
	{source: "DokuWiki, auth_password.test.php", password: "foolsmd5", hash: "{SMD5}HGbkPrkWgy9KgcRGWlrsUWFiY2RlZmdo"},
	{source: "passlib", password: phrase, hash: "{SSHA256}16iywHiSwzpJASuhyv183H8tjE/kHn3I8Uw8sxfHi1zqPWfs3VtrrQ=="},
	{source: "passlib", password: phrase, hash: "{SSHA512}0m7Y0ql9rB/OT8ALugEZ1yVcCENjTxQoQyOJAeOJnwbIB5Oi5qS9kfnXgKxrcXM4DaivFqfq8I+r9qkcwM+EF60VojTmPIfw"},
	{source: "passlib", password: phrase, hash: "{SHA}L55TUjtiq8FBorTWAZ0jy6g129A="},
	{source: "passlib", password: phrase, hash: "{MD5}PLTnMmMfR+brlh80VUt83g=="},
	{source: "passlib, and openssl passwd -6", password: phrase, hash: "{CRYPT}$6$salt$pfWEh40/jW3sybE9zOQ9fIpZ9F6fyy/jogzYisHAyINpuc9icJd187oNK8pukepHV.QSHFtNVGUeWCRJCE9G4/"},
	{source: "hashlib, as Joomla's UserHelper", password: phrase, hash: "{SHA256}d6edf62c5ba39045cf622fa0e7a0baf752f3fe14dd53094161836b7e6f4fed9e:Zr8aQ"},

	{source: "phpBB, drivers_test.php (md5_mybb)", password: "foobar", hash: "b86ee7e24008bfd2890dcfab1ed31333", salt: "yeOtfFO6", form: "md5(md5(s).md5(p))"},
	{source: "phpBB, drivers_test.php (md5_vb)", password: "foobar", hash: "f23a8241bd115d270c703213e3ef7f52", salt: "iaU*U%`CBl;/e~>D%do2m@Xf/,KZB0", form: "md5(md5(p).s)"},
	{source: "phpBB, drivers_test.php (sha1_wcf1)", password: "foobar", hash: "fc46b9d9386167ce365ea3b891bf5dc31ddcd3ff", salt: "1a783e478d63f6422783a868db667aed3a857840", form: "sha1(s.sha1(s.sha1(p)))"},
	{source: "phpBB, drivers_test.php (sha_xf1)", password: "foobar", hash: "7f65d2fa8a826d232f8134772252f8b1aaef8594b1edcabd9ab65e5b0f236ff0", salt: "15b6c02cedbd727f563dcca607a89b085287b448966f19c0cc78cae263b1e38c", form: "sha256(sha256(p).s)"},
	{source: "phpBB, drivers_test.php (sha_xf1)", password: "foobar", hash: "69962ae2079420573a3948cc4dedbabd35680051", salt: "15b6c02cedbd727f563dcca607a89b085287b448966f19c0cc78cae263b1e38c", form: "sha1(sha1(p).s)"},
	{source: "phpBB, drivers_test.php (sha1_smf)", password: "foobar", hash: "6f9e2a1899e1f15708fd2e554103480eb53e8b57", salt: "test", form: "sha1(s.p)"},
	{source: "SMF 2.1, hash_password", password: phrase, hash: "$2y$04$.4niO2fliMjzhmRxUgkXreR0AAS55tcwB6tH9V29bIvhfxzZUKgt2", salt: "\u00e4dele", form: "bcrypt(s.p)"},
	{source: "PHP 8.2, as vBulletin's Algorithm_Blowfish", password: phrase, hash: "$2y$04$T.j8QG.0gYrS2sY153LcuuzNkzFJFbTWc2bq2d6a1eCYf0.Izk2cO", form: "bcrypt(md5(p))"},
	{source: "hashlib, as Joomla 1.5", password: phrase, hash: "1718b1e30bf3987e092e9bf62a31b1a7:Zr8aQ", form: "md5(p.s)"},
	{source: "hashlib", password: phrase, hash: "661159022b2931678d254426b1b06a5c:Zr8aQ", form: "md5(s.p)"},
	{source: "hashlib", password: phrase, hash: "8E076CC271A46D554A161E4579DFE5E8", form: "md5(md5(p))"},
	{source: "hashlib", password: phrase, hash: "2f9e53523b62abc141a2b4d6019d23cba835dbd0", form: "sha1(p)"},
	{source: "hashlib", password: phrase, hash: "a10020653f13584409379e0d7120e3f5a7e2cab62e5ee0331f284f96cbcf6a0f", salt: "Zr8aQ", form: "sha256(s.sha256(p))"},
	{source: "hashlib", password: phrase, hash: "90fac034341909015d8e2aee2d440b6594c3396be44ab95db67031313f734d780ac330e855fe398fe7fb55de13a0c5e77748e327c84d4197521edc42c17a52bc", salt: "Zr8aQ", form: "sha512(p.s)"},
}

func TestVerify_MatchesHashesOfOtherSystems(t *testing.T) {
	computesAlone(t)
	h := newHasher(t, cheap)
	for _, v := range formatVectors {
		t.Run(v.source+" "+v.hash[:8], func(t *testing.T) {
			encoded, err := AdoptForm(v.hash, v.salt, v.form)
			if err != nil {
				t.Fatal(err)
			}
			check := func(encoded string) {
				t.Helper()
				mustVerify(t, h, encoded, v.password, Result{Match: true, Rehash: true})
				mustVerify(t, h, encoded, "x"+v.password, Result{})
				mustVerify(t, h, encoded, "", Result{})
				mustVerify(t, h, encoded, v.hash, Result{})
				if class, ok := h.Class(encoded); Name(encoded) == "" || class == "" || !ok {
					t.Errorf("got name %q and class %q, %t", Name(encoded), class, ok)
				}
				if again, err := Adopt(encoded); err != nil || again != encoded {
					t.Errorf("adopting the stored form: got %q, %v, want it unchanged", again, err)
				}
			}
			check(encoded)
			if !IsBare(encoded) {
				return
			}
			wrapped, err := h.Wrap(t.Context(), encoded)
			if err != nil {
				t.Fatal(err)
			}
			if s, _ := parse(encoded); s.sum != nil && strings.Contains(wrapped, s.sum(v.password)) || IsBare(wrapped) {
				t.Errorf("got %q, want the sum wrapped", wrapped)
			}
			if Name(wrapped) != Name(encoded) {
				t.Errorf("got the name %q, want that of the hash within, %q", Name(wrapped), Name(encoded))
			}
			check(wrapped)
		})
	}
}
