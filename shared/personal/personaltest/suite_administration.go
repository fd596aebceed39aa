package personaltest

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/shared/personal"
)

// StartAdministration is [Start] for a Service with its Administration.
type StartAdministration func(t *testing.T, host personal.Host) (personal.Service, personal.Administration)

// RunAdministration tests that an Administration conforms to the contract, by its
// effects on the users of its Service. Like [Run] it needs its own store.
func RunAdministration(t *testing.T, start StartAdministration) {
	fields := &fieldSet{}
	fields.set(sampleFields())
	host := &Host{UserFieldsFunc: fields.schema}
	service, administration := start(t, host)
	s := &administrationSuite{suite{service: service, host: host, fields: fields}, administration}
	for name, test := range map[string]func(*testing.T, *administrationSuite){
		"search finds login, e-mail, name and id":                  testFindUsers,
		"users are listed newest first in pages":                   testUserPages,
		"search by state":                                          testUserStates,
		"search by registration":                                   testUserRegistrations,
		"search by a user field returns user fields":               testUserFields,
		"users by their ids":                                       testUsers,
		"invalid search reports all field errors":                  testInvalidSearch,
		"record includes hidden fields":                            testUserRecord,
		"update sets every field by its rules":                     testUpdateUser,
		"set e-mail applies at once and invalidates mailed tokens": testSetEmail,
		"invalid e-mail changes nothing":                           testSetInvalidEmail,
		"disabled user is signed out, enabled user may sign in":    testDisableUser,
		"disabling invalidates mailed tokens":                      testDisabledTokens,
		"sessions are listed and revoked":                          testUserSessions,
		"deletion removes the user and frees login and e-mail":     testDeleteUser,
		"decisions about a deleted account stand":                  testDeletedUsers,
		"events of a user arrive in order":                         testEvents,
		"audit entries are listed newest first by filters":         testAuditEntries,
		"invalid audit filters report all field errors":            testInvalidAuditFilters,
		"creation checks login, e-mail and fields":                 testCreateUser,
		"invited user chooses a password by mail":                  testInvitation,
		"removal of a second factor ends the user's sessions":      testRemoveTwoFactor,
		"other ways in are removed with their sessions":            testRemoveOtherWaysIn,
		"second factor takes other ways in along, or keeps them":   testFactorWithOtherWays,
		"new password keeps other ways in or removes them":         testPasswordOtherWays,
		"reset ends a take-over":                                   testResetAccess,
		"explanation names what an action then ends":               testExplain,
		"invalid explanation reports all field errors":             testInvalidExplain,
		"limits are lifted with an event":                          testLiftLimits,
		"user fields are rehearsed, missed and filled in":          testMissingFields,
		"host opens a session by its own method":                   testSignIn,
		"host opens a session by an identity":                      testSignInByIdentity,
		"host's sign-in asks for a code":                           testSignInWithCode,
		"host's sign-in of a moment ago is a proof":                testSignInProof,
		"first identity of a new account is linked by its id":      testFirstIdentity,
		"identity is linked and unlinked with a proof":             testProvedIdentity,
		"unlinked identity ends its sessions":                      testUnlinkIdentity,
		"recovery removes identities":                              testRecoveredIdentity,
		"identity registers a user without a password":             testRegisterIdentity,
		"identity gives a proof":                                   testProveIdentity,
		"sign-out at the provider ends its sessions":               testEndIdentitySessions,
		"identity is of one account":                               testIdentityRace,
		"unknown id is not found":                                  testUnknownUser,
	} {
		t.Run(name, func(t *testing.T) { test(t, s) })
	}
}

// administrationSuite is the Administration under test with its Service and host.
type administrationSuite struct {
	suite
	administration personal.Administration
}

// find returns the ids of the users that a search finds.
func (s *administrationSuite) find(t *testing.T, r personal.FindUsersRequest) (ids []int64, next int64) {
	t.Helper()
	page, err := s.administration.FindUsers(t.Context(), r)
	if err != nil {
		t.Fatalf("finding users: %v", err)
	}
	for _, u := range page.Users {
		ids = append(ids, u.ID)
	}
	return ids, page.Next
}

func (s *administrationSuite) record(t *testing.T, id int64) personal.UserRecord {
	t.Helper()
	record, err := s.administration.User(t.Context(), id)
	if err != nil {
		t.Fatalf("reading a user: %v", err)
	}
	return record
}

