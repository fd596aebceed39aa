package accounts

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/internal/seal"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/userfields"
)

// AdministrationStore searches, shows, changes and deletes accounts for
// administrators, and reads the audit log.
type AdministrationStore interface {
	// SearchAccounts returns a page of the accounts that match the search, in its order. The
	// first page contains the accounts whose key or id is the whole text, as far as the
	// limit allows, even if many others come before them; a later page may contain them
	// again. All pages together contain every match.
	SearchAccounts(ctx context.Context, q AccountSearch) (AccountPage, error)
	// Accounts returns those of the accounts that exist, in any order.
	Accounts(ctx context.Context, ids []int64) ([]Account, error)
	// Account returns an account by its id. ErrNotFound.
	Account(ctx context.Context, id int64) (Account, error)
	// SetEmail sets the account's e-mail as unconfirmed, or removes it if it is the zero
	// value; the account waits for no address any more. It changes the login along if that is the old e-mail, voids every token, and stores
	// the jobs. It calls jobs under a lock with the account before the change; an error
	// of jobs cancels the change. Setting the present e-mail changes nothing.
	// ErrNotFound, *TakenError.
	SetEmail(ctx context.Context, id int64, email Email, jobs func(before Account) ([]NewJob, error)) error
	// SetDisabled disables or enables an account, raises the credential version,
	// ends every session, voids every mailed token and stores the jobs. If the account
	// is in that state already it changes nothing. Enabling does all of this too, for an
	// account that was disabled in another way; it undoes a deletion by the user.
	// Disabling does all of this for an account that its user has deleted: they cannot
	// undo that any more, and it is still erased in time. ErrNotFound.
	SetDisabled(ctx context.Context, id int64, disabled bool, jobs ...NewJob) error
	// DeleteAccount removes an account with its sessions, tokens, mails and known
	// addresses, anonymises its audit entries, and stores the jobs. It calls remains for
	// each waiting job of the account and each waiting job of RequestKinds: the result
	// replaces the job's payload, and nil removes the job. ErrNotFound.
	DeleteAccount(ctx context.Context, id int64, remains func(Account, outbox.Job) []byte, jobs ...NewJob) error
	// AuditEntries returns the entries of the audit log that match the request,
	// the highest cursor first, at most Limit.
	AuditEntries(ctx context.Context, r personal.AuditEntriesRequest) ([]personal.AuditEntry, error)
}

// AccountSearch says which accounts to search for.
type AccountSearch struct {
	Text         string // part of the login, an e-mail or the name, as people may spell it; "" matches every account
	Key          string // the whole key of a login or an e-mail; "": none
	ID           int64  // the whole id; 0: none
	State        personal.UserState
	Since, Until time.Time // when the account was created, without the end; zero: any time. If one is set, the order is that of this time
	Field        string    // a user field; "": none
	Value        any       // of the field: a string, a bool or an int64
	Oldest       bool      // the lowest first, else the highest
	After        int64     // AccountPage.Next of the page before; 0: the first page
	Limit        int       // accounts on the page
}

// AccountPage is one page of a search.
type AccountPage struct {
	Accounts []Account
	Next     int64 // AccountSearch.After of the next page; 0 on the last page
}

// FindUsers implements [personal.Administration].
func (s *Service) FindUsers(ctx context.Context, r personal.FindUsersRequest) (personal.UserPage, error) {
	schema, err := &userfields.Schema{}, error(nil)
	if r.Field != "" || len(r.Fields) > 0 {
		schema, err = s.knownFields(ctx)
	}
	if err != nil {
		return personal.UserPage{}, err
	}
	q, err := accountSearch(r, schema)
	if err != nil {
		return personal.UserPage{}, err
	}
	found, err := s.store.SearchAccounts(ctx, q)
	if err != nil {
		return personal.UserPage{}, fail("searching accounts", err)
	}
	page := personal.UserPage{Users: make([]personal.User, 0, len(found.Accounts)), Next: found.Next}
	for _, a := range found.Accounts {
		user := UserOf(a)
		if len(r.Fields) > 0 {
			user.Fields = slices.DeleteFunc(schema.Record(a.Fields), func(f personal.ProfileField) bool {
				return !slices.Contains(r.Fields, f.Name)
			})
		}
		page.Users = append(page.Users, user)
	}
	return page, nil
}

