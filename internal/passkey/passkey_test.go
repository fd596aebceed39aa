package passkey_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/descope/virtualwebauthn"

	"github.com/cms-personal/personal/internal/passkey"
	"github.com/cms-personal/personal/internal/testkit/race"
	"github.com/cms-personal/personal/shared/personal/personaltest/softkey"
)

const origin = "https://www.site.example"

var (
	site      = passkey.Site{ID: "site.example", Name: "Example", Origins: []string{"https://site.example", origin}}
	challenge = bytes.Repeat([]byte{0xc5}, 32)
	user      = passkey.User{Handle: []byte("a random handle"), Name: "ada", DisplayName: "Ada"}
)

// device is an authenticator of another implementation, at a relying party.
type device struct {
	rp   virtualwebauthn.RelyingParty
	auth virtualwebauthn.Authenticator
	cred virtualwebauthn.Credential
}

// newDevice makes a device with a key. One key of EC2 in a hundred has a coordinate that begins with
// 0, which this implementation leaves out. RFC 9053, section 7.1.1, demands it.
func newDevice(kind virtualwebauthn.KeyType) device {
	const ec2Size = 77 // of a COSE key with all bytes of both coordinates
	cred := virtualwebauthn.NewCredential(kind)
	for kind == virtualwebauthn.KeyTypeEC2 && len(cred.Key.AttestationData()) != ec2Size {
		cred = virtualwebauthn.NewCredential(kind)
	}
	return device{
		virtualwebauthn.RelyingParty{ID: site.ID, Name: site.Name, Origin: origin},
		virtualwebauthn.NewAuthenticatorWithOptions(virtualwebauthn.AuthenticatorOptions{UserHandle: user.Handle, BackupEligible: true, BackupState: true}),
		cred,
	}
}

func (d device) create(t testing.TB) string {
	t.Helper()
	options, err := virtualwebauthn.ParseAttestationOptions(site.CreationOptions(challenge, user, nil))
	if err != nil {
		t.Fatalf("another implementation cannot read the creation options: %v", err)
	}
	return virtualwebauthn.CreateAttestationResponse(d.rp, d.auth, d.cred, *options)
}

func (d device) get(t testing.TB) string {
	t.Helper()
	options, err := virtualwebauthn.ParseAssertionOptions(site.RequestOptions(challenge, []passkey.Key{{CredentialID: d.cred.ID}}))
	if err != nil {
		t.Fatalf("another implementation cannot read the request options: %v", err)
	}
	return virtualwebauthn.CreateAssertionResponse(d.rp, d.auth, d.cred, *options)
}

func register(t testing.TB, credential string) passkey.Key {
	t.Helper()
	key, err := site.Register(challenge, credential)
	if err != nil {
		t.Fatalf("registering: %v", err)
	}
	return key
}

func verify(challenge []byte, credential string, key passkey.Key) (passkey.Key, error) {
	a, err := passkey.ParseAssertion(credential)
	if err != nil {
		return key, err
	}
	return site.Verify(challenge, a, key)
}

func TestCeremonies_OtherImplementation(t *testing.T) {
	for name, kind := range map[string]virtualwebauthn.KeyType{"ES256": virtualwebauthn.KeyTypeEC2, "RS256": virtualwebauthn.KeyTypeRSA} {
		t.Run(name, func(t *testing.T) {
			d := newDevice(kind)
			key := register(t, d.create(t))
			if !bytes.Equal(key.CredentialID, d.cred.ID) || !key.BackupEligible || !key.BackedUp || key.SignCount != 0 {
				t.Errorf("got %+v, want the key of the device, backed up and without a counter", key)
			}
			d.cred.Counter = 7
			d.auth.Options.BackupState = false
			credential := d.get(t)
			after, err := verify(challenge, credential, key)
			if err != nil || after.SignCount != 7 || after.BackedUp || !bytes.Equal(after.PublicKey, key.PublicKey) {
				t.Errorf("got %+v, error %v; want the same key with the counter 7, not backed up", after, err)
			}
			if a, err := passkey.ParseAssertion(credential); err != nil || !bytes.Equal(a.UserHandle, user.Handle) ||
				!bytes.Equal(a.CredentialID, key.CredentialID) {
				t.Errorf("got the assertion %+v, error %v; want user handle and credential id of the device", a, err)
			}
		})
	}
}

