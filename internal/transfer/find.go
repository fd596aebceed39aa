package transfer

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/shared/personal"
)

// AccountSource finds accounts.
type AccountSource interface {
	FindAccount(ctx context.Context, q accounts.AccountQuery) (accounts.Account, error)
	Account(ctx context.Context, id int64) (accounts.Account, error)
}

// Query names an account.
type Query struct {
	Text string // a login, an e-mail or an id
	ID   bool   // Text is an id
	Name bool   // Text is a login or an e-mail
}

// AmbiguousError says that a text is the login of one account and the id of another one.
type AmbiguousError struct {
	Text string
	Name accounts.Account // has the login
	ID   accounts.Account // has the id
}

// Error names both accounts.
func (e *AmbiguousError) Error() string {
	return fmt.Sprintf("%q is the login of account %d, and the id of account %d (%q)", e.Text, e.Name.ID, e.ID.ID, e.ID.Login)
}

// FindAccount finds an account by a text with an @ as its e-mail, or else as its login, or by
// a number as its login or its id, unless the query says which of the two it is. The error is
// accounts.ErrNotFound if there is none, and an [*AmbiguousError] if the text fits two: visitors
// choose their logins, and may choose another user's id.
func FindAccount(ctx context.Context, from AccountSource, q Query) (accounts.Account, error) {
	q.Text = personal.Typed(q.Text)
	named, nameErr := accounts.Account{}, accounts.ErrNotFound
	if !q.ID {
		named, nameErr = findNamed(ctx, from, q.Text)
	}
	id, notID := strconv.ParseInt(q.Text, 10, 64)
	if q.Name || notID != nil || nameErr != nil && !errors.Is(nameErr, accounts.ErrNotFound) || nameErr == nil && named.ID == id {
		return named, nameErr
	}
	numbered, err := from.Account(ctx, id)
	switch {
	case nameErr != nil: // no login
		return numbered, err
	case errors.Is(err, accounts.ErrNotFound):
		return named, nil
	case err != nil:
		return accounts.Account{}, err
	}
	return accounts.Account{}, &AmbiguousError{q.Text, named, numbered}
}

// findNamed finds an account by its e-mail or its login.
func findNamed(ctx context.Context, from AccountSource, text string) (accounts.Account, error) {
	login := text // a login with an @ that is not its account's e-mail has no key of its own
	if key, code := accounts.LoginKey(text); code == "" {
		login = key
	}
	a, err := accounts.Account{}, accounts.ErrNotFound
	if email, code := accounts.ParseEmail(text); code == "" {
		login = email.Key
		a, err = from.FindAccount(ctx, accounts.AccountQuery{EmailKey: email.Key})
	}
	if errors.Is(err, accounts.ErrNotFound) {
		a, err = from.FindAccount(ctx, accounts.AccountQuery{LoginKey: login})
	}
	if err != nil {
		return accounts.Account{}, err
	}
	return from.Account(ctx, a.ID)
}
