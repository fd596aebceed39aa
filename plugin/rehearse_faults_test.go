package main

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/cms-personal/personal/internal/mailtext"
	"github.com/cms-personal/personal/internal/rehearsal"
	"github.com/cms-personal/personal/internal/store/dbconn"
	"github.com/cms-personal/personal/internal/testkit"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/pluginrpc"
)

// planted is a version with a fault.
type planted struct {
	rehearsal.Contract
	authorize func(in personal.SignedIn, err error) (personal.SignedIn, error)
	refresh   func(personal.Credentials) personal.Credentials
	profile   func(personal.Profile) personal.Profile
	update    func(*personal.UpdateProfileRequest)
	export    func()
}

func (p *planted) Authorize(ctx context.Context, r personal.AuthorizeRequest) (personal.SignedIn, error) {
	in, err := p.Contract.Authorize(ctx, r)
	if p.authorize != nil {
		in, err = p.authorize(in, err)
	}
	return in, err
}

func (p *planted) Refresh(ctx context.Context, pair personal.Credentials) (personal.Credentials, error) {
	got, err := p.Contract.Refresh(ctx, pair)
	if p.refresh != nil && err == nil {
		got = p.refresh(pair)
	}
	return got, err
}

func (p *planted) Profile(ctx context.Context, pair personal.Credentials) (personal.Profile, error) {
	got, err := p.Contract.Profile(ctx, pair)
	if p.profile != nil && err == nil {
		got = p.profile(got)
	}
	return got, err
}

func (p *planted) UpdateProfile(ctx context.Context, r personal.UpdateProfileRequest) (personal.Profile, error) {
	if p.update != nil {
		p.update(&r)
	}
	return p.Contract.UpdateProfile(ctx, r)
}

func (p *planted) Export(ctx context.Context, r personal.ExportRequest) (personal.Export, error) {
	if p.export != nil {
		p.export()
	}
	return p.Contract.Export(ctx, r)
}

// panicking is a set of mails one of which panics.
type panicking struct{ *mailtext.Set }

func (p panicking) Write(k mailtext.Kind, locale string, l mailtext.Letter) (subject, text, html string, err error) {
	if k == mailtext.Deletion && locale == "ru" {
		panic("planted")
	}
	return p.Set.Write(k, locale, l)
}

func TestRehearse_NamesFaults(t *testing.T) {
	var remembered personal.SignedIn
	var first *personal.Profile
	for name, test := range map[string]struct {
		fault      planted
		statements string // of a fault in the database
		mails      bool   // a template panics
		check      string
		want       pluginrpc.Difference
	}{
		"any password signs in": {
			fault: planted{authorize: func(in personal.SignedIn, err error) (personal.SignedIn, error) {
				if err == nil {
					remembered = in
				}
				return remembered, nil
			}},
			check: "wrong_password", want: pluginrpc.Difference{Operation: "Authorize", Field: "error_code"},
		},
		"wrong error code": {
			fault: planted{authorize: func(in personal.SignedIn, err error) (personal.SignedIn, error) {
				if personal.CodeOf(err) == personal.CodeInvalidCredentials {
					err = personal.NewError(personal.CodeUnauthenticated, nil)
				}
				return in, err
			}},
			check: "wrong_password", want: pluginrpc.Difference{Operation: "Authorize", Field: "error_code"},
		},
		"refresh returns the old hash": {
			fault: planted{refresh: func(old personal.Credentials) personal.Credentials { return old }},
			check: "refresh", want: pluginrpc.Difference{Operation: "Refresh", Field: "user_hash"},
		},
		"lost field": {
			fault: planted{update: func(r *personal.UpdateProfileRequest) { delete(r.Fields, "age") }},
			check: "update", want: pluginrpc.Difference{Operation: "UpdateProfile", Field: "age"},
		},
		"hidden field": {
			fault: planted{profile: func(p personal.Profile) personal.Profile {
				p.Fields = append(p.Fields, personal.ProfileField{Name: "rating", Value: int64(5)})
				return p
			}},
			check: "profile", want: pluginrpc.Difference{Operation: "Profile", Field: "rating"},
		},
		"profile of another user": {
			fault: planted{profile: func(p personal.Profile) personal.Profile {
				if first == nil {
					first = &p
				}
				return *first
			}},
			check: "other_user", want: pluginrpc.Difference{Operation: "Profile", Field: "login"},
		},
		"panic": {
			fault: planted{export: func() { panic("planted") }},
			check: "export", want: pluginrpc.Difference{Operation: "Export", Field: "error_code"},
		},
		"template that panics": {
			mails: true, check: "mails", want: pluginrpc.Difference{Operation: "Delete", Field: "deletion.ru"},
		},
		"erasure forgets a table": {
			statements: `CREATE TABLE personal_forgotten (account_id BIGINT);
				CREATE TRIGGER forgotten AFTER INSERT ON personal_accounts BEGIN INSERT INTO personal_forgotten VALUES (new.id); END`,
			check: "erasure", want: pluginrpc.Difference{Operation: "Delete", Field: "personal_forgotten"},
		},
		"a default is lost": {
			statements: `CREATE TRIGGER lost BEFORE INSERT ON personal_mail_tokens WHEN new.purpose = 'email' BEGIN SELECT RAISE(ABORT, 'no default'); END`,
			check:      "email", want: pluginrpc.Difference{Operation: "ChangeEmail", Field: "job"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			url := testkit.SQLite(t)
			m := rehearsedModule(t, url, everythingOn, everyField()...)
			if test.statements != "" {
				execute(t, url, test.statements)
			}
			m.rehearsed = func(c *rehearsal.Config) {
				c.Wrap = func(honest rehearsal.Contract) rehearsal.Contract {
					fault := test.fault
					fault.Contract = honest
					return &fault
				}
				if test.mails {
					c.Mails = panicking{c.Mails.(*mailtext.Set)}
				}
			}
			others, _ := rehearse(t, m)
			i := slices.IndexFunc(others, func(c pluginrpc.RehearsalCheck) bool { return c.Name == test.check })
			if i < 0 || others[i].Outcome != pluginrpc.RehearsalFailed || !slices.Contains(others[i].Differences, test.want) {
				t.Errorf("got %+v, want that check %s fails at %+v", others, test.check, test.want)
			}
			for _, c := range others {
				if strings.Contains(c.Reason, "rehearsal-") {
					t.Errorf("the reason of check %s holds a value: %s", c.Name, c.Reason)
				}
			}
		})
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
