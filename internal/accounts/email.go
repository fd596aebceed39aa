package accounts

import (
	"context"
	"errors"
	"maps"

	"github.com/cms-personal/personal/internal/mailtext"
	"github.com/cms-personal/personal/internal/throttle"
	"github.com/cms-personal/personal/shared/personal"
)

// EmailStore requests and confirms e-mail changes.
type EmailStore interface {
	// RequestEmail stores the jobs of an e-mail change and uses up the code. ErrStale if the
	// credential version has changed or the account is disabled; ErrCodeUsed; ErrProofVoid;
	// *TakenError if the new e-mail is another account's, which makes the
	// charges in the same transaction and leaves the code unused, or *WaitError if they
	// are refused.
	RequestEmail(ctx context.Context, accountID, credentialVersion int64, newEmailKey string, code CodeUse, jobs []NewJob,
		onTaken ...throttle.Charge) error
	// RedeemEmail uses up an e-mail token: it sets the account's e-mail as confirmed,
	// changes the login along if that is the old e-mail, voids every token and stores
	// the jobs. ErrNotFound if the token is void, expired or unknown by now, or the account
	// disabled; *TakenError if the address has been taken since, which does not use
	// up the token.
	RedeemEmail(ctx context.Context, digest [32]byte, jobs ...NewJob) error
}

// emailJob is a requested e-mail change.
type emailJob struct {
	From    string `json:"from"`    // the account's e-mail key at the time of the request, "" for none
	To      string `json:"to"`      // the new address
	Version int64  `json:"version"` // the account's credential version then: a new password voids the change
	mailRequest
}

// ChangeEmail implements [personal.Service].
func (s *Service) ChangeEmail(ctx context.Context, r personal.ChangeEmailRequest) error {
	r = personal.AsTyped(r)
	e := evidence{parameter: "password", password: r.Password, code: r.Code, proof: r.Proof}
	who, attempt, err := s.identifyGuess(ctx, r.Credentials, e.guess(), s.takenEmail(ctx, true))
	if err != nil {
		return err
	}
	invalid := maps.Clone(r.FieldErrors)
	email, wrong := ParseEmail(r.Email)
	check(&invalid, "email", wrong)
	requireCode(&invalid, who.account, e)
	guessed, err := s.confirmIdentity(ctx, who, &invalid, e)
	if err == nil {
		err = invalid.Err()
	}
	var code checkedCode
	if err == nil {
		code, err = s.confirmCode(ctx, who, attempt.address, e)
	}
	if err != nil {
		if !guessed {
			s.refund(ctx, attempt.charges)
		}
		return err
	}
	change := jobOf(ctx, who.account.ID, KindEmailChange, emailJob{
		From: who.account.Email.Key, To: email.Address, Version: who.account.CredentialVersion,
		mailRequest: newMailRequest(ctx, personal.ActorUser),
	})
	change.Replaces = true // a mistyped address may never accept its mail
	// A mail that could not be redeemed is not sent. Whether the address is still free
	// at confirmation, the database decides then.
	// Learning that an address is taken also costs a guess.
	onTaken := append(s.takenEmail(ctx, false), attempt.looked...)
	err = s.store.RequestEmail(ctx, who.account.ID, who.account.CredentialVersion, email.Key, code.use, append([]NewJob{change}, code.jobs...),
		onTaken...)
	if _, taken := errors.AsType[*TakenError](err); !taken {
		s.refund(ctx, attempt.charges)
	}
	return s.authorized(ctx, code, "requesting an e-mail change", err)
}

// sendEmailToken mails a token to the new address, unless the account's e-mail or
// password has changed since the request, or the address got too many of these mails.
func (s *Service) sendEmailToken(ctx context.Context, accountID int64, r emailJob) error {
	account, found, err := s.jobAccount(ctx, accountID)
	if err != nil || !found {
		return err
	}
	if account.Email.Key != r.From || account.CredentialVersion != r.Version {
		return nil
	}
	email, _ := ParseEmail(r.To)
	m := outgoingMail{kind: mailtext.EmailChange, request: r.mailRequest, accountID: accountID, to: email}
	return s.mailToken(ctx, m, s.settings.EmailURL, mailtext.Letter{Lifetime: s.settings.RecoveryLifetime}, MailToken{
		AccountID: accountID, Purpose: PurposeEmail, CredentialVersion: r.Version, AccountEmailKey: r.From, Email: email,
	})
}

// ConfirmEmail implements [personal.Service]. It takes the tokens of an e-mail change
// and of a verification.
func (s *Service) ConfirmEmail(ctx context.Context, r personal.ConfirmEmailRequest) (userID int64, err error) {
	r = personal.AsTyped(r)
	if err := s.chargeConfirmation(ctx); err != nil {
		return 0, err
	}
	invalid := maps.Clone(r.FieldErrors)
	delete(invalid, "login") // counts only for accounts that wait
	require(&invalid, "token", r.Token)
	if err := invalid.Err(); err != nil {
		return 0, err
	}
	digest, account, err := s.findMailToken(ctx, PurposeEmail, r.Token)
	if personal.CodeOf(err) == personal.CodeInvalidToken {
		return s.confirmVerification(ctx, r)
	}
	if err != nil {
		return 0, err
	}
	err = s.store.RedeemEmail(ctx, digest, s.emailChanged(ctx, personal.ActorUser, account)...)
	if err := s.committed(personal.CodeInvalidToken, "redeeming an e-mail token", err); err != nil {
		return 0, err
	}
	return account.ID, nil
}

// emailChanged are the jobs that follow a change: the event, and the notice to the
// old address, whose owner may not have made the change. Nothing else knows whether that
// was confirmed once the job runs.
func (s *Service) emailChanged(ctx context.Context, by personal.Actor, account Account) []NewJob {
	jobs := []NewJob{s.event(ctx, by, personal.EventEmailChanged, account.ID)}
	if account.Email.Key == "" {
		return jobs
	}
	return append(jobs, s.noticeJobs(ctx, by, account.ID, noticeJob{
		Kind: mailtext.EmailChanged, To: account.Email.Address, Confirmed: account.EmailVerified,
	})...)
}
