package rehearsal

import (
	"cmp"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest/softkey"
)

// story is what the script remembers from step to step and from act to act.
type story struct {
	now      time.Time
	settings []byte   // of the site
	origin   string   // of pages that use passkeys
	network  int      // of the last new address
	keys     [][]byte // the secret keys, the current one first
	schema   personal.Schema
	users    map[string]*user // by login
	mails    []personal.Mail  // all that were sent
	secrets  []string         // what no log may have

	lacks map[personal.OperationName]bool // operations that the old version doesn't have: no version is asked for them
}

// user is a user of the script.
type user struct {
	id                     int64
	login, email, password string
	language               string
	address                netip.Addr
	away                   int  // if set, the user is at another address
	shared, poll           bool // see personal.Call
	in                     personal.Credentials
	former                 []personal.Credentials // that were replaced
	proof                  string
	secret                 string // of the second factor
	codes                  []string
	ceremonies             []personal.PasskeyCeremony
	keys                   softkey.Authenticator
	identity               personal.Identity
}

// newStory begins a story at a site with these settings.
func newStory(now time.Time, settings []byte) *story {
	s := &story{settings: settings, origin: "https://script.invalid", now: now.UTC().Truncate(time.Second).Add(123456 * time.Microsecond), keys: [][]byte{randomKey()}, schema: schema, users: map[string]*user{},
		lacks: map[personal.OperationName]bool{}, secrets: []string{valid["phone"].Text},
	}
	if origins := s.listed("origins"); len(origins) > 0 { // else the version refuses all passkeys of the script
		s.origin = origins[0]
	}
	return s
}

// listed returns the texts of a list in the site's settings, by its key, which only one section has.
func (s *story) listed(key string) (texts []string) {
	if list := regexp.MustCompile(`(?m)^\s*(?:\w+\.)?` + key + `\s*=\s*\[([^\]]*)\]`).FindSubmatch(s.settings); list != nil {
		for _, text := range quoted.FindAllSubmatch(list[1], -1) {
			texts = append(texts, string(text[1]))
		}
	}
	return texts
}

var quoted = regexp.MustCompile(`["']([^"'\n]+)["']`)

// clone returns a copy that another play may change.
func (s *story) clone() *story {
	c := *s
	c.users = map[string]*user{}
	for name, u := range s.users {
		copied := *u
		copied.former, copied.codes, copied.ceremonies = slices.Clone(u.former), slices.Clone(u.codes), slices.Clone(u.ceremonies)
		c.users[name] = &copied
	}
	c.mails, c.secrets = slices.Clone(s.mails), slices.Clone(s.secrets)
	return &c
}

// passwordOf returns the first password of a user.
func passwordOf(login string) string { return "Geheim-" + login + "-7391" }

// add adds a user who is not an account yet.
func (s *story) add(login string) *user {
	languages := []string{"en", "ru"}
	u := &user{
		login: login, email: login + "@script.invalid", password: passwordOf(login), language: languages[len(s.users)%len(languages)],
		address: addressOf(len(s.users) + 1),
	}
	u.keys.Origin = s.origin
	s.users[login] = u
	s.secrets = append(s.secrets, u.password, u.email)
	return u
}

var (
	linked = regexp.MustCompile(`token=([A-Za-z0-9_-]+)`)
	long   = regexp.MustCompile(`[A-Za-z0-9_-]{40,}`)
	short  = regexp.MustCompile(`(?m)^[0-9A-Z]{4}-[0-9A-Z]{4}$`)
)

// token returns the token of the last mail to an address; "none" without one.
func (s *story) token(email string) string {
	for _, m := range slices.Backward(s.mails) {
		if !strings.EqualFold(m.To, email) {
			continue
		}
		if found := linked.FindStringSubmatch(m.Text); found != nil {
			return found[1]
		}
		if found := long.FindString(m.Text); found != "" {
			return found
		}
	}
	return "none"
}

// mailedCode returns the code of the last mail to an address; "none" if that has none.
func (s *story) mailedCode(email string) string {
	for _, m := range slices.Backward(s.mails) {
		if strings.EqualFold(m.To, email) {
			return cmp.Or(short.FindString(m.Text), "none")
		}
	}
	return "none"
}

// schema has a field of every type, and of every property.
var schema = func() personal.Schema {
	fields := []personal.Field{
		{Name: "phone", Type: personal.TypeText, Pattern: `\+?[0-9 ]{5,20}|none`},
		{Name: "city", Type: personal.TypeText, Required: true, Default: personal.Text("Kazan")},
		{Name: "kind", Type: personal.TypeEnum, Options: []personal.Option{{Value: "reader", Label: personal.LocalText{"en": "Reads"}}, {Value: "writer"}}},
		{Name: "rating", Type: personal.TypeInteger, Hidden: true},
		{Name: "level", Type: personal.TypeInteger, ReadOnly: true, Default: personal.Input{Kind: personal.InputNumber, Text: "1"}},
		{Name: "motto", Type: personal.TypeText, MaxLength: 12, Order: 1, Group: "more", Label: personal.LocalText{"en": "Motto"}, Hint: personal.LocalText{"en": "Short."}, PatternMessage: personal.LocalText{"en": "Without x."}, Pattern: "[^x]*"},
		{Name: "age", Type: personal.TypeInteger, Min: new(0.0), Max: new(150.0)},
		{Name: "share", Type: personal.TypeNumber, Min: new(0.0), Max: new(1.0)},
	}
	for _, t := range personal.FieldTypes() {
		if t != personal.TypeEnum {
			fields = append(fields, personal.Field{Name: "a_" + string(t), Type: t})
		}
	}
	return personal.Schema{Revision: "script 1", Fields: fields}
}()