// accountSearch checks a request.
func accountSearch(r personal.FindUsersRequest, schema *userfields.Schema) (AccountSearch, error) {
	text := strings.TrimSpace(norm.NFKC.String(r.Search))
	q := AccountSearch{
		Text: text, State: r.State, Since: r.Since, Until: r.Until, Field: r.Field,
		Oldest: r.Oldest, After: r.After, Limit: cmp.Or(r.Limit, personal.DefaultUserLimit),
	}
	var invalid personal.FieldErrors
	checkSearched(&invalid, "search", text)
	switch r.State {
	case "", personal.UserActive, personal.UserDisabled, personal.UserUnconfirmed, personal.UserTwoFactor:
	default:
		invalid.Add("state", personal.FieldErrorNotInList)
	}
	checkRange(&invalid, "after", r.After, 0)
	checkRange(&invalid, "limit", int64(q.Limit), personal.MaxUserLimit)
	if r.Field != "" {
		var ok bool
		var code personal.FieldErrorCode
		if q.Value, code, ok = schema.Comparable(r.Field, r.Value); !ok {
			invalid.Add("field", personal.FieldErrorNotInList)
		}
		check(&invalid, "value", code)
	}
	for _, name := range r.Fields {
		if !schema.Has(name) {
			invalid.Add("fields", personal.FieldErrorNotInList)
		}
	}
	q.Key, _ = LoginKey(text)
	if email, code := ParseEmail(text); code == "" {
		q.Key = email.Key
	}
	if id, err := strconv.ParseInt(text, 10, 64); err == nil {
		q.ID = id
	}
	return q, invalid.Err()
}

// checkSearched adds the field error of a text to search for.
func checkSearched(invalid *personal.FieldErrors, parameter, text string) {
	switch {
	case utf8.RuneCountInString(text) > personal.MaxSearchLength:
		invalid.Add(parameter, personal.FieldErrorTooLong)
	case !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl):
		invalid.Add(parameter, personal.FieldErrorInvalidFormat)
	}
}

// checkRange adds a field error unless n is between 0 and the maximum; 0 for no
// maximum.
func checkRange(invalid *personal.FieldErrors, parameter string, n, maximum int64) {
	if n < 0 || maximum > 0 && n > maximum {
		invalid.Add(parameter, personal.FieldErrorOutOfRange)
	}
}

// UserOf returns an account as administrators see it, without user fields.
func UserOf(a Account) personal.User {
	user := personal.User{
		ID:       a.ID,
		Login:    a.Login,
		Name:     a.Name,
		Email:    a.Email.Address,
		Disabled: a.Disabled,
		Created:  a.Created,
		Updated:  a.Updated,
		LastSeen: a.LastSeen,

		LastSignIn:      a.LastSignIn,
		EmailVerified:   a.EmailVerified,
		TwoFactor:       a.TwoFactor.On(),
		UnverifiedEmail: a.Unverified.Address,
	}
	if a.Deleted() {
		user.EraseAt = a.EraseAt
	}
	return user
}

// Users implements [personal.Administration].
func (s *Service) Users(ctx context.Context, ids []int64) (map[int64]personal.User, error) {
	if len(ids) > personal.MaxUsers {
		return nil, personal.FieldErrors{"ids": personal.FieldErrorTooLong}.Err()
	}
	users := make(map[int64]personal.User, len(ids))
	if len(ids) == 0 {
		return users, nil
	}
	found, err := s.store.Accounts(ctx, ids)
	if err != nil {
		return nil, fail("finding accounts by their ids", err)
	}
	for _, a := range found {
		users[a.ID] = UserOf(a)
	}
	return users, nil
}