func TestCeremonies_SoftwareAuthenticator(t *testing.T) {
	for _, algorithm := range []int{0, softkey.EdDSA, softkey.RS256} {
		testCeremonies(t, &softkey.Authenticator{Origin: origin, Count: 5, Algorithm: algorithm})
	}
}

func testCeremonies(t *testing.T, d *softkey.Authenticator) {
	t.Helper()
	credential, err := d.Create(site.CreationOptions(challenge, user, nil))
	if err != nil {
		t.Fatal(err)
	}
	key := register(t, credential)
	if credential, err = d.Get(site.RequestOptions(challenge, nil)); err != nil {
		t.Fatal(err)
	}
	if after, err := verify(challenge, credential, key); err != nil || after.SignCount != key.SignCount+1 {
		t.Errorf("got %+v, error %v; want success with the next count", after, err)
	}
	if _, err := d.Create(site.CreationOptions(challenge, user, []passkey.Key{key})); !errors.Is(err, softkey.ErrExcluded) {
		t.Errorf("creating another passkey: got %v, want that the device is excluded", err)
	}
}

func TestOptions_AreThoseOfTheContract(t *testing.T) {
	got := site.CreationOptions([]byte{1, 2, 3}, user, []passkey.Key{{CredentialID: []byte{4}}, {CredentialID: []byte{5}, Transports: []string{"hybrid", "new"}}})
	want := `{"rp":{"id":"site.example","name":"Example"},"user":{"id":"YSByYW5kb20gaGFuZGxl","name":"ada","displayName":"Ada"},"challenge":"AQID",` +
		`"pubKeyCredParams":[{"type":"public-key","alg":-7},{"type":"public-key","alg":-8},{"type":"public-key","alg":-257}],"timeout":300000,` +
		`"excludeCredentials":[{"type":"public-key","id":"BA"},{"type":"public-key","id":"BQ","transports":["hybrid","new"]}],` +
		`"authenticatorSelection":{"residentKey":"required","requireResidentKey":true,"userVerification":"required"},"attestation":"none"}`
	if got != want {
		t.Errorf("creation options: got\n%s\nwant\n%s", got, want)
	}
	got = site.RequestOptions([]byte{1, 2, 3}, nil)
	if want = `{"challenge":"AQID","timeout":300000,"rpId":"site.example","allowCredentials":[],"userVerification":"required"}`; got != want {
		t.Errorf("request options: got\n%s\nwant\n%s", got, want)
	}
	got = site.RequestOptions(nil, []passkey.Key{{CredentialID: []byte{4}}, {CredentialID: []byte{5}, Transports: []string{"usb"}}})
	if want = `"allowCredentials":[{"type":"public-key","id":"BA"},{"type":"public-key","id":"BQ","transports":["usb"]}]`; !strings.Contains(got, want) {
		t.Errorf("request options: got\n%s\nwant %s", got, want)
	}
	nameless := passkey.Site{ID: "site.example"}
	if got := nameless.CreationOptions(nil, user, nil); !strings.Contains(got, `"name":"site.example"`) {
		t.Errorf("got %s, want the domain in place of a missing name", got)
	}
}

