package rehearsal

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"strings"
	"time"
)

// hashes are users with a hash of every stored format, at low costs. Their sources are in the tests of
// package internal/password. The last ones were made of an altered password, as other systems do.
var hashes = []struct{ login, password, hash, salt, form string }{
	{"argon2id", "password", "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4", "", ""},
	{"argon2id_phpbb", horse, "$argon2id$v=19$m=64,t=2,p=1$UWVoYWlBRkdqVUd2Sm80NQ$IO72OLg/DCw0u46jDtMytlF9c39rVMtvLanchEeQNSw", "", ""},
	{"argon2i", horse, "$argon2i$v=19$m=64,t=2,p=1$TGQ2T3U2bUJDUHo2eTJJTg$87OSGywC3deRu67CAB46FyVe4L4IWSL9aZqkjZK1FXI", "", ""},
	{"argon2i_django", "secret", "argon2$argon2i$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$YC9+jJCrQhs5R6db7LlN8Q", "", ""},
	{"argon2_wiki", "password", ":argon2:$argon2i$v=19$m=1024,t=2,p=2$RHpGTXJPeFlSV2NDTEswNA$VeW7rumZY4pL8XO4KeQkKD43r5uX3eazVJRtrFN7lNc", "", ""},
	{"bcrypt_2a", horse, "$2a$05$5EawS8ikkcjIeDvecuj.XOwm8Ojj2Z0lUH5.1duX8uY8rwtT0JvRq", "", ""},
	{"bcrypt_2b", horse, "$2b$05$GcfJS9Yx8W.U9SML8fhA/eYoi8IGoDvaOiddQP.GoHAaalrbiS9Z.", "", ""},
	{"bcrypt_long", strings.Repeat("correct horse ", 6), "$2a$04$M8Z5KQKrSGvi.qjLHVe7p.eCpZkeFHpR.lv.QhAnqX5jk/i.J25bC", "", ""}, // its first 72 bytes count
	{"bcrypt_2y", cyrillic, "$2y$05$gq/dWEH08nXTQLGfUPXAduY4Kah4aHZvtewwlWN4kea.44cOoxnpW", "", ""},
	{"bcrypt_django", horse, "bcrypt$$2b$05$Jb9ig43bUarNXRrh/5FQnu1mWESBHjWmMVIwckq5c/n3AAVA45Ms2", "", ""},
	{"bcrypt_sha256", cyrillic, "bcrypt_sha256$$2b$05$Vfix7CuBfcUx9o4To.M1k.GGsjSai4HqZotHp.CDhMkDscdlFOiPO", "", ""},
	{"bcrypt_wiki", "U*U", ":bcrypt:5$CCCCCCCCCCCCCCCCCCCCC.$E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW", "", ""},
	{"bcrypt_smf", horse, "$2y$04$.4niO2fliMjzhmRxUgkXreR0AAS55tcwB6tH9V29bIvhfxzZUKgt2", "ädele", "bcrypt(s.p)"},
	{"bcrypt_vb5", horse, "$2y$04$T.j8QG.0gYrS2sY153LcuuzNkzFJFbTWc2bq2d6a1eCYf0.Izk2cO", "", "bcrypt(md5(p))"},
	{"wp_bcrypt", cyrillic, "$wp$2y$05$TbjKpp1FhCGsqjaBXWPdKucH61DEhCL0.qZrnJi/c1fCTxh7tC0bC", "", ""},
	{"phpass_wp", cyrillic, "$P$BfQsEO4.4rbOQXUN28vCgpy8.kxCk//", "", ""},
	{"phpass_strong", horse, "$P$CfEAVu23OlxawzaEqVLpp9KmSXWyUq/", "", ""},
	{"phpass_phpbb", horse, "$H$99T6UAL/QQ93gU8rt6FYijAHlDv8qJ1", "", ""},
	{"phpbb_combined", cyrillic, `$H\2y$7IQRaTwmf$05\GcfJS9Yx8W.U9SML8fhA/e$XPW4R.b4352D7TYIHBo0xMv/BS1X1Gq`, "", ""},
	{"drupal", cyrillic, "$S$9c47LGZuhn5zS7HM2GDxXueHBojOogG8XKvv3l1hcJIVHXRsQY/T", "", ""},
	{"drupal_strong", "drupal_sha512", "$S$D7JxIm0f7QKO3zjwVS1RH4AW8sYvmLjO0.Rn4swH0JVt6OrZ4yzZ", "", ""},
	{"drupal_6", cyrillic, "U$S$9c47LGZuh0IJzNZfh9P5pvqz5tTCz3VXvMPp8fa6G4ClZAItr46z", "", ""},
	{"crypt_md5", cyrillic, "$1$saltsalt$ezD8AnLbQptYSYCIzvVyW1", "", ""},
	{"crypt_sha256", "with unic\u00D6de", "$5$rounds=1000$IbG0EuGQXw5EkMdP$LQ5AfPf13KufFsKtmazqnzSGZ4pxtUNw3woQ.ELRDF4", "", ""},
	{"crypt_sha256_11", "test", "$5$rounds=11858$WH1ABM5sKhxbkgCK$aTQsjPkz0rBsH3lQlJxw9HDTDXPKBxC0LlVeV69P.t1", "", ""},
	{"crypt_sha512", cyrillic, "$6$rounds=1000$saltstringsalt16$KP/x0fzrWTiMA8N2PwoFXoUEwj6jaNCw.XITDZ1DY6yn6RMQvUwvw/L7xrGWINYHIRTuplqSYVSsYbfFA1z5z.", "", ""},
	{"crypt_ldap", horse, "{CRYPT}$1$saltsalt$NuzA7WTAelpl95xgBGWN60", "", ""},
	{"pbkdf2_django", cyrillic, "pbkdf2_sha256$1000$V9F7mJaKKLQt5CzoHTrV6P$SGcnpIXtDseWMp5x23HssAxi0Sr1vKzBu0SgjpvAsnA=", "", ""},
	{"pbkdf2_django1", horse, "pbkdf2_sha1$1000$d2YLGuCMK7U7Qh2xG7Sxun$MxEXsQ0E4lRw02eRU6lGUxxKeXk=", "", ""},
	{"pbkdf2_sha1", horse, "$pbkdf2$1000$c2FsdHNhbHRzYWx0c2FsdA$EUcKisx.yviAqdTmlEPmy.5ykUU", "", ""},
	{"pbkdf2_sha256", horse, "$pbkdf2-sha256$6000$c2FsdHNhbHRzYWx0c2FsdA$yu.KvnwFDlhZZTR1SPlqJySJW8VKNNnn2oeJ2NZht7E", "", ""},
	{"pbkdf2_keycloak", horse, "$pbkdf2-sha512$i=10000$MDEyMzQ1Njc4OWFiY2RlZg==$Ku2kkJn6DxC9USh74Agbkv4vbBI4ZhZ8d47MX26bL/eRW8hekiZ5S9cnh202r0tlRpHPMeEkni4bLxrm9+9Cvw==", "", ""},
	{"pbkdf2_wiki", "password", ":pbkdf2:sha1:4096:20:c2FsdA==:SwB5AbdlSJq+rUnZJvch0GWkKcE=", "", ""},
	{"scrypt", cyrillic, "$scrypt$ln=9,r=4,p=2$ovQ+B4CwNkbo/f+fMyakFA$tORU9XQ+TEgj7ZxJ5viCNpJzt7j8RiEoKCuNiW/KDE4", "", ""},
	{"scrypt_django", cyrillic, "scrypt$512$urMUQfxFqAfgvhDWdnJzqa$4$1$W1WqLqjUrYvEZJR+5DfNtdREGnJF1dYE4/C81VztGvmV3vm7RA2Uf3iK+0vtBq0BUE4XjdYJRXkgvnZIzRCacw==", "", ""},
	{"md5", cyrillic, "E0D2469E3CCAEAA78FA6CEADDF41272B", "", ""},
	{"md5_twice", horse, "8E076CC271A46D554A161E4579DFE5E8", "", "md5(md5(p))"},
	{"md5_joomla", horse, "1718b1e30bf3987e092e9bf62a31b1a7:Zr8aQ", "", "md5(p.s)"},
	{"md5_mybb", "foobar", "b86ee7e24008bfd2890dcfab1ed31333", "yeOtfFO6", "md5(md5(s).md5(p))"},
	{"md5_django", "l\u00e8tmein", "md5$seasalt$3f86d0d3d465b7b458c231bf3555c0e3", "", ""},
	{"md5_wiki", "password", ":B:salt:9842afc7cb949c440c51347ed809362f", "", ""},
	{"md5_ldap", "foolsmd5", "{SMD5}HGbkPrkWgy9KgcRGWlrsUWFiY2RlZmdo", "", ""},
	{"sha1", horse, "2f9e53523b62abc141a2b4d6019d23cba835dbd0", "", "sha1(p)"},
	{"sha1_wcf", "foobar", "fc46b9d9386167ce365ea3b891bf5dc31ddcd3ff", "1a783e478d63f6422783a868db667aed3a857840", "sha1(s.sha1(s.sha1(p)))"},
	{"sha1_ldap", "foossha", "{SSHA}QMHG+uC7bHNYKkmoLbNsNI38/dJhYmNk", "", ""},
	{"sha256", horse, "a10020653f13584409379e0d7120e3f5a7e2cab62e5ee0331f284f96cbcf6a0f", "Zr8aQ", "sha256(s.sha256(p))"},
	{"sha256_joomla", horse, "{SHA256}d6edf62c5ba39045cf622fa0e7a0baf752f3fe14dd53094161836b7e6f4fed9e:Zr8aQ", "", ""},
	{"sha512", horse, "90fac034341909015d8e2aee2d440b6594c3396be44ab95db67031313f734d780ac330e855fe398fe7fb55de13a0c5e77748e327c84d4197521edc42c17a52bc", "Zr8aQ", "sha512(p.s)"},

	{"slashes", "naïve 'x'", "$P$BOt67V2KSZ4hnm6M62wlhjcSyiBkpq.", "", ""},
	{"slashes_bcrypt", "naïve 'x'", "$wp$2y$05$nIeAwVi6GrwhtEQ4.vNCgeccqSFsg3YLXnOc.YqLbqeblAgekioom", "", ""},
	{"slashes_1252", "über 'x'", "ed5df9938f6e7f0029745b88d56adcab", "", ""},
	{"html", "it's <3", "$H$90jdfrFuPiepdU26P910XnU/EtPLo8.", "", ""},
	{"vbulletin", "пароль 7", "fccb17d1a1f6cbf105056e8b133159a0", "9^F", "md5(md5(p).s)"},
	{"windows_1252", "straße €5", "e069790f75c24a13aaef36b45ff8ecc0", "", ""},
	{"windows_1251", "пароль", "749789e4982b0c563f6729aac100a614", "", ""},
	{"trimmed", " correct horse ", "$P$BfEAVu23ObjBkUbr6.1RaiASnSr9u9/", "", ""},
}