// User implements [personal.Administration].
func (s *Service) User(ctx context.Context, id int64) (personal.UserRecord, error) {
	schema, err := s.userFields(ctx)
	if err != nil {
		return personal.UserRecord{}, err
	}
	account, err := s.store.Account(ctx, id)
	if err != nil {
		return personal.UserRecord{}, failWith(personal.CodeNotFound, "finding an account", err)
	}
	passkeys, identities, err := s.OtherWaysIn(ctx, account)
	return personal.UserRecord{
		User: UserOf(account), Fields: schema.Record(account.Fields), Passkeys: passkeys, Identities: identities,
	}, err
}

// UpdateUser implements [personal.Administration].
func (s *Service) UpdateUser(ctx context.Context, r personal.UpdateUserRequest) error {
	schema, err := s.knownFields(ctx)
	if err != nil {
		return err
	}
	if err := schema.Check(r.Fields); err != nil {
		return err
	}
	before, missing := s.store.Account(ctx, r.UserID)
	change, err := s.profileChange(r.Fields, before, schema, schema.Administer)
	if err = cmp.Or(err, failWith(personal.CodeNotFound, "finding an account", missing)); err != nil || len(r.Fields) == 0 {
		return err
	}
	_, err = s.store.UpdateProfile(ctx, r.UserID, func(a *Account) []NewJob {
		return []NewJob{s.event(ctx, personal.ActorAdministrator, personal.EventUserUpdated, a.ID, change(a)...)}
	})
	return s.committed(personal.CodeNotFound, "updating an account", err)
}

// SetEmail implements [personal.Administration]. The address is unconfirmed, and its
// owner is asked to confirm it. An account that waits for its address to be confirmed
// waits no longer: the administrator vouches for its user. They can sign in.
func (s *Service) SetEmail(ctx context.Context, r personal.SetEmailRequest) error {
	r = personal.AsTyped(r)
	var email Email
	if r.Email != "" {
		var code personal.FieldErrorCode
		if email, code = ParseEmail(r.Email); code != "" {
			return personal.FieldErrors{"email": code}.Err()
		}
	}
	err := s.store.SetEmail(ctx, r.UserID, email, func(before Account) ([]NewJob, error) {
		if email.Key == "" && before.LoginKey == before.Email.Key {
			return nil, personal.FieldErrors{"email": personal.FieldErrorRequired}.Err()
		}
		jobs := s.emailChanged(ctx, personal.ActorAdministrator, before)
		if email.Key != "" && s.verifies() {
			request := newMailRequest(ctx, personal.ActorAdministrator)
			request.Locale = cmp.Or(before.Locale, request.Locale)
			verification := jobOf(ctx, r.UserID, KindVerification, verificationJob{Time: s.store.Now(), mailRequest: request})
			verification.Replaces = true
			jobs = append(jobs, verification)
		}
		return jobs, nil
	})
	return s.committed(personal.CodeNotFound, "setting an e-mail", err)
}

// DisableUser implements [personal.Administration].
func (s *Service) DisableUser(ctx context.Context, id int64) error {
	return s.setDisabled(ctx, id, true, personal.EventUserDisabled)
}

// EnableUser implements [personal.Administration].
func (s *Service) EnableUser(ctx context.Context, id int64) error {
	return s.setDisabled(ctx, id, false, personal.EventUserEnabled)
}

func (s *Service) setDisabled(ctx context.Context, id int64, disabled bool, t personal.EventType) error {
	err := s.store.SetDisabled(ctx, id, disabled, s.event(ctx, personal.ActorAdministrator, t, id))
	return s.committed(personal.CodeNotFound, "disabling or enabling an account", err)
}

// UserSessions implements [personal.Administration].
func (s *Service) UserSessions(ctx context.Context, id int64) ([]personal.Session, error) {
	if err := s.mustExist(ctx, id); err != nil {
		return nil, err
	}
	return s.sessionsOf(ctx, id, 0)
}

