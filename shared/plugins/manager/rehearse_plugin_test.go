package manager_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/plugins/manager/rehearsal"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

// The modes of a plugin that rehearses. The note "accounts" has the lowest and the highest
// id of its users, if it has any.
const (
	failsRehearsal    = "fails a check of the rehearsal"
	differsRehearsing = "differs in the rehearsal"
	cannotRehearse    = "has no rehearsal"
	hangsRehearsing   = "hangs in the rehearsal"
	losesEmail        = "has no e-mail of every tenth user"
	refusesToAnswer   = "has an internal error for every tenth user"
	answersByTheClock = "has another last use of every user each time"
	knowsNames        = "knows names"
	hangsAnswering    = "does not answer"
	exitsAnswering    = "exits at the tenth answer"
)

// secretValue is in values of accounts, which the host must not show.
const secretValue = "only-they-know"

func (m *module) Turn(context.Context, time.Duration, bool, bool) (rpc.Turn, error) {
	return rpc.Turn{}, rpc.ErrNotScratch
}

// rehearse stands for the script: it finds what the mode of the new version says.
func (f folder) rehearse(ctx context.Context, c rehearsal.Config) (rehearsal.Result, error) {
	version := c.New.Manifest.Version
	f.write("rehearsing "+version, "yes")
	if err := os.WriteFile(filepath.Join(c.Dir, "file"), nil, 0o600); err != nil {
		return rehearsal.Result{}, err
	}
	check := func(name string, outcome rpc.RehearsalOutcome, reason string, where ...rpc.Difference) rpc.RehearsalCheck {
		return rpc.RehearsalCheck{Name: name, Outcome: outcome, Count: 3, Reason: reason, Differences: where}
	}
	checks := []rpc.RehearsalCheck{check("register", rpc.RehearsalPassed, "")}
	switch f.read("mode " + version) {
	case failsRehearsal:
		checks = append(checks, check("sign_in", rpc.RehearsalFailed, "internal instead of success", rpc.Difference{Operation: "Authorize", Field: "error_code"}))
	case differsRehearsing:
		checks = append(checks, check("profile", rpc.RehearsalDiffers, "another value", rpc.Difference{Operation: "Profile", Field: "email"}))
	case cannotRehearse:
		return rehearsal.Result{}, errors.New("the version that serves cannot play the script")
	case hangsRehearsing:
		<-ctx.Done()
		return rehearsal.Result{}, ctx.Err()
	}
	return rehearsal.Result{Checks: checks}, nil
}

// Administration returns one of the users of the note "accounts"; one without operations if there
// is no note.
func (m *module) Administration() personal.Administration {
	var lowest, highest int64
	if _, err := fmt.Sscan(m.folder.read("accounts"), &lowest, &highest); err != nil {
		return &personaltest.Administration{}
	}
	answered := 0
	user := func(ctx context.Context, operation string, id int64) (personal.User, error) {
		m.note(operation, id)
		answered++
		u := personal.User{ID: id, Login: fmt.Sprint("user-", id), Email: fmt.Sprint(id, "@"+secretValue+".example"),
			Created: time.Unix(id, 0).UTC()}
		switch {
		case m.mode == losesEmail && id%10 == 0:
			u.Email = ""
		case m.mode == refusesToAnswer && id%10 == 0:
			return u, errors.New("a bug")
		case m.mode == answersByTheClock:
			u.LastSeen = time.Now().UTC()
		case m.mode == knowsNames:
			name := secretValue
			u.Name = &name
		case m.mode == hangsAnswering:
			<-ctx.Done()
		case m.mode == exitsAnswering && answered == 10:
			os.Exit(8)
		}
		return u, nil
	}
	return &personaltest.Administration{
		FindUsersFunc: func(_ context.Context, r personal.FindUsersRequest) (personal.UserPage, error) {
			m.note("FindUsers", r.After)
			var page personal.UserPage
			before := highest + 1
			if r.After > 0 {
				before = min(before, r.After)
			}
			for id := before - 1; id >= lowest; id-- {
				if len(page.Users) == r.Limit {
					page.Next = id + 1
					break
				}
				page.Users = append(page.Users, personal.User{ID: id, Login: fmt.Sprint("user-", id)})
			}
			return page, nil
		},
		UserFunc: func(ctx context.Context, id int64) (personal.UserRecord, error) {
			u, err := user(ctx, "User", id)
			return personal.UserRecord{User: u, Fields: []personal.ProfileField{{Name: "phone", Value: secretValue}}}, err
		},
		ExplainFunc: func(ctx context.Context, r personal.ExplainRequest) (personal.Explanation, error) {
			var id int64
			_, _ = fmt.Sscanf(r.Login, "user-%d", &id)
			u, err := user(ctx, "Explain", id)
			return personal.Explanation{User: &u, Verdicts: []personal.Verdict{{Reason: personal.ReasonNothing}}}, err
		},
		UserSessionsFunc: func(ctx context.Context, id int64) ([]personal.Session, error) {
			u, err := user(ctx, "UserSessions", id)
			return []personal.Session{{ID: "s", Agent: secretValue, LastSeen: u.LastSeen}}, err
		},
	}
}

// note records a call, such as "1.0.0 User 7".
func (m *module) note(operation string, id int64) {
	m.folder.write("asked", fmt.Sprintf("%s %s %d", m.version, operation, id))
}
