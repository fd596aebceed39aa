package personalhttp_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhttp"
)

func TestEveryAnswerIsObservedByWhatTheContractCallsIt(t *testing.T) {
	for name, alwaysOK := range map[string]bool{"statuses": false, "always 200": true} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			var got []personalhttp.Observation
			s := newSite(t, failing(personal.NewError(personal.CodeUnavailable, nil)), personalhttp.Options{
				AlwaysOK: alwaysOK,
				Observe: func(o personalhttp.Observation) {
					mu.Lock()
					defer mu.Unlock()
					if o.Took <= 0 {
						t.Errorf("%+v took no time", o)
					}
					o.Took = 0
					got = append(got, o)
				},
			})
			s.do("GET", prefix+"fields/", "", "")
			s.do("GET", prefix+"auth", "", "")
			s.do("GET", prefix+"made-up", "", "")
			s.Close() // the last request is over
			want := []personalhttp.Observation{
				{Operation: "fields", Status: 503, Code: personal.CodeUnavailable},
				{Operation: "auth", Status: 405, Code: personal.CodeMethodNotAllowed},
				{Status: 404, Code: personal.CodeNotFound},
			}
			if !slices.Equal(got, want) {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}