func TestRegister_KeepsTransports(t *testing.T) {
	good, err := (&softkey.Authenticator{Origin: origin}).Create(site.CreationOptions(challenge, user, nil))
	if err != nil {
		t.Fatal(err)
	}
	many := make([]string, 100)
	for i := range many {
		many[i] = fmt.Sprintf("t%02d", i)
	}
	for name, test := range map[string]struct {
		sent any
		want []string
	}{
		"of a browser":                  {[]string{"internal", "hybrid"}, []string{"hybrid", "internal"}},
		"unknown ones":                  {[]string{"usb", "smart-card", "neural/2"}, []string{"neural/2", "smart-card", "usb"}},
		"the former name of one":        {[]string{"cable"}, []string{"hybrid"}},
		"twice the same":                {[]string{"nfc", "nfc"}, []string{"nfc"}},
		"no member":                     {nil, nil},
		"null":                          {json.RawMessage("null"), nil},
		"an empty list":                 {[]string{}, nil},
		"no words":                      {[]string{"", "a b", "a\x00", "\u00e9", "usb"}, []string{"usb"}},
		"a long one":                    {[]string{strings.Repeat("x", 32), strings.Repeat("y", 33)}, []string{strings.Repeat("x", 32)}},
		"many":                          {many, many[:10]},
		"a text in place of a list":     {"usb", nil},
		"an object, as of a Set":        {map[string]any{}, nil},
		"values that are not all texts": {[]any{1, nil, "ble", []string{"usb"}}, []string{"ble"}},
	} {
		if got := register(t, change(t, good, test.sent, "response", "transports")).Transports; !slices.Equal(got, test.want) {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

// change returns a credential with another value at a path; nil removes it.
func change(t *testing.T, credential string, value any, path ...string) string {
	t.Helper()
	var c map[string]any
	if err := json.Unmarshal([]byte(credential), &c); err != nil {
		t.Fatal(err)
	}
	at := c
	for _, name := range path[:len(path)-1] {
		at = at[name].(map[string]any)
	}
	if last := path[len(path)-1]; value == nil {
		delete(at, last)
	} else {
		at[last] = value
	}
	data, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// changeBytes returns a credential whose binary value in the response is changed.
func changeBytes(t *testing.T, credential, name string, edit func([]byte) []byte) string {
	t.Helper()
	var c struct{ Response map[string]any }
	if err := json.Unmarshal([]byte(credential), &c); err != nil {
		t.Fatal(err)
	}
	b, err := base64.RawURLEncoding.DecodeString(c.Response[name].(string))
	if err != nil {
		t.Fatal(err)
	}
	return change(t, credential, base64.RawURLEncoding.EncodeToString(edit(bytes.Clone(b))), "response", name)
}

// clientData replaces a text in the client data, which is not signed in a registration.
func clientData(t *testing.T, credential, from, to string) string {
	return changeBytes(t, credential, "clientDataJSON", func(b []byte) []byte {
		if !bytes.Contains(b, []byte(from)) {
			t.Fatalf("no %q in %s", from, b)
		}
		return bytes.Replace(b, []byte(from), []byte(to), 1)
	})
}

// flags sets the flags at a place in the data.
func flags(place int, set func(byte) byte) func([]byte) []byte {
	return func(b []byte) []byte { b[place] = set(b[place]); return b }
}

func without(bit byte) func(byte) byte { return func(f byte) byte { return f &^ bit } }
func with(bit byte) func(byte) byte    { return func(f byte) byte { return f | bit } }

func TestRegister_Refuses(t *testing.T) {
	d := &softkey.Authenticator{Origin: origin}
	good, err := d.Create(site.CreationOptions(challenge, user, nil))
	if err != nil {
		t.Fatal(err)
	}
	register(t, good)
	// The object is fmt, attStmt, authData; the flags are byte 32 of authData.
	const data = 1 + 4 + 5 + 8 + 1 + 9 + 2
	other := *d
	at := func(d softkey.Authenticator, options string) string {
		credential, err := d.Create(options)
		if err != nil {
			t.Fatal(err)
		}
		return credential
	}
	elsewhere := site
	elsewhere.ID = "other.example"
	other.Origin = "https://www.site.example.evil.example"
	packed := newDevice(virtualwebauthn.KeyTypeEC2)
	object := func(edit func([]byte) []byte) string { return changeBytes(t, good, "attestationObject", edit) }
	for name, credential := range map[string]string{
		"another challenge":                 at(*d, site.CreationOptions(bytes.Repeat([]byte{1}, 32), user, nil)),
		"another domain":                    at(*d, elsewhere.CreationOptions(challenge, user, nil)),
		"another origin":                    at(other, site.CreationOptions(challenge, user, nil)),
		"the origin in another case":        clientData(t, good, origin, "https://WWW.site.example"),
		"the origin with a slash":           clientData(t, good, origin, origin+"/"),
		"the origin with the standard port": clientData(t, good, origin, origin+":443"),
		"http":                              clientData(t, good, "https:", "http:"),
		"an assertion's type":               clientData(t, good, "webauthn.create", "webauthn.get"),
		"another type of credential":        change(t, good, "password", "type"),
		"a frame of another site":           clientData(t, good, `"crossOrigin":false`, `"crossOrigin":true`),
		"a top origin":                      clientData(t, good, `"crossOrigin":false`, `"crossOrigin":false,"topOrigin":"`+origin+`"`),
		"an unverified user":                object(flags(data+32, without(0x04))),
		"an absent user":                    object(flags(data+32, without(0x01))),
		"a backup of a bound key":           object(flags(data+32, without(0x08))),
		"no key":                            object(flags(data+32, without(0x40))),
		"extensions that are missing":       object(flags(data+32, with(0x80))),
		"another domain's hash":             object(flags(data, with(0xff))),
		"an id of another length":           object(flags(data+32+1+4+16+1, func(byte) byte { return 31 })),
		"an id longer than the data":        object(flags(data+32+1+4+16, func(byte) byte { return 0xff })),
		"a key that is not on the curve":    object(func(b []byte) []byte { b[len(b)-1] ^= 1; return b }),
		"another algorithm":                 object(func(b []byte) []byte { return bytes.Replace(b, []byte{0x03, 0x26}, []byte{0x03, 0x27}, 1) }),
		"another curve":                     object(func(b []byte) []byte { return bytes.Replace(b, []byte{0x20, 0x01, 0x21}, []byte{0x20, 0x02, 0x21}, 1) }),
		"an attestation without a format":   object(func(b []byte) []byte { return bytes.Replace(b, []byte("none"), []byte("nope"), 1) }),
		"an attestation of a manufacturer":  object(func(b []byte) []byte { return bytes.Replace(b, []byte("\x64none"), []byte("\x63tpm"), 1) }),
		"a signature that is not the key's": changeBytes(t, packed.create(t), "attestationObject", flags(len("\xa3\x63fmt\x66packed")+60, func(b byte) byte { return b ^ 0x11 })),
		"bytes after the object":            object(func(b []byte) []byte { return append(b, 0) }),
		"half an object":                    object(func(b []byte) []byte { return b[:len(b)/2] }),
		"no object":                         change(t, good, nil, "response", "attestationObject"),
		"an object of another type":         change(t, good, 5, "response", "attestationObject"),
		"no response":                       change(t, good, nil, "response"),
		"another id":                        change(t, good, "AAAA", "id"),
		"another raw id":                    change(t, good, "AAAA", "rawId"),
		"no id":                             change(t, good, nil, "id"),
		"deep CBOR":                         object(func([]byte) []byte { return bytes.Repeat([]byte{0x81}, 8000) }),
		"CBOR of 4 GB":                      object(func([]byte) []byte { return []byte{0x9a, 0xff, 0xff, 0xff, 0xff} }),
		"deep JSON":                         strings.Repeat(`{"response":`, 1000),
		"two values":                        good + good,
		"too much of it":                    good + strings.Repeat(" ", passkey.MaxCredential),
		"nothing":                           "",
		"null":                              "null",
	} {
		if key, err := site.Register(challenge, credential); !errors.Is(err, passkey.ErrInvalid) {
			t.Errorf("%s: got %+v, error %v; want ErrInvalid", name, key, err)
		}
	}
}

// Browsers that are asked for no attestation pass a signature by the key itself on.
func TestRegister_TakesPackedSelfAttestationAlone(t *testing.T) {
	credential := newDevice(virtualwebauthn.KeyTypeEC2).create(t)
	register(t, credential)
	// The map of alg and sig gets a third member at its end, certificates.
	certified := changeBytes(t, credential, "attestationObject", func(b []byte) []byte {
		if !bytes.Contains(b, []byte("\x66packed\x67attStmt\xa2")) {
			t.Fatalf("got the object %q, want a packed one by the key itself", b)
		}
		b = bytes.Replace(b, []byte("attStmt\xa2"), []byte("attStmt\xa3"), 1)
		return bytes.Replace(b, []byte("\x68authData"), []byte("\x63x5c\x81\x41\x30\x68authData"), 1)
	})
	if _, err := site.Register(challenge, certified); !errors.Is(err, passkey.ErrInvalid) || !strings.Contains(err.Error(), "attestation") {
		t.Errorf("with a certificate: got %v, want that the attestation is refused", err)
	}
}

func TestVerify_Refuses(t *testing.T) {
	d := newDevice(virtualwebauthn.KeyTypeEC2)
	key := register(t, d.create(t))
	good := d.get(t)
	if _, err := verify(challenge, good, key); err != nil {
		t.Fatal(err)
	}
	sign := func(edit func(*device)) string {
		e := d
		edit(&e)
		return e.get(t)
	}
	bound := sign(func(d *device) { d.auth.Options.BackupEligible, d.auth.Options.BackupState = false, false })
	if after, err := verify(challenge, bound, key); err != nil || !key.BackupEligible || after.BackupEligible || after.BackedUp {
		t.Errorf("a key that may no longer be backed up: got %+v, error %v; want it with these flags", after, err)
	}
	for name, credential := range map[string]string{
		"another key":               sign(func(d *device) { d.cred.Key = newDevice(virtualwebauthn.KeyTypeEC2).cred.Key }),
		"another credential":        newDevice(virtualwebauthn.KeyTypeEC2).get(t),
		"another domain":            sign(func(d *device) { d.rp.ID = "other.example" }),
		"another origin":            sign(func(d *device) { d.rp.Origin = "https://evil.example" }),
		"an unverified user":        sign(func(d *device) { d.auth.Options.UserNotVerified = true }),
		"an absent user":            sign(func(d *device) { d.auth.Options.UserNotPresent = true }),
		"a registration":            d.create(t),
		"changed flags":             changeBytes(t, good, "authenticatorData", flags(32, without(0x10))),
		"a changed counter":         changeBytes(t, good, "authenticatorData", func(b []byte) []byte { binary.BigEndian.PutUint32(b[33:], 99); return b }),
		"more data":                 changeBytes(t, good, "authenticatorData", func(b []byte) []byte { return append(b, 0) }),
		"less data":                 changeBytes(t, good, "authenticatorData", func(b []byte) []byte { return b[:36] }),
		"a changed challenge":       clientData(t, good, base64.RawURLEncoding.EncodeToString(challenge), base64.RawURLEncoding.EncodeToString(bytes.Repeat([]byte{1}, 32))),
		"a changed type":            clientData(t, good, "webauthn.get", "webauthn.create"),
		"a signature of nothing":    change(t, good, "", "response", "signature"),
		"a signature that is long":  changeBytes(t, good, "signature", func(b []byte) []byte { return append(b, b...) }),
		"a long user handle":        change(t, good, base64.RawURLEncoding.EncodeToString(make([]byte, 65)), "response", "userHandle"),
		"client data that are none": change(t, good, "AAAA", "response", "clientDataJSON"),
		"another id":                change(t, good, "AAAA", "id"),
		"another raw id":            change(t, good, "AAAA", "rawId"),
		"too much of it":            good + strings.Repeat(" ", passkey.MaxCredential),
		"nothing":                   "{}",
	} {
		if after, err := verify(challenge, credential, key); !errors.Is(err, passkey.ErrInvalid) {
			t.Errorf("%s: got %+v, error %v; want ErrInvalid", name, after, err)
		}
	}
	if _, err := verify(bytes.Repeat([]byte{1}, 32), good, key); !errors.Is(err, passkey.ErrInvalid) {
		t.Errorf("another attempt's challenge: got %v, want ErrInvalid", err)
	}
}

// Allocations stand for time: they differ between algorithms, and do not vary.
func TestVerifyAlike_CostsTheSameWithEveryKey(t *testing.T) {
	point, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	edwards := append([]byte{0xa4, 0x01, 0x01, 0x03, 0x27, 0x20, 0x06, 0x21, 0x58, 0x20}, point...)
	for name, kind := range map[string]virtualwebauthn.KeyType{"ES256": virtualwebauthn.KeyTypeEC2, "RS256": virtualwebauthn.KeyTypeRSA} {
		t.Run("a response by "+name, func(t *testing.T) {
			d := newDevice(kind)
			key := register(t, d.create(t))
			credential := d.get(t)
			for firstOfSignature(t, credential) >= 0x80 { // a number above a key's modulus costs less
				d.cred.Counter++
				credential = d.get(t)
			}
			a, err := passkey.ParseAssertion(credential)
			if err != nil {
				t.Fatal(err)
			}
			if after, err := site.VerifyAlike(challenge, a, key); err != nil || !bytes.Equal(after.PublicKey, key.PublicKey) {
				t.Errorf("got %+v, error %v; want the key", after, err)
			}
			if _, err := site.VerifyAlike(bytes.Repeat([]byte{1}, 32), a, key); !errors.Is(err, passkey.ErrInvalid) {
				t.Errorf("another attempt's challenge: got %v, want ErrInvalid", err)
			}
			runs, noise := 20, 0.0
			if race.Enabled { // it changes a few, at random; a check left out is more
				runs, noise = 200, 4
			}
			cost := func(key passkey.Key) float64 {
				return testing.AllocsPerRun(runs, func() {
					if _, err := site.VerifyAlike(challenge, a, key); !errors.Is(err, passkey.ErrInvalid) {
						t.Errorf("got %v, want ErrInvalid", err)
					}
				})
			}
			unknown := cost(passkey.Dummy(a))
			for name, public := range map[string][]byte{
				"ES256": register(t, newDevice(virtualwebauthn.KeyTypeEC2).create(t)).PublicKey,
				"RS256": register(t, newDevice(virtualwebauthn.KeyTypeRSA).create(t)).PublicKey,
				"EdDSA": edwards,
			} {
				stored := passkey.Key{CredentialID: key.CredentialID, PublicKey: public}
				if err := stored.Check(); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				if got := cost(stored); math.Abs(got-unknown) > noise {
					t.Errorf("a stored key of %s: got %v allocations, want those of an unknown key, %v", name, got, unknown)
				}
			}
		})
	}
}

// firstOfSignature returns the first byte of an assertion's signature.
func firstOfSignature(t *testing.T, credential string) byte {
	t.Helper()
	var c struct{ Response struct{ Signature string } }
	if err := json.Unmarshal([]byte(credential), &c); err != nil {
		t.Fatal(err)
	}
	signature, err := base64.RawURLEncoding.DecodeString(c.Response.Signature)
	if err != nil || len(signature) == 0 {
		t.Fatalf("got the signature %q, error %v", c.Response.Signature, err)
	}
	return signature[0]
}

func TestVerify_ReasonNamesTheOriginAndNothingElse(t *testing.T) {
	d := newDevice(virtualwebauthn.KeyTypeEC2)
	key := register(t, d.create(t))
	d.rp.Origin = "https://staging.site.example"
	_, err := verify(challenge, d.get(t), key)
	if err == nil || !strings.Contains(err.Error(), `"https://staging.site.example"`) {
		t.Errorf("got %v, want that it names the origin, which is the usual mistake in settings", err)
	}
	d.rp.Origin = origin
	_, err = verify(bytes.Repeat([]byte{1}, 32), d.get(t), key)
	if err == nil || strings.Contains(err.Error(), base64.RawURLEncoding.EncodeToString(challenge)) {
		t.Errorf("got %v, want an error without the challenge", err)
	}
}

func TestCloned_ComparesCounters(t *testing.T) {
	for _, test := range []struct {
		before, after uint32
		want          bool
	}{{0, 0, false}, {0, 1, false}, {1, 2, false}, {1, 1, true}, {2, 1, true}, {1, 0, true}} {
		if got := passkey.Cloned(test.before, test.after); got != test.want {
			t.Errorf("%d after %d: got %t, want %t", test.after, test.before, got, test.want)
		}
	}
}

func TestSeal_OpensWithTheSameKeyAlone(t *testing.T) {
	key, c, end := []byte("a key"), passkey.NewChallenge(), time.UnixMicro(1_900_000_000_123_456).UTC()
	attempt := passkey.Seal(key, c, end)
	if got, until, ok := passkey.Open(key, attempt); !ok || got != c || !until.Equal(end) {
		t.Fatalf("got %x until %v, %t; want %x until %v", got, until, ok, c, end)
	}
	if _, _, ok := passkey.Open([]byte("another"), attempt); ok {
		t.Error("another key opens the attempt")
	}
	for i := range attempt {
		changed := []byte(attempt)
		changed[i] = 'A' + (changed[i]-'A'+1)%26
		if string(changed) == attempt {
			continue
		}
		if _, _, ok := passkey.Open(key, string(changed)); ok {
			t.Errorf("the attempt with another character %d is opened", i)
		}
	}
	for _, text := range []string{"", attempt[:len(attempt)-1], attempt + "A", attempt[:40] + "\n" + attempt[41:], attempt + "="} {
		if _, _, ok := passkey.Open(key, text); ok {
			t.Errorf("%q is opened", text)
		}
	}
	if passkey.Seal(key, passkey.NewChallenge(), end) == attempt {
		t.Error("two attempts are the same")
	}
}

func TestValidate_Settings(t *testing.T) {
	for _, id := range []string{"", "localhost", "site.example", "xn--e1afmkfd.example", "a-b.c1.example"} {
		if err := passkey.ValidateID(id); err != nil {
			t.Errorf("%q: %v", id, err)
		}
	}
	for _, id := range []string{"127.0.0.1", "127.1", "1", "::1", "Site.example", "site.example:8080", "https://site.example",
		"пример.example", "site..example", "-a.example", ".example", strings.Repeat("a.", 127) + "a"} {
		if passkey.ValidateID(id) == nil {
			t.Errorf("%q is accepted", id)
		}
	}
	for _, origin := range []string{"https://site.example", "https://www.site.example:8443", "http://localhost:8080", "http://localhost",
		"http://a.localhost:1", "android:apk-key-hash:abc"} {
		if err := passkey.ValidateOrigins("site.example", []string{origin}); err != nil {
			t.Errorf("%q: %v", origin, err)
		}
	}
	for _, origin := range []string{
		"", "site.example", "http://site.example", "https://site.example/", "https://site.example:443", "http://localhost:80", "https://Site.example",
		"https://user@site.example", "https://site.example?", "https://site.example#", "https://127.0.0.1", "https://:8080", "https://site.example:", "null", "*", "android:apk-key-hash:", "https://",
	} {
		if passkey.ValidateOrigins("site.example", []string{origin}) == nil {
			t.Errorf("%q is accepted", origin)
		}
	}
	many := make([]string, 21)
	for i := range many {
		many[i] = fmt.Sprintf("https://%d.example", i)
	}
	if passkey.ValidateOrigins("site.example", nil) == nil || passkey.ValidateOrigins("", []string{origin}) == nil ||
		passkey.ValidateOrigins("site.example", many) == nil ||
		passkey.ValidateOrigins("", nil) != nil {
		t.Error("want origins with an RP ID, at most 20 of them, and none without")
	}
}

// FuzzCredential: whatever a caller sends, it is judged, and nothing panics.
func FuzzCredential(f *testing.F) {
	d := newDevice(virtualwebauthn.KeyTypeEC2)
	key := register(f, d.create(f))
	soft := &softkey.Authenticator{Origin: origin}
	created, err := soft.Create(site.CreationOptions(challenge, user, nil))
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{d.create(f), d.get(f), created, newDevice(virtualwebauthn.KeyTypeRSA).create(f), "{}", ""} {
		f.Add(seed, []byte{0xa3}, []byte{0x45})
		f.Add(seed, []byte(nil), []byte(nil))
	}
	// Random changes of base64 rarely decode: the binary parts are replaced, too.
	f.Fuzz(func(t *testing.T, credential string, object, data []byte) {
		var c map[string]any
		if json.Unmarshal([]byte(credential), &c) == nil && (object != nil || data != nil) {
			if response, ok := c["response"].(map[string]any); ok {
				if object != nil {
					response["attestationObject"] = base64.RawURLEncoding.EncodeToString(object)
				}
				if data != nil {
					response["authenticatorData"] = base64.RawURLEncoding.EncodeToString(data)
				}
				if changed, err := json.Marshal(c); err == nil {
					credential = string(changed)
				}
			}
		}
		if key, err := site.Register(challenge, credential); err == nil && (len(key.CredentialID) == 0 || len(key.PublicKey) == 0) {
			t.Errorf("registered %+v", key)
		} else if err != nil && !errors.Is(err, passkey.ErrInvalid) {
			t.Errorf("got %v, want ErrInvalid", err)
		}
		if _, err := verify(challenge, credential, key); err != nil && !errors.Is(err, passkey.ErrInvalid) {
			t.Errorf("got %v, want ErrInvalid", err)
		}
	})
}
