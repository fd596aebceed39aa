package manager_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/plugins/manager"
)

// present calls with the session of a user, and returns the code.
func (r *rig) present(t *testing.T, userID int64, hash string) personal.Code {
	t.Helper()
	_, err := r.service.Profile(limited(t), personal.Credentials{UserID: userID, UserHash: hash})
	return personal.CodeOf(err)
}

// presentAll presents one session of each of so many users.
func (r *rig) presentAll(t *testing.T, users int64, want personal.Code) {
	t.Helper()
	for id := range users {
		if code := r.present(t, id+1, fmt.Sprint("hash-", id+1)); code != want {
			t.Fatalf("user %d: got code %q, want %q", id+1, code, want)
		}
	}
}

// signingOut returns a rig whose version 2.0.0 bakes and refuses all sessions, of which the old version has
// accepted those of so many users.
func signingOut(t *testing.T, known int64) (r *swapRig, old int) {
	t.Helper()
	r = newSwapRig(t, func(c *manager.Config) {
		c.Bake = time.Hour
		c.Settings = func() ([]byte, error) { return []byte("x = 1"), nil }
	})
	r.folder.write("mode 2.0.0", signsOut)
	r.start(t)
	old = r.Status().PID
	r.presentAll(t, known, "")
	r.use(t, "2.0.0")
	return r, old
}

// wantLooks waits until the old version was asked about these hashes, and no others.
func (r *swapRig) wantLooks(t *testing.T, hashes ...string) {
	t.Helper()
	eventually(t, "looks", func() bool { return len(r.folder.all("looked")) >= len(hashes) })
	got := r.folder.all("looked")
	for _, hash := range hashes {
		if !slices.Contains(got, "1.0.0 "+hash+" x = 1") {
			t.Errorf("got looks %q, want one at %s with the settings of the new version", got, hash)
		}
	}
	if len(got) != len(hashes) {
		t.Errorf("got looks %q, want %d", got, len(hashes))
	}
}

func TestBake_VersionThatSignsThreeUsersOutIsRolledBack(t *testing.T) {
	t.Parallel()
	r, old := signingOut(t, 3)
	for range 5 { // they count once
		r.presentAll(t, 2, personal.CodeUnauthenticated)
	}
	r.wantLooks(t, "hash-1", "hash-2")
	r.wantServing(t, "2.0.0")
	r.present(t, 3, "hash-3")
	r.wantRolledBack(t, old)
	if n := r.events.count(manager.EventRolledBack, "it refused the sessions of 3 users"); n != 1 {
		t.Errorf("got events %v, want one rollback with the reason", r.events.list)
	}
	if r.present(t, 1, "hash-1") != "" {
		t.Error("got a refused session after the rollback, want it accepted")
	}
}

// TestBake_RefusedStrangersDoNotRollBack presents what the old version has not accepted, or refuses as well.
func TestBake_RefusedStrangersDoNotRollBack(t *testing.T) {
	t.Parallel()
	r, _ := signingOut(t, 50)
	pid := r.Status().PID
	for id := range int64(50) {
		r.folder.write(fmt.Sprint("ended hash-", id+1), "signed out")
	}
	var looks []string
	for id := range int64(50) {
		for _, hash := range []string{"invented", fmt.Sprint("hash-", id+2), fmt.Sprint("hash-", id+1), fmt.Sprint("hash-", id+1)} {
			r.present(t, id+1, hash)
		}
		looks = append(looks, fmt.Sprint("hash-", id+1))
		eventually(t, "a look", func() bool { return len(r.folder.all("looked")) == len(looks) })
	}
	r.wantLooks(t, looks...)
	r.wantBaking(t, pid)
}

func TestBake_HashesOfOneUserCountOnce(t *testing.T) {
	t.Parallel()
	r := newSwapRig(t, func(c *manager.Config) { c.Bake = time.Hour })
	r.folder.write("mode 2.0.0", signsOut)
	r.start(t)
	for n := range 6 {
		r.present(t, 1, fmt.Sprint("hash-", n))
	}
	r.use(t, "2.0.0")
	pid := r.Status().PID
	for n := range 6 {
		r.present(t, 1, fmt.Sprint("hash-", n))
		r.present(t, 2, fmt.Sprint("hash-", n))
	}
	eventually(t, "a look", func() bool { return r.exists("looked") })
	r.wantBaking(t, pid)
	for _, look := range r.folder.all("looked") {
		if strings.Contains(look, "hash-0") || strings.Contains(look, "hash-1") {
			t.Errorf("got a look %q, want the four latest sessions only", look)
		}
	}
}

func TestBake_WorseFiguresWarnAndDecideNothing(t *testing.T) {
	t.Parallel()
	r, _ := signingOut(t, 30)
	pid := r.Status().PID
	for n := range 30 {
		r.present(t, 7, fmt.Sprint("invented-", n))
	}
	const refused = "Profile is 401 in 100 % of calls, 0 % before"
	eventually(t, "a warning", func() bool { return strings.Contains(r.detail("bake"), refused) }) // on a busy machine the calls are slow, too
	r.wantBaking(t, pid)
	const warning = "plugin does worse than the version before"
	if n := strings.Count(r.log.String(), warning) - strings.Count(r.log.String(), "Profile is slow: "); n != 1 {
		t.Errorf("got %d warnings in the log, want 1", n)
	}
}