// RevokeUserSessions implements [personal.Administration].
func (s *Service) RevokeUserSessions(ctx context.Context, id int64) error {
	if err := s.mustExist(ctx, id); err != nil {
		return err
	}
	err := s.store.RevokeSessions(ctx, id, true, s.event(ctx, personal.ActorAdministrator, personal.EventUserSignedOut, id))
	return s.committed(personal.CodeNotFound, "revoking an account's sessions", err)
}

// RevokeUserSession implements [personal.Administration].
func (s *Service) RevokeUserSession(ctx context.Context, r personal.RevokeUserSessionRequest) error {
	if err := s.mustExist(ctx, r.UserID); err != nil {
		return err
	}
	signedOut := s.event(ctx, personal.ActorAdministrator, personal.EventUserSignedOut, r.UserID)
	return fail("revoking a session", s.store.RevokeSession(ctx, r.UserID, parseID(r.ID), signedOut))
}

func (s *Service) mustExist(ctx context.Context, id int64) error {
	_, err := s.store.Account(ctx, id)
	return failWith(personal.CodeNotFound, "finding an account", err)
}

// DeleteUser implements [personal.Administration].
func (s *Service) DeleteUser(ctx context.Context, id int64) error {
	keys, err := s.requestKeys(ctx)
	if err != nil {
		return err
	}
	err = s.store.DeleteAccount(ctx, id, s.remains(keys), s.erased(ctx, personal.ActorAdministrator, id)...)
	return s.committed(personal.CodeNotFound, "deleting an account", err)
}

// remains returns a function that returns the payload that is left of a waiting job when the account is
// deleted, nil for none. Of an event it is what happened, which the host has not
// received yet; mails are dropped. A request for a mail to another account, or one that the keys do not
// open, is left as it is.
func (s *Service) remains(keys *seal.Keyring) func(Account, outbox.Job) []byte {
	return func(a Account, j outbox.Job) []byte {
		switch {
		case j.Kind == KindEvent:
			var e personal.Event
			if json.Unmarshal(j.Payload, &e) != nil {
				return nil
			}
			e.Address, e.RequestID = "", ""
			return newJob(KindEvent, e).Payload
		case j.AccountID == 0: // one of RequestKinds
			if r, err := readRequest(keys, j.Payload); err != nil || !s.names(r, a) {
				return j.Payload
			}
		}
		return nil
	}
}

// names reports whether a waiting request holds the account's login or e-mail, or the
// address that it waits for, whether or not the request would find the account by it.
func (s *Service) names(r recoveryJob, a Account) bool {
	for _, typed := range []string{r.Login, r.Email} {
		if email, code := ParseEmail(typed); code == "" && (email.Key == a.Email.Key || email.Key == a.LoginKey ||
			email.Key == a.Unverified.Key) {
			return true
		}
		if q := s.loginQuery(typed); q.LoginKey != "" && q.LoginKey == a.LoginKey {
			return true
		}
	}
	return false
}

// AuditEntries implements [personal.Administration].
func (s *Service) AuditEntries(ctx context.Context, r personal.AuditEntriesRequest) (personal.AuditPage, error) {
	r.Text = strings.TrimSpace(r.Text)
	limit := cmp.Or(r.Limit, personal.DefaultAuditLimit)
	var invalid personal.FieldErrors
	checkSearched(&invalid, "type", string(r.Type))
	checkSearched(&invalid, "text", r.Text)
	checkRange(&invalid, "user_id", r.UserID, 0)
	checkRange(&invalid, "after", r.After, 0)
	checkRange(&invalid, "limit", int64(limit), personal.MaxAuditLimit)
	if err := invalid.Err(); err != nil {
		return personal.AuditPage{}, err
	}
	r.Limit = limit + 1 // one more shows whether there is another page
	entries, err := s.store.AuditEntries(ctx, r)
	if err != nil {
		return personal.AuditPage{}, fail("reading the audit log", err)
	}
	if len(entries) <= limit {
		return personal.AuditPage{Entries: entries}, nil
	}
	return personal.AuditPage{Entries: entries[:limit], Next: entries[limit-1].Cursor}, nil
}
