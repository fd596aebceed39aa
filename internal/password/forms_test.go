package password

import (
	"slices"
	"strings"
	"testing"
)

// alteredVectors are hashes that systems have made of something else than the password that was typed. Those of WordPress are made
// by add_magic_quotes, trim and wp_hash_password of 6.1 and 7.0, as edit_user does it with $_POST; those of phpBB by
// type_cast_helper::set_var and the drivers of 3.3, and as driver/md5_phpbb2.php reads those of phpBB 2. Those of vBulletin are by
// the str_to_ent of its vbulletin_md5.js, in Node. Those of pages in windows-1252 and windows-1251 are the MD5 of the bytes that Chromium
// posts for them; the others are PHP 8.2, with what the source of the system does to the password.
var alteredVectors = []struct{ condition, password, hash, salt, form string }{
	{condition: "WordPress adds backslashes", password: `it's "so" \ simple`, hash: "$P$Buwik7K93CfAX5kC8NYYrFvs548cZl0"},
	{condition: "WordPress 6.8 adds backslashes", password: `it's "so" \ simple`, hash: "$wp$2y$05$JkOpmI25JGBIJBL7b0Et6uGqazUZpHqPEosfRfQRfd5w3gQbmBGSy"},
	{condition: "an MD5 of WordPress has backslashes", password: `it's "so" \ simple`, hash: "2f9aa8ad6220f3c82e07cf68479852c5"},
	{condition: "WordPress adds backslashes beside other letters", password: "naïve 'x'", hash: "$P$BOt67V2KSZ4hnm6M62wlhjcSyiBkpq."},
	{condition: "WordPress 6.8 adds backslashes beside other letters", password: "naïve 'x'", hash: "$wp$2y$05$nIeAwVi6GrwhtEQ4.vNCgeccqSFsg3YLXnOc.YqLbqeblAgekioom"},
	{condition: "phpBB 3.0 escapes HTML, but no apostrophe", password: "it's <3", hash: "$H$90jdfrFuPiepdU26P910XnU/EtPLo8."},
	{condition: "phpBB 3.1 escapes HTML", password: "it's <3", hash: "$2y$10$cYQiW70ezMpKZDF25H8xbO0lKUOglNDbg0Pq.Vd/Lj/CHAU8avlUS"},
	{condition: "phpBB 3.3 escapes HTML", password: "café & bar", hash: "$argon2id$v=19$m=65536,t=4,p=2$YlVWZTl0WnpuSGxNM1M1bA$qvzptpTZGwM6soswy+xyQ7nd9CHRpvZwrakO74bnkuA"},
	{condition: "phpBB escapes and composes letters", password: "cafe\u0301 & bar", hash: "$H$979NqRxEOF8SNHUIEpZGlF/3jiL9a9."},
	{condition: "phpBB 2 adds backslashes in windows-1252", password: "über 'x'", hash: "ed5df9938f6e7f0029745b88d56adcab"},
	{condition: "phpBB 2 hashes windows-1252", password: "€üro", hash: "f0386becf37e8d18020613e010f4a1d4"},
	{condition: "SMF 1.1 adds backslashes, its salt is in lower case", password: `o'clock \`, hash: "ad59bdf244ada249783073507667951c4042d2c5", salt: "ada", form: "sha1(s.p)"},
	{condition: "SMF 2.0 hashes what was typed", password: `o'clock \`, hash: "2d75b775ecb1f792742b7c1afca3369ebff52f0d", salt: "ada", form: "sha1(s.p)"},
	{condition: "vBulletin writes letters beyond Latin-1 as numbers", password: "пароль 7", hash: "fccb17d1a1f6cbf105056e8b133159a0", salt: "9^F", form: "md5(md5(p).s)"},
	{condition: "vBulletin hashes the rest as Latin-1", password: "pass€wört", hash: "e8301a896e65cb9ee63193a63327877a", salt: "9^F", form: "md5(md5(p).s)"},
	{condition: "vBulletin writes emoji as two numbers", password: "fox 🦊", hash: "7c3043ffa22595d6e577e861889bb92c", salt: "9^F", form: "md5(md5(p).s)"},
	{condition: "a page in windows-1252 has bytes of it", password: "straße €5", hash: "e069790f75c24a13aaef36b45ff8ecc0"},
	{condition: "a page in windows-1252 has numbers for the rest", password: "€🦊пß", hash: "0cfc59a6b80af569c6db99ef9fdf4821"},
	{condition: "a page in windows-1251 has bytes of it", password: "пароль", hash: "749789e4982b0c563f6729aac100a614"},
}

// trimmedVectors are hashes of systems that cut white space from a password.
var trimmedVectors = []struct{ condition, password, hash string }{
	{"WordPress trims and adds backslashes", " it's ", "$P$B80VT.AHEggITUQt8sxMbM4QZEya1z/"},
	{"WordPress 6.8 trims and adds backslashes", " it's ", "$wp$2y$05$nL/M7DBXYm3IFaxtdV7tu.bUtWTpesOVRwdRethwauJDl0OA5KvK6"},
	{"WordPress trims", " correct horse ", "$P$BfEAVu23ObjBkUbr6.1RaiASnSr9u9/"},
	{"WordPress 6.8 trims", " correct horse\t", "$wp$2y$05$WhyxBDhSo/YsdMropMgla.QkyuKoFDnW1GX/uk6MQu5kvNFoYYq5S"},
	{"phpBB trims and escapes HTML", ` <b>&"co" `, "$H$9brKICogxdYWMlUG7o20unPQGlDPZL/"},
	{"Drupal 10 trims", " open sesame ", "$2y$05$6R33m3.jKI36blD/ViYRDu/XzJuvSdv0sw56l5gXtzYwn4BnpQ8ki"},
	{"Joomla 1.5 trims", "open sesame ", "490729da0b7f693a3d3cab553edaa8e3:Zr8aQ"},
}

// alsoWrapped returns the stored form of a foreign hash, and what it is after it was wrapped.
func alsoWrapped(t *testing.T, h *Hasher, hash, salt, form string) (encoded []string) {
	t.Helper()
	adopted, err := AdoptForm(hash, salt, form)
	if err != nil {
		t.Fatal(err)
	}
	if encoded = []string{adopted}; IsBare(adopted) {
		wrapped, err := h.Wrap(t.Context(), adopted)
		if err != nil {
			t.Fatal(err)
		}
		encoded = append(encoded, wrapped)
	}
	return encoded
}

func TestVerify_MatchesWhatOtherSystemsMadeOfThePassword(t *testing.T) {
	computesAlone(t)
	h := newHasher(t, cheap)
	for _, v := range alteredVectors {
		t.Run(v.condition, func(t *testing.T) {
			for _, encoded := range alsoWrapped(t, h, v.hash, v.salt, v.form) {
				mustVerify(t, h, encoded, v.password, Result{Match: true, Rehash: true})
			}
		})
	}
}

// The system accepts the password with and without the white space. A new hash would accept what was typed this time alone.
func TestVerify_KeepsAHashThatTrims(t *testing.T) {
	h := newHasher(t, cheap)
	for _, v := range trimmedVectors {
		t.Run(v.condition, func(t *testing.T) {
			form := ""
			if strings.Contains(v.hash, ":") {
				form = "md5(p.s)"
			}
			for _, encoded := range alsoWrapped(t, h, v.hash, "", form) {
				mustVerify(t, h, encoded, v.password, Result{Match: true})
				mustVerify(t, h, encoded, strings.TrimSpace(v.password), Result{Match: true, Rehash: true})
			}
		})
	}
}

func TestForms_AreFewAndDependOnThePasswordAlone(t *testing.T) {
	for entered, want := range map[string][]string{
		"correct horse": {"correct horse"},
		"":              nil,
		"   ":           {"   "},
		"it's":          {"it's", `it\'s`},
		`"&"`:           {`"&"`, `\"&\"`, "&quot;&amp;&quot;"},
		" x ":           {" x ", "x"},
		"é":             {"é", "\xe9"},
		"e\u0301":       {"é", "e\u0301", "\xe9"},
		"п":             {"п", "&#1087;", "\xef"},
		"€":             {"€", "\x80", "&#8364;", "\x88"},
		"'п":            {"'п", `\'п`, "'&#1087;", `\'&#1087;`, "'\xef"},
		"tab\t":         {"tab\t", "tab"},
		"\xff'":         {"\xff'"},
		// As many as a password may have.
		" \"\u00a0€": {" \" €", " \"\u00a0€", "\"\u00a0€", "\\\"\u00a0€", "&quot;\u00a0€", "\"\xa0\x80"},
		// Longer ones are not hashed.
		strings.Repeat("п", 2000): {strings.Repeat("п", 2000), strings.Repeat("\xef", 2000)},
		strings.Repeat("'", 2049): {strings.Repeat("'", 2049)},
	} {
		got := forms(entered, true)
		if !slices.Equal(got, want) {
			t.Errorf("%.20q: got %.40q, want %.40q", entered, got, want)
		}
		if len(got) > maxForms {
			t.Errorf("%.20q: got %d forms, want %d at most", entered, len(got), maxForms)
		}
		own := forms(entered, false)
		if len(own) > 2 || !slices.Equal(own, got[:len(own)]) {
			t.Errorf("%.20q: got %.40q for new hashes, want the first of %.40q, two at most", entered, own, got)
		}
	}
}

// The forms of a hash that Personal has made, and of one that it would make, are those of before: other systems had no part in it.
func TestVerify_OwnHashesMatchNoOtherForm(t *testing.T) {
	h := newHasher(t, cheap)
	for _, made := range []string{`it\'s`, "&lt;3", "x"} {
		hash, err := h.Hash(t.Context(), user, made)
		if err != nil {
			t.Fatal(err)
		}
		for _, entered := range []string{"it's", "<3", " x "} {
			mustVerify(t, h, hash, entered, Result{})
		}
	}
}

func TestMatchForms_FindsTheFormOfAnAlteredPassword(t *testing.T) {
	for _, v := range alteredVectors {
		if strings.HasPrefix(v.hash, "$") {
			continue
		}
		want := v.form
		if want == "" {
			want = md5Form
		}
		if got := MatchForms(v.hash, v.salt, v.password); !slices.Contains(got, want) {
			t.Errorf("%s: got %q, want %s", v.condition, got, want)
		}
	}
}