// awaitEvents waits until a user has an event of each type, in any order, and returns the first
// of each, as they came.
func (s *administrationSuite) awaitEvents(t *testing.T, userID int64, want ...personal.EventType) (first []personal.Event) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for known := 0; ; {
		events, err := s.host.AwaitEvents(ctx, known+1)
		if err != nil {
			t.Fatalf("waiting for events %v: %v", want, err)
		}
		known = len(events)
		first = nil
		for _, e := range events {
			known := slices.ContainsFunc(first, func(f personal.Event) bool { return f.Type == e.Type })
			if e.UserID == userID && slices.Contains(want, e.Type) && !known {
				first = append(first, e)
			}
		}
		if len(first) == len(want) {
			return first
		}
	}
}

func testFindUsers(t *testing.T, s *administrationSuite) {
	login, email := s.newLogin()
	in, err := s.service.Register(t.Context(), personal.RegisterRequest{
		Login: "Ünter_" + login, Password: Password, ConfirmPassword: Password, Email: "Find.Me+" + email,
		Fields: map[string]personal.Input{"name": personal.Text("Ада Лавлейс 100%"), "city": personal.Text("riga")},
	})
	if err != nil {
		t.Fatalf("registering: %v", err)
	}
	s.register(t) // another user
	id := in.Credentials.UserID
	for name, search := range map[string]string{
		"the login":                 "Ünter_" + login,
		"the login in capitals":     "ÜNTER_" + strings.ToUpper(login),
		"a part of the login":       "nter_",
		"the e-mail":                "find.me+" + email,
		"a part of the e-mail":      "FIND.ME",
		"a part of the name":        "лавл",
		"the name in capitals":      "ЛАВЛЕЙС",
		"the name as it is":         "Ада Лавлейс",
		"the name with accents":     "а\u0301да",
		"the e-mail in full width":  "ｆｉｎｄ．ｍｅ",
		"the whole login, likewise": "Ｕ\u0308nter_" + login,
		"a per cent sign":           "0%",
		"spaces around":             "  find.me ",
		"the id, and texts with it": strconv.FormatInt(id, 10),
	} {
		ids, next := s.find(t, personal.FindUsersRequest{Search: search})
		if !slices.Contains(ids, id) || next != 0 {
			t.Errorf("by %s: found %v, want %d", name, ids, id)
		}
		if len(ids) != 1 && !strings.Contains(name, "id") {
			t.Errorf("by %s: found %v, want only %d", name, ids, id)
		}
	}
	for name, search := range map[string]string{
		"an unknown text":    "no such user",
		"a wildcard":         "find%me",
		"another wildcard":   "f_nd.me",
		"a quote":            "'",
		"a number too large": "99999999999999999999",
		"the id and more":    strconv.FormatInt(id, 10) + " x",
	} {
		if ids, _ := s.find(t, personal.FindUsersRequest{Search: search}); len(ids) > 0 {
			t.Errorf("by %s: found %v, want none", name, ids)
		}
	}
}

func testUserPages(t *testing.T, s *administrationSuite) {
	var want []int64
	for range 5 {
		want = append(want, s.register(t).Credentials.UserID)
	}
	slices.Reverse(want)
	first, next := s.find(t, personal.FindUsersRequest{Limit: 2})
	s.register(t) // newer than the first page
	second, next := s.find(t, personal.FindUsersRequest{Limit: 2, After: next})
	rest, _ := s.find(t, personal.FindUsersRequest{After: next})
	if diff := cmp.Diff(want, slices.Concat(first, second, rest[:1])); diff != "" {
		t.Fatalf("users (-want +got):\n%s", diff)
	}
	all, next := s.find(t, personal.FindUsersRequest{Limit: 100})
	if next != 0 {
		t.Fatalf("got next %d after a page of %d users, want 0", next, len(all))
	}
	if last, next := s.find(t, personal.FindUsersRequest{Limit: len(all)}); next != 0 || len(last) != len(all) {
		t.Fatalf("got %d of %d users and next %d, want all and 0", len(last), len(all), next)
	}
}

