package texts_test

import (
	"testing"
	"time"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personaladmin/texts"
)

func TestSentences_SayWhatAVerdictCarries(t *testing.T) {
	at := time.Date(2026, 11, 23, 2, 9, 40, 0, time.UTC)
	for _, tt := range []struct {
		verdict personal.Verdict
		want    string
	}{
		{personal.Verdict{Reason: personal.ReasonDisabled}, "An administrator has disabled the account."},
		{personal.Verdict{Reason: personal.ReasonDeleted, Until: at},
			"The user has deleted the account. It stays disabled until it is erased on 2026-11-23T02:09:40Z."},
		{personal.Verdict{Reason: personal.ReasonLimit, Limit: "guess", Address: "192.0.2.7", Until: time.Now().Add(time.Hour)},
			"Too many wrong passwords for bob from 192.0.2.7. Unlocks in 60 minutes."},
		{personal.Verdict{Reason: personal.ReasonLimit, Limit: "export", Until: time.Now().Add(-time.Hour)},
			"Too many attempts for this account. What is limited: exports of the user's data. Unlocks in 1 second."},
		{personal.Verdict{Reason: personal.ReasonTwoFactor},
			"A sign-in needs a code of the second factor. The user has 0 recovery codes left, each of which takes the place of a code."},
		{personal.Verdict{Reason: personal.ReasonMailRefused, Kind: "recovery", Since: at, Reply: "550 \"no\"\x1b"},
			`The mail relay refused a mail to the user. It was of this kind: recovery. When: 2026-11-23T02:09:40Z. The relay said: "550 \"no\"\x1b"`},
		{personal.Verdict{Reason: personal.ReasonOnlyOtherWays, Providers: "op.example"}, "The user has no password. Services that sign them in: op.example."},
		{personal.Verdict{Reason: "new", Count: 2}, "The plugin gives a reason that this page does not know: new. Count: 2."},
	} {
		if got := texts.Sentences(&personal.User{Login: "bob"}, tt.verdict); got != tt.want {
			t.Errorf("%v: got %s, want %s", tt.verdict, got, tt.want)
		}
	}
}
