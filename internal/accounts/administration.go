package accounts

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/cms-personal/personal/shared/personal"
)

// FindUsers implements [personal.Administration].
func (s *Service) FindUsers(ctx context.Context, r personal.FindUsersRequest) (personal.UserPage, error) {
	q, err := search(r)
	if err != nil {
		return personal.UserPage{}, err
	}
	wanted := q.Most
	q.Most++ // one more tells whether there is another page
	found, err := s.store.SearchAccounts(ctx, q)
	if err != nil {
		return personal.UserPage{}, fail("searching accounts", err)
	}
	page := personal.UserPage{Users: make([]personal.User, 0, wanted)}
	for _, a := range found[:min(wanted, len(found))] {
		page.Users = append(page.Users, userOf(a))
	}
	if len(found) > wanted {
		page.Next = found[wanted-1].ID
	}
	return page, nil
}

// search reads a request. Logins and e-mails are looked for by their keys; an
// e-mail with a domain in Unicode has its A-label there.
func search(r personal.FindUsersRequest) (AccountSearch, error) {
	text := strings.TrimSpace(r.Search)
	q := AccountSearch{Text: text, Before: r.After, Most: r.Limit}
	var faults personal.FieldErrors
	checkSearched(&faults, "search", text)
	switch disabled := r.State == personal.UserDisabled; r.State {
	case "":
	case personal.UserActive, personal.UserDisabled:
		q.Disabled = &disabled
	default:
		faults.Add("state", personal.FieldErrorNotInList)
	}
	if r.After < 0 {
		faults.Add("after", personal.FieldErrorOutOfRange)
	}
	if q.Most == 0 {
		q.Most = personal.DefaultUserLimit
	}
	if q.Most < 0 || q.Most > personal.MaxUserLimit {
		faults.Add("limit", personal.FieldErrorOutOfRange)
	}
	q.Key = strings.ToLower(norm.NFC.String(text))
	if email, fault := ParseEmail(text); fault == "" {
		q.Key = email.Key
	}
	if id, err := strconv.ParseInt(text, 10, 64); err == nil {
		q.ID = id
	}
	return q, faults.Err()
}

// checkSearched adds the fault of a text that is searched for.
func checkSearched(faults *personal.FieldErrors, parameter, text string) {
	switch {
	case utf8.RuneCountInString(text) > personal.MaxSearchLength:
		faults.Add(parameter, personal.FieldErrorTooLong)
	case !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl):
		faults.Add(parameter, personal.FieldErrorInvalidFormat)
	}
}

func userOf(a SeenAccount) personal.User {
	return personal.User{
		ID:       a.ID,
		Login:    a.Login,
		Name:     a.Name,
		Email:    a.Email.Address,
		Disabled: a.Disabled,
		Created:  a.Created,
		Updated:  a.Updated,
		LastSeen: a.LastSeen,
	}
}

// User implements [personal.Administration].
func (s *Service) User(ctx context.Context, id int64) (personal.UserRecord, error) {
	schema, err := s.userFields(ctx)
	if err != nil {
		return personal.UserRecord{}, err
	}
	account, err := s.store.Account(ctx, id)
	if err != nil {
		return personal.UserRecord{}, nobody("finding an account", err)
	}
	return personal.UserRecord{User: userOf(account), Fields: schema.Record(account.Fields)}, nil
}

// UpdateUser implements [personal.Administration].
func (s *Service) UpdateUser(ctx context.Context, r personal.UpdateUserRequest) error {
	schema, err := s.userFields(ctx)
	if err != nil {
		return err
	}
	if len(schema.Malformed(r.Fields)) > 0 {
		return refusal(personal.CodeMalformedRequest)
	}
	change, err := s.change(r.Fields, schema.Administer)
	if err != nil {
		return err
	}
	if len(r.Fields) == 0 {
		return s.mustExist(ctx, r.UserID)
	}
	if _, err := s.store.UpdateProfile(ctx, r.UserID, change, s.event(ctx, personal.ActorAdministrator, personal.EventUserUpdated, r.UserID)); err != nil {
		return nobody("updating an account", err)
	}
	s.wake()
	return nil
}

// SetEmail implements [personal.Administration].
func (s *Service) SetEmail(ctx context.Context, r personal.SetEmailRequest) error {
	var email Email
	if r.Email != "" {
		var fault personal.FieldErrorCode
		if email, fault = ParseEmail(r.Email); fault != "" {
			return personal.FieldErrors{"email": fault}.Err()
		}
	}
	err := s.store.SetEmail(ctx, r.UserID, email, func(before Account) ([]NewJob, error) {
		if email.Key == "" && before.LoginKey == before.Email.Key {
			return nil, personal.FieldErrors{"email": personal.FieldErrorRequired}.Err()
		}
		return s.emailChanged(ctx, personal.ActorAdministrator, before), nil
	})
	var taken *TakenError
	if errors.As(err, &taken) {
		return alreadyExists(taken)
	}
	if err != nil {
		return nobody("setting an e-mail", err)
	}
	s.wake()
	return nil
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
	if err := s.store.SetDisabled(ctx, id, disabled, s.event(ctx, personal.ActorAdministrator, t, id)); err != nil {
		return nobody("disabling or enabling an account", err)
	}
	s.wake()
	return nil
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
	if err := s.store.EndSessions(ctx, id); err != nil {
		return fail("ending an account's sessions", err)
	}
	return nil
}

// AuditEntries implements [personal.Administration].
func (s *Service) AuditEntries(ctx context.Context, r personal.AuditEntriesRequest) (personal.AuditPage, error) {
	r.Text = strings.TrimSpace(r.Text)
	limit := cmp.Or(r.Limit, personal.DefaultAuditLimit)
	var faults personal.FieldErrors
	checkSearched(&faults, "type", string(r.Type))
	checkSearched(&faults, "text", r.Text)
	if r.UserID < 0 {
		faults.Add("user_id", personal.FieldErrorOutOfRange)
	}
	if r.After < 0 {
		faults.Add("after", personal.FieldErrorOutOfRange)
	}
	if limit < 0 || limit > personal.MaxAuditLimit {
		faults.Add("limit", personal.FieldErrorOutOfRange)
	}
	if err := faults.Err(); err != nil {
		return personal.AuditPage{}, err
	}
	r.Limit = limit + 1 // one more tells whether there is another page
	entries, err := s.store.AuditEntries(ctx, r)
	if err != nil {
		return personal.AuditPage{}, fail("reading the audit log", err)
	}
	if len(entries) <= limit {
		return personal.AuditPage{Entries: entries}, nil
	}
	return personal.AuditPage{Entries: entries[:limit], Next: entries[limit-1].Cursor}, nil
}

func (s *Service) mustExist(ctx context.Context, id int64) error {
	if _, err := s.store.Account(ctx, id); err != nil {
		return nobody("finding an account", err)
	}
	return nil
}

// nobody answers not_found for an id that is no account's.
func nobody(doing string, err error) error {
	if errors.Is(err, ErrNotFound) {
		return refusal(personal.CodeNotFound)
	}
	return fail(doing, err)
}