func testUserStates(t *testing.T, s *administrationSuite) {
	active, disabled := s.register(t), s.register(t)
	if err := s.administration.DisableUser(t.Context(), disabled.Credentials.UserID); err != nil {
		t.Fatalf("disabling: %v", err)
	}
	for _, test := range []struct {
		state            personal.UserState
		active, disabled bool
	}{{"", true, true}, {personal.UserActive, true, false}, {personal.UserDisabled, false, true}} {
		for email, want := range map[string]bool{active.email: test.active, disabled.email: test.disabled} {
			ids, _ := s.find(t, personal.FindUsersRequest{Search: email, State: test.state})
			if got := len(ids) == 1; got != want {
				t.Errorf("state %q: found %v by %s, want it found: %t", test.state, ids, email, want)
			}
		}
	}
}

func testInvalidSearch(t *testing.T, s *administrationSuite) {
	_, err := s.administration.FindUsers(t.Context(), personal.FindUsersRequest{
		Search: strings.Repeat("x", 255), State: "asleep", After: -1, Limit: 101,
	})
	wantFieldErrors(t, err, personal.CodeValidationFailed, personal.FieldErrors{
		"search": personal.FieldErrorTooLong, "state": personal.FieldErrorNotInList,
		"after": personal.FieldErrorOutOfRange, "limit": personal.FieldErrorOutOfRange,
	})
	_, err = s.administration.FindUsers(t.Context(), personal.FindUsersRequest{Search: "a\x00b", Limit: -1})
	wantFieldErrors(t, err, personal.CodeValidationFailed, personal.FieldErrors{
		"search": personal.FieldErrorInvalidFormat, "limit": personal.FieldErrorOutOfRange,
	})
}

// findAll returns the ids on all pages of a search.
func (s *administrationSuite) findAll(t *testing.T, r personal.FindUsersRequest) (ids []int64) {
	t.Helper()
	for {
		page, next := s.find(t, r)
		ids = append(ids, page...)
		if r.After = next; next == 0 {
			return ids
		}
	}
}

func testUserRegistrations(t *testing.T, s *administrationSuite) {
	var ids []int64
	var created []time.Time
	for range 4 {
		ids = append(ids, s.register(t).Credentials.UserID)
		created = append(created, s.record(t, ids[len(ids)-1]).Created)
	}
	for name, test := range map[string]struct {
		r    personal.FindUsersRequest
		want []int64
	}{
		"since":            {personal.FindUsersRequest{Since: created[1]}, []int64{ids[3], ids[2], ids[1]}},
		"between":          {personal.FindUsersRequest{Since: created[1], Until: created[3]}, []int64{ids[2], ids[1]}},
		"the oldest first": {personal.FindUsersRequest{Since: created[1], Oldest: true, State: personal.UserActive}, []int64{ids[1], ids[2], ids[3]}},
	} {
		for test.r.Limit = 1; test.r.Limit < 4; test.r.Limit++ {
			if diff := cmp.Diff(test.want, s.findAll(t, test.r)); diff != "" {
				t.Errorf("%s, pages of %d (-want +got):\n%s", name, test.r.Limit, diff)
			}
		}
	}
	all, oldest := s.findAll(t, personal.FindUsersRequest{}), s.findAll(t, personal.FindUsersRequest{Oldest: true, Limit: 3})
	slices.Reverse(oldest)
	if diff := cmp.Diff(all, oldest); diff != "" {
		t.Errorf("all users, newest first and oldest first (-newest +oldest):\n%s", diff)
	}
}