const horse, cyrillic = "correct horse", "пароль и слово"

// names are in ten scripts, the first with all that a name may have.
var names = []string{
	"Jörg O’Neill-Łuć", "Анна Ёлкина", "Ελένη Παπά", "王小明", "やまだ はなこ", "김철수", "محمد علي", "דוד כהן", "สมชาย ใจดี", "अमित कुमार",
	"ქეთი ბერიძე", "Անի Պետրոսյան",
}

// posted is a user whose login is their e-mail.
const posted = "posted@script.invalid"

// importedUsers returns users as NDJSON for an import: one of each stored hash, and those that only an
// import makes.
func importedUsers(s *story) []byte {
	var lines []byte
	add := func(login, password, hash string, more map[string]any) {
		if len(hash) > 1 { // no log may have it
			s.secrets = append(s.secrets, hash)
		}
		lines = append(lines, importedUser(s, login, password, hash, more)...)
	}
	for _, h := range hashes {
		add(h.login, h.password, h.hash, map[string]any{"password_salt": h.salt, "hash_form": h.form})
	}
	argon2id := hashes[0].hash
	add(posted, "password", argon2id, map[string]any{"email": posted})
	s.users[posted].email = posted
	add("odd", "password", argon2id, map[string]any{"name": "A\u200bB", "a_text": "x\u2066y"}) // as no user may write any more
	add("passwordless", "password", "!", nil)
	add("unverified", "password", argon2id, map[string]any{"email_verified": false})
	add("disabled", "password", argon2id, map[string]any{"disabled": true})
	add("leaving", "password", argon2id, map[string]any{"disabled": true, "erase_at": s.now.Add(48 * time.Hour)})
	add("mailless", "password", argon2id, map[string]any{"email": nil, "email_verified": nil})
	const composed = "пароль с й 7391"
	add("composed", composed, weak(composed), map[string]any{"hash_form": "sha256(p)"})
	all := map[string]any{"fields": map[string]any{"field_of_old": "kept", "of_later": map[string]any{"a": []int{1}}}}
	for _, f := range s.schema.Fields {
		all[f.Name] = valid[f.Name]
	}
	add("full", "password", argon2id, all)
	for i, login := range people {
		password := passwordOf(login)
		more := map[string]any{
			"hash_form": "sha256(p)", "locale": []string{"en", "ru"}[i%2], "created": time.Date(2020, 1, 3+i, 3, 4, 5, 0, time.UTC),
			"rating": i % 5, "kind": []string{"reader", "writer"}[i%2], "a_boolean": i%3 == 0,
		}
		if i%4 == 0 {
			more["city"] = nil
		}
		add(login, password, weak(password), more)
	}
	return lines
}

