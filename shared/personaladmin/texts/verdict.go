package texts

import (
	"io/fs"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cms-personal/personal/shared/localtext"
	"github.com/cms-personal/personal/shared/personal"
)

// Lookup returns a text by its key, with its arguments in place.
type Lookup func(key string, args ...any) string

// Verdict is a [personal.Verdict] in words.
type Verdict struct {
	Tone   string // severity: a class; may be empty
	Hint   bool   // it refuses no sign-in
	Title  string // the reason, without a full stop
	Limit  string // key of the title about a limit, in place of Title; may be empty
	Names  []any  // what that text has places for: a login, an address, or both
	Parts  []Part // what it carries
	Advice string // what helps; may be empty
}

// Part is a sentence with a value in it, of which one is set.
type Part struct {
	Before, After string
	Text          string
	Quote         string // the words of another system
	Time          time.Time
	In            string // how far away Time is; empty: the time itself is shown
}

// What a verdict may carry, as the keys of texts name it.
const (
	carriesLimit   = "limit"
	carriesKind    = "kind"
	carriesAddress = "address"
	carriesCount   = "count"
	carriesSince   = "since"
	carriesReply   = "reply"
	carriesUntil   = "until"

	carriesProviders = "providers"
)

// other is the key of reasons that have no text of their own.
const other = "other"

// reasons are the reasons that have texts. Text support_because_REASON is the title, and
// support_because_REASON_VALUE a sentence with a value that the reason carries.
var reasons = map[personal.Reason]struct {
	tone    string
	carries []string // in the order of the sentences
	advice  bool     // support_because_REASON_advice says what helps, or what to do first
	hint    bool     // it refuses no sign-in
}{
	personal.ReasonNoAccount:      {tone: "warn", advice: true},
	personal.ReasonEmailSignInOff: {tone: "warn", advice: true},
	personal.ReasonDisabled:       {tone: "warn", advice: true},
	personal.ReasonDeleted:        {tone: "bad", carries: []string{carriesUntil}, advice: true},
	personal.ReasonUnverified:     {tone: "warn", carries: []string{carriesUntil}},
	personal.ReasonNoPassword:     {tone: "warn"},
	personal.ReasonNoEmail:        {tone: "warn", hint: true},
	personal.ReasonLimit:          {tone: "warn", carries: []string{carriesLimit, carriesAddress, carriesUntil}},
	personal.ReasonAddressLimit:   {tone: "warn", carries: []string{carriesLimit, carriesAddress, carriesUntil}, advice: true},
	personal.ReasonMailLimit:      {tone: "warn", carries: []string{carriesKind, carriesAddress, carriesUntil}, advice: true, hint: true},
	personal.ReasonCodesBlocked:   {tone: "warn", carries: []string{carriesUntil}, advice: true},
	personal.ReasonTwoFactor:      {carries: []string{carriesCount}, advice: true},
	personal.ReasonTwoFactorKey:   {tone: "bad", advice: true},
	personal.ReasonPasskeys:       {carries: []string{carriesCount}, advice: true, hint: true},
	personal.ReasonOnlyOtherWays:  {carries: []string{carriesProviders}, advice: true, hint: true},
	personal.ReasonMailedCode:     {advice: true, hint: true},
	personal.ReasonIdentities:     {carries: []string{carriesProviders, carriesCount}, advice: true, hint: true},
	personal.ReasonMailWaiting:    {tone: "warn", carries: []string{carriesKind, carriesSince, carriesCount, carriesUntil}, hint: true},
	personal.ReasonMailRefused:    {tone: "warn", carries: []string{carriesKind, carriesSince, carriesReply}, advice: true, hint: true},
	personal.ReasonFailed:         {tone: "warn", carries: []string{carriesCount, carriesSince, carriesAddress}, hint: true},
	personal.ReasonMissingFields:  {carries: []string{carriesCount}, hint: true},
	personal.ReasonNothing:        {tone: "good", advice: true},
}

// limitTitles are the titles about limits that say whom and what they refuse: Text
// support_limit_is_LIMIT, with the login or the address or both.
var limitTitles = map[personal.Reason]map[string]struct{ who, where bool }{
	personal.ReasonLimit: {
		"guess": {who: true, where: true}, "guess_account": {who: true}, "sign_in_account": {who: true}, "code": {who: true},
	},
	personal.ReasonAddressLimit: {
		"guess_address": {where: true}, "sign_in_address": {where: true}, "recover": {where: true}, "confirm": {where: true},
	},
}

// ending are the reasons that end by themselves within days.
var ending = []personal.Reason{personal.ReasonLimit, personal.ReasonAddressLimit, personal.ReasonMailLimit, personal.ReasonCodesBlocked}

// countsZero are the reasons whose count is told even if it is 0.
var countsZero = []personal.Reason{personal.ReasonTwoFactor}

