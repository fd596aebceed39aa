package main

import (
	"cmp"
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/mailtext"
	"github.com/cms-personal/personal/internal/rehearsal"
	"github.com/cms-personal/personal/internal/store/dbconn"
	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

// call is a call of an operation, before and after it was served.
type call struct {
	op      personal.OperationName
	request any
	result  any
	err     error
}

// planted returns a version with a fault: before and after may change a call; nil: they do not.
func planted(honest rehearsal.Contract, before, after func(*call)) rehearsal.Contract {
	return personaltest.HandledBy(func(ctx context.Context, op personal.OperationName, request any) (any, error) {
		c := &call{op: op, request: request}
		if before != nil {
			before(c)
		}
		in := []reflect.Value{reflect.ValueOf(ctx)}
		if c.request != nil {
			in = append(in, reflect.ValueOf(c.request))
		}
		out := reflect.ValueOf(honest).MethodByName(string(op)).Call(in)
		c.err, _ = out[len(out)-1].Interface().(error)
		if len(out) > 1 {
			c.result = out[0].Interface()
		}
		if after != nil {
			after(c)
		}
		return c.result, c.err
	})
}

// changed returns a change of the results of an operation that has succeeded.
func changed[T any](op personal.OperationName, change func(T) T) func(*call) {
	return func(c *call) {
		if c.op == op && c.err == nil {
			c.result = change(c.result.(T))
		}
	}
}

// before returns a change of the requests of an operation.
func before[T any](op personal.OperationName, change func(*T)) func(*call) {
	return func(c *call) {
		if c.op == op {
			r := c.request.(T)
			change(&r)
			c.request = r
		}
	}
}

// panicking is a set of mails two of which panic: one that the rehearsal causes, and one that it
// does not cause, with the name of the site.
type panicking struct{ *mailtext.Set }

func (p panicking) Write(k mailtext.Kind, locale string, l mailtext.Letter) (subject, text, html string, err error) {
	if locale == "ru" && (k == mailtext.Deletion || k == mailtext.CodeRefused && l.Site == "A site") {
		panic("planted")
	}
	return p.Set.Write(k, locale, l)
}

// plantedFault is a fault, and where a rehearsal must find it.
type plantedFault struct {
	before, after    func(*call)
	statements       string // of a fault in the database
	mails            bool   // a template panics
	check, op, field string
	together         string // faults with the same name here are planted in one rehearsal, which finds each
}

func plantedFaults() map[string]plantedFault {
	var in personal.SignedIn
	var first *personal.Profile
	var pair personal.Credentials
	return map[string]plantedFault{
		"any password signs in": {after: func(c *call) {
			switch {
			case c.op != personal.OpAuthorize:
			case c.err == nil:
				in = c.result.(personal.SignedIn)
			case in.Credentials.UserID != 0:
				c.result, c.err = in, nil
			}
		}, check: "wrong_password", op: "Authorize", field: "error_code"},
		"wrong error code": {after: func(c *call) {
			if c.op == personal.OpAuthorize && personal.CodeOf(c.err) == personal.CodeInvalidCredentials {
				c.err = personal.NewError(personal.CodeUnauthenticated, nil)
			}
		}, check: "wrong_password", op: "Authorize", field: "error_code", together: "other results"},
		"refresh returns the old hash": {after: func(c *call) {
			if c.op == personal.OpRefresh && c.err == nil {
				c.result = c.request
			}
		}, check: "refresh", op: "Refresh", field: "user_hash"},
		"a lost response signs out": {after: func(c *call) {
			if c.op == personal.OpRefresh && c.request == pair {
				c.err = personal.NewError(personal.CodeUnauthenticated, nil)
			}
			if c.op == personal.OpRefresh {
				pair = c.request.(personal.Credentials)
			}
		}, check: "lost_response", op: "Refresh", field: "error_code"},
		"lost field": {
			before: before(personal.OpUpdateProfile, func(r *personal.UpdateProfileRequest) { delete(r.Fields, "age") }),
			check:  "update", op: "UpdateProfile", field: "age"},
		"an integer becomes a number": {
			after: changed(personal.OpProfile, func(p personal.Profile) personal.Profile {
				for i, f := range p.Fields {
					if n, ok := f.Value.(int64); ok {
						p.Fields[i].Value = float64(n) + 0.5
					}
				}
				return p
			}), check: "profile", op: "Profile", field: "age", together: "other results"},
		"features are not those of the settings": {
			after: changed(personal.OpFeatures, func(f personal.Features) personal.Features {
				f.PasswordMinLength++
				return f
			}), check: "features", op: "Features", field: "password.min_length", together: "other results"},
		"a proof lasts too long": {
			after: changed(personal.OpProve, func(p personal.Proof) personal.Proof {
				p.Until = p.Until.Add(time.Second)
				return p
			}), check: "proof", op: "Prove", field: "proved_until", together: "other results"},
		"a proof is not judged": {after: func(c *call) {
			var e *personal.Error
			if c.op == personal.OpExport && errors.As(c.err, &e) && e.FieldErrors["proof"] != "" {
				c.err = nil
			}
		}, check: "proof", op: "Export", field: "error_code"},
		"hidden field in a profile": {
			after: changed(personal.OpProfile, func(p personal.Profile) personal.Profile {
				p.Fields = append(p.Fields, personal.ProfileField{Name: "rating", Value: int64(5)})
				return p
			}), check: "profile", op: "Profile", field: "rating", together: "other results"},
		"hidden field in an export": {
			after: changed(personal.OpExport, func(e personal.Export) personal.Export {
				e.Profile.Fields = append(e.Profile.Fields, personal.ProfileField{Name: "secret", Value: "x"})
				return e
			}), check: "export", op: "Export", field: "secret", together: "other results"},
		"a read-only field can be set": {
			before: before(personal.OpUpdateProfile, func(r *personal.UpdateProfileRequest) { delete(r.Fields, "customer") }),
			check:  "hidden_fields", op: "UpdateProfile", field: "error_code", together: "other requests"},
		"profile of another user": {
			after: changed(personal.OpProfile, func(p personal.Profile) personal.Profile {
				if first == nil {
					first = &p
				}
				return *first
			}), check: "other_user", op: "Profile", field: "login"},
		"no session is the current one": {
			after: changed(personal.OpSessions, func(all []personal.Session) []personal.Session {
				for i := range all {
					all[i].Current = false
				}
				return all
			}), check: "sessions", op: "Sessions", field: "current", together: "other results"},
		"sign-out does nothing": {
			before: before(personal.OpLogout, func(r *personal.LogoutRequest) { r.Credentials = personal.Credentials{} }),
			after: func(c *call) {
				if c.op == personal.OpLogout {
					c.err = nil
				}
			}, check: "sessions", op: "Profile", field: "error_code", together: "other requests"},
		"a token works without its end": {
			before: before(personal.OpRecoverConfirm, func(r *personal.RecoverConfirmRequest) { r.Token = strings.TrimSuffix(r.Token, "x") }),
			check:  "recovery", op: "RecoverConfirm", field: "error_code", together: "other requests"},
		"panic": {
			before: before(personal.OpExport, func(*personal.ExportRequest) { panic("planted") }),
			check:  "export", op: "Export", field: "error_code"},
		"the account is erased too early": {
			after: changed(personal.OpDelete, func(at time.Time) time.Time { return at.Add(-time.Hour) }),
			check: "deletion", op: "Delete", field: "erase_at", together: "other results"},
		"a disabled user is not explained": {
			after: changed(personal.OpExplain, func(e personal.Explanation) personal.Explanation {
				e.Verdicts = []personal.Verdict{{Reason: personal.ReasonNothing}}
				return e
			}), check: "administration", op: "Explain", field: "verdicts", together: "other results"},
		"recovery codes are lost": {
			after: changed(personal.OpRenewRecoveryCodes, func(codes []string) []string { return codes[:0] }),
			check: "second_factor", op: "RenewRecoveryCodes", field: "error_code", together: "other results"},
		"template that panics":                           {mails: true, check: "mails", op: "Delete", field: "deletion.ru", together: "below the service"},
		"template that panics with the name of the site": {mails: true, check: "mails", op: "Authorize", field: "code_refused.ru", together: "below the service"},
		"erasure forgets a table": {
			statements: `CREATE TABLE personal_forgotten (account_id BIGINT);
				CREATE TRIGGER forgotten AFTER INSERT ON personal_accounts BEGIN INSERT INTO personal_forgotten VALUES (new.id); END`,
			check: "erasure", op: "Delete", field: "personal_forgotten", together: "below the service"},
		"a default is lost": {
			statements: `CREATE TRIGGER lost BEFORE INSERT ON personal_mail_tokens WHEN new.purpose = 'email' BEGIN SELECT RAISE(ABORT, 'no default'); END`,
			check:      "email", op: "ChangeEmail", field: "job", together: "below the service"},
		"an event names no fields": {
			statements: `CREATE TRIGGER unnamed AFTER INSERT ON personal_jobs WHEN new.kind = 'event' BEGIN
				UPDATE personal_jobs SET payload = CAST(replace(CAST(payload AS TEXT), '"fields":["name"]', '"fields":null') AS BLOB) WHERE id = new.id; END`,
			check: "events", op: "UpdateProfile", field: "event profile_updated fields", together: "events"},
		"an event is lost": {
			statements: `CREATE TRIGGER lost_event AFTER INSERT ON personal_jobs WHEN new.kind = 'event' AND instr(CAST(new.payload AS TEXT), '"exported"') > 0
				BEGIN DELETE FROM personal_jobs WHERE id = new.id; END`,
			check: "events", op: "Export", field: "event exported", together: "events"},
	}
}

func TestRehearse_NamesFaults(t *testing.T) {
	faults := plantedFaults()
	groups := map[string][]string{}
	for name, fault := range faults {
		group := cmp.Or(fault.together, name)
		groups[group] = append(groups[group], name)
	}
	for group, names := range groups {
		t.Run(group, func(t *testing.T) {
			url := testdb.SQLite(t)
			m := rehearsedModule(t, url, everythingOn, everyField()...)
			var mails bool
			var before, after []func(*call)
			for _, name := range names {
				fault := faults[name]
				if fault.statements != "" {
					execute(t, url, fault.statements)
				}
				mails = mails || fault.mails
				before, after = append(before, fault.before), append(after, fault.after)
			}
			m.rehearsed = func(c *rehearsal.Config) {
				c.Wrap = func(honest rehearsal.Contract) rehearsal.Contract {
					return planted(honest, inTurn(before), inTurn(after))
				}
				if mails {
					c.Mails = panicking{c.Mails.(*mailtext.Set)}
				}
			}
			others := rehearseCopy(t, m)
			for _, name := range names {
				fault := faults[name]
				i := slices.IndexFunc(others, func(c rpc.RehearsalCheck) bool { return c.Name == fault.check })
				want := rpc.Difference{Operation: fault.op, Field: fault.field}
				if i < 0 || others[i].Outcome != rpc.RehearsalFailed || !slices.Contains(others[i].Differences, want) {
					t.Errorf("%s: got %+v, want that check %s fails at %+v", name, others, fault.check, want)
				}
			}
			for _, c := range others {
				if strings.Contains(c.Reason, "rehearsal-") {
					t.Errorf("the reason of check %s holds a value: %s", c.Name, c.Reason)
				}
			}
		})
	}
}

// inTurn makes the changes that are not nil.
func inTurn(changes []func(*call)) func(*call) {
	return func(c *call) {
		for _, change := range changes {
			if change != nil {
				change(c)
			}
		}
	}
}

func execute(t testing.TB, url, statement string) {
	t.Helper()
	pools, err := dbconn.Open(url, dbconn.MigrationLimits)
	if err != nil {
		t.Fatal(err)
	}
	defer pools.Close()
	if _, err := pools.Write.ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}
