package smtprelay

import (
	"crypto/hmac"
	"crypto/md5"
	"crypto/pbkdf2"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"hash"
	"strings"
)

// authenticate does PLAIN, LOGIN, CRAM-MD5 and SCRAM, and reports whether the conversation goes on.
func (t *talk) authenticate(arguments string) bool {
	mechanism, first, _ := strings.Cut(arguments, " ")
	right := false
	switch mechanism {
	case "PLAIN":
		right = decode(first) == "\x00"+t.relay.User+"\x00"+t.relay.Password
	case "LOGIN":
		right = t.ask("Username:") == t.relay.User && t.ask("Password:") == t.relay.Password
	case "CRAM-MD5":
		const challenge = "<17@relay.test>"
		right = t.ask(challenge) == t.relay.User+" "+fmt.Sprintf("%x", mac(md5.New, []byte(t.relay.Password), challenge))
	case "SCRAM-SHA-1":
		right = t.scram(sha1.New)
	case "SCRAM-SHA-256":
		right = t.scram(sha256.New)
	}
	reply := "535 5.7.8 wrong"
	if right {
		reply = "235 2.7.0 welcome"
	}
	accepted, goesOn := t.reply(AUTH, "AUTH "+arguments, reply)
	if accepted {
		t.Mechanism = mechanism
	}
	return goesOn
}

// ask sends a challenge and returns the response.
func (t *talk) ask(challenge string) string {
	_ = t.text.PrintfLine("334 %s", base64.StdEncoding.EncodeToString([]byte(challenge)))
	line, _ := t.text.ReadLine() // a lost connection is a wrong response
	return decode(line)
}

func decode(text string) string {
	data, _ := base64.StdEncoding.DecodeString(text)
	return string(data)
}

func mac(h func() hash.Hash, key []byte, text string) []byte {
	m := hmac.New(h, key)
	m.Write([]byte(text))
	return m.Sum(nil)
}

// scram is the server of RFC 5802, without channel binding.
func (t *talk) scram(h func() hash.Hash) bool {
	const iterations = 4096
	bare := strings.TrimPrefix(t.ask(""), "n,,")
	user, nonce, _ := strings.Cut(strings.TrimPrefix(bare, "n="), ",r=")
	nonce += "relay"
	first := fmt.Sprintf("r=%s,s=%s,i=%d", nonce, base64.StdEncoding.EncodeToString([]byte("salt")), iterations)
	final, proof, _ := strings.Cut(t.ask(first), ",p=")
	salted, err := pbkdf2.Key(h, t.relay.Password, []byte("salt"), iterations, h().Size())
	if err != nil {
		return false
	}
	message := bare + "," + first + "," + final
	client := mac(h, salted, "Client Key")
	stored := h()
	stored.Write(client)
	want := mac(h, stored.Sum(nil), message)
	for i := range want {
		want[i] ^= client[i]
	}
	signature := base64.StdEncoding.EncodeToString(mac(h, mac(h, salted, "Server Key"), message))
	return user == t.relay.User && final == "c=biws,r="+nonce && decode(proof) == string(want) && t.ask("v="+signature) == ""
}