// importedUser returns a line of the file of an import, and more columns.
func importedUser(s *story, login, password, hash string, more map[string]any) []byte {
	u := s.add(login)
	u.password = password
	row := map[string]any{
		"login": u.login, "email": u.email, "email_verified": true, "name": names[len(s.users)%len(names)], "password_hash": hash,
		"created": "2020-01-02T03:04:05Z", "updated": "2021-01-02T03:04:05Z", "locale": "ru,en", "city": "Riga", "a_tags": []string{"x", "y"},
	}
	maps.Copy(row, more)
	line, _ := json.Marshal(row) // it cannot fail
	return append(line, '\n')
}

// weak returns the weak hash of a password.
func weak(password string) string {
	sum := sha256.Sum256([]byte(password))
	return hex.EncodeToString(sum[:])
}

// wrapped are users whose hashes wait to be wrapped when the first act has ended. The first one signs in
// in the second.
var wrapped = []string{"wrapped1", "wrapped2"}

func wrappedUsers(s *story) (lines []byte) {
	for _, login := range wrapped {
		password := passwordOf(login)
		lines = append(lines, importedUser(s, login, password, weak(password), map[string]any{"hash_form": "sha256(p)"})...)
	}
	return lines
}

// hashed returns the logins of users that have a stored hash.
func hashed() (logins []string) {
	for _, h := range hashes {
		logins = append(logins, h.login)
	}
	return logins
}
