package accounts

import (
	"cmp"
	"context"

	"golang.org/x/text/language"

	"github.com/cms-personal/personal/internal/mailtext"
	"github.com/cms-personal/personal/internal/password"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/userfields"
)

// CreateUser implements [personal.Administration]. Without a host, as in a command, there
// are no user fields: only "name" can be set, and no default applies.
func (s *Service) CreateUser(ctx context.Context, r personal.CreateUserRequest) (int64, error) {
	r = personal.AsTyped(r)
	schema, err := s.knownFields(ctx)
	if err != nil {
		return 0, err
	}
	if err := schema.Check(r.Fields); err != nil {
		return 0, err
	}
	account, err := createdAccount(ctx, r, schema)
	if err != nil {
		return 0, err
	}
	account.Created = s.store.Now()
	account.Updated = account.Created
	id, err := s.store.CreateWithoutSession(ctx, account, func(id int64) []NewJob { return s.created(ctx, id, account, r.Invite) })
	return id, s.committed(personal.CodeInternal, "creating an account", err)
}

// createdAccount checks the request and returns the new account. No password matches it.
func createdAccount(ctx context.Context, r personal.CreateUserRequest, schema *userfields.Schema) (account Account, err error) {
	var invalid personal.FieldErrors
	account = Account{Login: r.Login, CredentialVersion: 1, PasswordHash: password.Unusable, Locale: mailLocale(ctx)}
	var code personal.FieldErrorCode
	account.LoginKey, code = LoginKey(r.Login)
	check(&invalid, "login", code)
	if r.Email != "" || r.Invite {
		account.Email, code = ParseEmail(r.Email)
		check(&invalid, "email", code)
	}
	if r.Locale != "" {
		if _, err := language.Parse(r.Locale); err != nil || len(r.Locale) > MaxLanguages {
			invalid.Add("locale", personal.FieldErrorInvalidFormat)
		}
		account.Locale = r.Locale
	}
	fields := schema.Clean(r.Fields, nil, nil, &invalid)
	account.Name = userfields.ParseName(fields["name"], &invalid)
	delete(fields, "name")
	account.Fields = schema.Create(fields, &invalid)
	return account, invalid.Err()
}

// created are the jobs that follow the creation of an account by an administrator.
func (s *Service) created(ctx context.Context, id int64, a Account, invite bool) []NewJob {
	jobs := []NewJob{s.event(ctx, personal.ActorAdministrator, personal.EventUserCreated, id)}
	if invite {
		jobs = append(jobs, s.event(ctx, personal.ActorAdministrator, personal.EventUserInvited, id),
			jobOf(ctx, id, KindInvitation, invitationJob{Version: a.CredentialVersion, EmailKey: a.Email.Key,
				mailRequest: newMailRequest(ctx, personal.ActorAdministrator)}))
	}
	return jobs
}

// invitationJob is a mail that lets a user choose a password whom an administrator has created, or
// whose access they have reset.
type invitationJob struct {
	Kind     mailtext.Kind `json:"kind,omitempty"` // mailtext.Recovery: their access was reset; "": an invitation
	Version  int64         `json:"version"`        // the account's credential version when an administrator invited the user
	EmailKey string        `json:"email_key"`      // of the address that they are invited at
	mailRequest
}

// sendInvitation mails a recovery token that is valid for longer than others, unless the
// account's password or address has changed since.
func (s *Service) sendInvitation(ctx context.Context, accountID int64, r invitationJob) error {
	account, found, err := s.jobAccount(ctx, accountID)
	if err != nil || !found {
		return err
	}
	if account.Disabled || account.CredentialVersion != r.Version || account.Email.Key != r.EmailKey {
		return nil
	}
	r.Locale = cmp.Or(account.Locale, r.Locale)
	letter := mailtext.Letter{Lifetime: s.settings.InvitationLifetime, Reset: r.Kind != ""}
	m := outgoingMail{kind: cmp.Or(r.Kind, mailtext.Invitation), request: r.mailRequest, accountID: accountID, to: account.Email}
	return s.mailToken(ctx, m, s.settings.RecoveryURL, letter, MailToken{
		AccountID: accountID, Purpose: PurposeRecovery, CredentialVersion: r.Version, AccountEmailKey: r.EmailKey,
	})
}