// Verdict puts a verdict about a user, or about none, into words. A reason of a newer plugin
// is shown by its name.
func (text Lookup) Verdict(user *personal.User, v personal.Verdict) Verdict {
	key := string(v.Reason)
	reason, known := reasons[v.Reason]
	worded := Verdict{Tone: reason.tone, Hint: reason.hint}
	if known {
		worded.Title = text("support_because_" + key)
	} else {
		key, worded.Tone = other, "warn"
		worded.Title = text("support_because_other", string(v.Reason))
		reason.carries = []string{carriesLimit, carriesKind, carriesAddress, carriesCount, carriesSince, carriesReply, carriesUntil}
	}
	told := []string{} // by the title
	if of, ok := limitTitles[v.Reason][v.Limit]; ok && user != nil && (v.Address != "" || !of.where) {
		worded.Limit = "support_limit_is_" + v.Limit
		told = append(told, carriesLimit)
		if of.who {
			worded.Names = append(worded.Names, user.Login)
		}
		if of.where {
			worded.Names = append(worded.Names, v.Address)
			told = append(told, carriesAddress)
		}
	}
	for _, value := range reason.carries {
		if slices.Contains(told, value) {
			continue
		}
		if s, ok := text.value(v, value); ok {
			const mark = "\x00"
			s.Before, s.After, _ = strings.Cut(text("support_because_"+key+"_"+value, mark), mark)
			worded.Parts = append(worded.Parts, s)
		}
	}
	if reason.advice {
		worded.Advice = text("support_because_" + key + "_advice")
	}
	return worded
}

// value returns one of the values of a verdict. It reports false for one that is not set.
func (text Lookup) value(v personal.Verdict, name string) (Part, bool) {
	switch name {
	case carriesLimit:
		return Part{Text: text.word("support_limit_of_", v.Limit, limits)}, v.Limit != ""
	case carriesKind:
		return Part{Text: text.word("support_kind_", v.Kind, mails)}, v.Kind != ""
	case carriesAddress:
		return Part{Text: v.Address}, v.Address != ""
	case carriesCount:
		return Part{Text: strconv.Itoa(v.Count)}, v.Count != 0 || slices.Contains(countsZero, v.Reason)
	case carriesSince:
		return Part{Time: v.Since}, !v.Since.IsZero()
	case carriesProviders:
		return Part{Text: v.Providers}, v.Providers != ""
	case carriesReply:
		return Part{Quote: v.Reply}, v.Reply != ""
	}
	until := Part{Time: v.Until}
	if slices.Contains(ending, v.Reason) {
		until.In = text.lasting(time.Until(v.Until))
	}
	return until, !v.Until.IsZero()
}

// lasting writes a time to wait in its largest unit, rounded up.
func (text Lookup) lasting(d time.Duration) string {
	for _, unit := range []struct {
		name string
		size time.Duration
		most int
	}{{"second", time.Second, 90}, {"minute", time.Minute, 90}, {"hour", time.Hour, 48}, {"day", 24 * time.Hour, math.MaxInt}} {
		n := max(1, int((d+unit.size-1)/unit.size))
		switch {
		case n == 1:
			return text("in_one_" + unit.name)
		case n <= unit.most:
			return text("in_"+unit.name+"s", n)
		}
	}
	return "" // never
}

// limits are the limits that have a text.
var limits = []string{
	"guess", "guess_address", "guess_account", "sign_in_address", "sign_in_account", "session_writes", "register",
	"register_invalid", "taken_email", "recover", "recover_all", "confirm", "code", "export",
}

// mails are the kinds of mails that have a text.
var mails = []string{"recovery", "email_change", "verification", "invitation", "deletion"}

// word returns the text of a name, or the name if it has none.
func (text Lookup) word(prefix, name string, named []string) string {
	if slices.Contains(named, name) {
		return text(prefix + name)
	}
	return name
}

// Sentences puts a verdict about a user, or about none, into English, without advice, which
// is about the admin pages.
func Sentences(user *personal.User, v personal.Verdict) string {
	text := Lookup(func(key string, args ...any) string { return english()[key].Format(args...) })
	worded := text.Verdict(user, v)
	said := worded.Title + "."
	if worded.Limit != "" {
		said = text(worded.Limit, worded.Names...) + "."
	}
	for _, p := range worded.Parts {
		value := p.Text + p.In
		switch {
		case p.Quote != "":
			value = strconv.Quote(p.Quote)
		case value == "":
			value = p.Time.Format(time.RFC3339)
		}
		said += " " + p.Before + value + p.After
	}
	return said
}

var english = sync.OnceValue(func() localtext.Texts {
	read, _, err := localtext.Source{BuiltIn: []fs.FS{Files}, Needed: []string{"en"}}.Read()
	if err != nil {
		panic(err) // the files are part of the program
	}
	return read["en"]
})