func testUserFields(t *testing.T, s *administrationSuite) {
	set := func(fields map[string]personal.Input) int64 {
		t.Helper()
		id := s.register(t).Credentials.UserID
		if err := s.administration.UpdateUser(t.Context(), personal.UpdateUserRequest{UserID: id, Fields: fields}); err != nil {
			t.Fatalf("setting fields: %v", err)
		}
		return id
	}
	since := s.record(t, s.register(t).Credentials.UserID).Created.Add(time.Microsecond)
	oslo := set(map[string]personal.Input{"city": personal.Text("oslo"), "age": personal.Text("41"), "newsletter": personal.Text("true"),
		"note": personal.Text("a note")})
	riga := set(map[string]personal.Input{"city": personal.Text("riga"), "age": personal.Text("42"), "newsletter": personal.Text("false")})
	for _, test := range []struct {
		field, value string
		want         []int64
	}{
		{"city", "oslo", []int64{oslo}}, {"city", "riga", []int64{riga}}, {"age", "41", []int64{oslo}}, {"age", "-1", nil},
		{"newsletter", "true", []int64{oslo}}, {"newsletter", "false", []int64{riga}},
	} {
		if diff := cmp.Diff(test.want, s.findAll(t, personal.FindUsersRequest{Since: since, Field: test.field, Value: test.value})); diff != "" {
			t.Errorf("%s = %s (-want +got):\n%s", test.field, test.value, diff)
		}
	}
	page, err := s.administration.FindUsers(t.Context(), personal.FindUsersRequest{Since: since, Fields: []string{"note", "city"}})
	if err != nil || len(page.Users) != 2 {
		t.Fatalf("with fields: got %d users, %v, want 2", len(page.Users), err)
	}
	if diff := cmp.Diff([]personal.ProfileField{{Name: "city", Value: "oslo"}, {Name: "note", Value: "a note"}},
		page.Users[1].Fields); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
	_, err = s.administration.FindUsers(t.Context(), personal.FindUsersRequest{Field: "phone", Value: "x",
		Fields: []string{"city", "unknown"}})
	wantFieldErrors(t, err, personal.CodeValidationFailed, personal.FieldErrors{"field": personal.FieldErrorNotInList,
		"fields": personal.FieldErrorNotInList})
	for field, code := range map[string]personal.FieldErrorCode{"city": personal.FieldErrorNotInList, "age": personal.FieldErrorInvalidType} {
		_, err = s.administration.FindUsers(t.Context(), personal.FindUsersRequest{Field: field, Value: "paris"})
		wantFieldErrors(t, err, personal.CodeValidationFailed, personal.FieldErrors{"value": code})
	}
	_, err = s.administration.FindUsers(t.Context(), personal.FindUsersRequest{Field: "city"})
	wantFieldErrors(t, err, personal.CodeValidationFailed, personal.FieldErrors{"value": personal.FieldErrorRequired})
}

func testUsers(t *testing.T, s *administrationSuite) {
	a, b := s.register(t), s.register(t)
	want := map[int64]personal.User{}
	for _, u := range []user{a, b} {
		want[u.Credentials.UserID] = s.record(t, u.Credentials.UserID).User
	}
	got, err := s.administration.Users(t.Context(), []int64{b.Credentials.UserID, 1 << 50, a.Credentials.UserID, -1, b.Credentials.UserID})
	if err != nil {
		t.Fatalf("users: %v", err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("users (-want +got):\n%s", diff)
	}
	if u := got[a.Credentials.UserID]; u.LastSignIn.Sub(u.Created).Abs() > time.Hour {
		t.Errorf("got the last sign-in %v of a user registered at %v, want about the same", u.LastSignIn, u.Created)
	}
	if got, err := s.administration.Users(t.Context(), make([]int64, personal.MaxUsers)); err != nil || len(got) > 0 {
		t.Errorf("ids of no user: got %v, %v, want none", got, err)
	}
	_, err = s.administration.Users(t.Context(), make([]int64, personal.MaxUsers+1))
	wantFieldErrors(t, err, personal.CodeValidationFailed, personal.FieldErrors{"ids": personal.FieldErrorTooLong})
}

func testUserRecord(t *testing.T, s *administrationSuite) {
	u := s.register(t)
	got := s.record(t, u.Credentials.UserID)
	want := personal.UserRecord{
		User: personal.User{
			ID: u.Credentials.UserID, Login: u.login, Name: u.Profile.Name, Email: u.email,
			Created: got.Created, Updated: got.Created, LastSeen: got.LastSeen, LastSignIn: got.LastSignIn,
		},
		Fields: append(slices.Clone(u.Profile.Fields), personal.ProfileField{Name: "note"}),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("record (-want +got):\n%s", diff)
	}
	if got.LastSeen.Before(got.Created) {
		t.Fatalf("got last seen %v, before created %v", got.LastSeen, got.Created)
	}
	if age := time.Since(got.Created); age.Abs() > time.Hour || got.Created.Location() != time.UTC {
		t.Fatalf("got created %v, want about now in UTC", got.Created)
	}
	page, err := s.administration.FindUsers(t.Context(), personal.FindUsersRequest{Search: u.email})
	if err != nil {
		t.Fatalf("finding the user: %v", err)
	}
	if diff := cmp.Diff([]personal.User{want.User}, page.Users); diff != "" {
		t.Fatalf("listed user (-want +got):\n%s", diff)
	}
}
