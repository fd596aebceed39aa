package adminentry

import (
	"testing"
	"time"
)

// entry is an entry whose clock is the test's.
func entry() (*Entry, *time.Time) {
	now := time.Unix(1_000_000, 0)
	e := New()
	e.now = func() time.Time { return now }
	return e, &now
}

func TestACodeIsGoodOnce(t *testing.T) {
	e, _ := entry()
	code := e.NewCode()
	token, ok := e.Redeem(code)
	if !ok || !e.Alive(token) {
		t.Fatal("a fresh code lets nobody in")
	}
	if _, ok := e.Redeem(code); ok {
		t.Error("a spent code lets somebody in")
	}
	for _, wrong := range []string{"", code, "x"} {
		if e.Alive(wrong) {
			t.Errorf("%q is taken for a session", wrong)
		}
	}
	e.End(token)
	if e.Alive(token) {
		t.Error("a session lives on that was ended")
	}
}

func TestWhatIsGivenOutRunsOut(t *testing.T) {
	e, now := entry()
	late := e.NewCode()
	*now = now.Add(LinkLife)
	if _, ok := e.Redeem(late); ok {
		t.Error("an old code lets somebody in")
	}

	token, _ := e.Redeem(e.NewCode())
	*now = now.Add(sessionIdle)
	if e.Alive(token) {
		t.Error("a session lives on that was not used")
	}

	token, _ = e.Redeem(e.NewCode())
	begin := *now
	for now.Sub(begin) < sessionLife-time.Hour {
		*now = now.Add(time.Hour)
		if !e.Alive(token) {
			t.Fatalf("a session in use ends after %v", now.Sub(begin))
		}
	}
	*now = now.Add(time.Hour)
	if e.Alive(token) {
		t.Error("a session lives for ever")
	}
}

func TestTheOldestGoesWhereThereAreTooMany(t *testing.T) {
	e, now := entry()
	first := e.NewCode()
	var last string
	for range mostLinks {
		*now = now.Add(time.Second)
		last = e.NewCode()
	}
	if len(e.links) != mostLinks {
		t.Errorf("%d links", len(e.links))
	}
	if _, ok := e.Redeem(first); ok {
		t.Error("the oldest code is still good")
	}
	if _, ok := e.Redeem(last); !ok {
		t.Error("the newest code is not good")
	}
}
