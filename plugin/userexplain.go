package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/transfer"
	"github.com/cms-personal/personal/shared/personal"
)

type explainCommand struct {
	serviceFlags
	queryFlags
	User    string       `arg:"" name:"login-or-id" help:"The login, the e-mail or the id that the user enters."`
	Address []netip.Addr `placeholder:"IP" help:"An IP address of the user, besides those that are known; repeated, or separated by commas."`
	jsonFlag
}

// Help says what is missing here.
func (explainCommand) Help() string {
	return `The first sentence is the one that decides. Give the settings file of the plugin, because limits follow from it. This command cannot know
whether the secret key of a second factor is missing, or which user fields the site requires: the admin pages of the host can.`
}

// Run prints the verdicts on a login. An unknown one is an error as well. A text that is the
// login of one user and the id of another one gets the verdicts on both.
func (c explainCommand) Run(ctx context.Context, w io.Writer) error {
	return c.use(ctx, nil, func(ctx context.Context, service *accounts.Service, db *store.Store) error {
		byName := func() (personal.Explanation, error) {
			return service.Explain(ctx, personal.ExplainRequest{Login: c.User, Addresses: c.Address})
		}
		byID := func(a accounts.Account) (personal.Explanation, error) {
			return service.ExplainAccount(ctx, a.ID, c.Address)
		}
		found, err := transfer.FindAccount(ctx, db, c.query(c.User))
		var two *transfer.AmbiguousError
		switch {
		case errors.As(err, &two):
			e, err := byName()
			if err := c.print(w, e, err, shellWord(c.User)+" --login"); err != nil {
				return err
			}
			e, err = byID(two.ID)
			return c.print(w, e, err, c.User+" --id")
		case c.ID && err == nil:
			e, err := byID(found)
			return c.print(w, e, err, c.User+" --id")
		case errors.Is(err, accounts.ErrNotFound) && (c.ID || c.Login && isID(c.User)): // Explain would take an id
			return errNoAccount
		}
		e, err := byName() // which also finds an account that waits for its e-mail to be confirmed
		return c.print(w, e, err, shellWord(c.User))
	})
}

func isID(text string) bool {
	_, err := strconv.ParseInt(text, 10, 64)
	return err == nil
}

var errNoAccount = errors.New("there is no such account")

// print prints an explanation. The argument who names the user in commands.
func (c explainCommand) print(w io.Writer, e personal.Explanation, err error, who string) error {
	if err != nil {
		return flagErrors(err)
	}
	if c.JSON {
		if err := writeJSON(w, explanationJSON(e, who, c.Address)); err != nil {
			return err
		}
		if e.User == nil {
			return errNoAccount
		}
		return nil
	}
	if e.User != nil {
		fmt.Fprintf(w, "Account %d (%q), %s\n", e.User.ID, e.User.Login, stateOf(*e.User))
	}
	for _, v := range e.Verdicts {
		if _, err := fmt.Fprintf(w, "- %s\n", sentence(v)); err != nil {
			return err
		}
		if help := helps(v.Action, who, c.Address); help != "" {
			fmt.Fprintf(w, "  %s\n", help)
		}
	}
	if e.User == nil {
		return errNoAccount
	}
	return nil
}

type liftLimitsCommand struct {
	userFlags
	Address []netip.Addr `placeholder:"IP" help:"An IP address of the user, besides those that are known; repeated, or separated by commas."`
}

// Run lifts the limits of a user.
func (c liftLimitsCommand) Run(ctx context.Context, w io.Writer) error {
	return c.change(ctx, func(ctx context.Context, service *accounts.Service, a accounts.Account) error {
		if err := service.LiftLimits(ctx, personal.LiftLimitsRequest{UserID: a.ID, Addresses: c.Address}); err != nil {
			return err
		}
		return done(w, "No limit of account %d (%q) holds any more. Limits of an address, which all its users share, are not lifted.", a)
	})
}

// sentence puts a verdict into words.
func sentence(v personal.Verdict) string {
	at := "from " + cmp.Or(v.Address, "everywhere")
	until := func() string { return v.Until.Format(time.RFC3339) }
	since := func() string { return v.Since.Format(time.RFC3339) }
	switch v.Reason {
	case personal.ReasonNoAccount:
		return "No account has this login, e-mail or id."
	case personal.ReasonEmailSignInOff:
		return "The site accepts only logins: no one signs in with an e-mail (login.with_email)."
	case personal.ReasonLoginNotEmail:
		return "The login contains an @ and is not the e-mail of the account: no one can sign in with it."
	case personal.ReasonDisabled:
		return "An administrator has disabled the account."
	case personal.ReasonDeleted:
		return "The user has deleted the account. It is erased at " + until() + "."
	case personal.ReasonUnverified:
		return "The user must confirm the e-mail first. Without that the account is erased at " + until() + "."
	case personal.ReasonNoPassword:
		return "The account has no password yet."
	case personal.ReasonIdentities:
		return fmt.Sprintf("The account has no password: the user signs in with another service (%d identities).", v.Count)
	case personal.ReasonIdentitiesVoid:
		return fmt.Sprintf("%d identities must be linked again, after a sign-in with the password: an older version has changed the account.",
			v.Count)
	case personal.ReasonNoEmail:
		return "The account has no e-mail, so no mail reaches the user."
	case personal.ReasonLimit:
		return fmt.Sprintf("Too many attempts: the limit %s of the account holds %s until %s.", v.Limit, at, until())
	case personal.ReasonAddressLimit:
		return fmt.Sprintf("Too many attempts of all users at an address: the limit %s holds %s until %s.", v.Limit, at, until())
	case personal.ReasonMailLimit:
		where := ""
		if v.Address != "" {
			where = " in the network " + v.Address
		}
		return fmt.Sprintf("Too many mails to the address: the next of the kind %s that is asked for%s can be sent at %s.", v.Kind, where,
			until())
	case personal.ReasonCodesBlocked:
		return "Too many codes were refused: away from addresses where the user has signed in since password, e-mail or second factor last changed, only recovery codes are accepted until " + until() + "."
	case personal.ReasonTwoFactor:
		return fmt.Sprintf("The account has a second factor: the user needs a code of their app, or one of %d recovery codes.", v.Count)
	case personal.ReasonTwoFactorKey:
		return "The secret key of the second factor is missing: codes of the app are refused."
	case personal.ReasonPasskeys:
		return fmt.Sprintf("Passkeys that sign the user in without the password: %d.", v.Count)
	case personal.ReasonPasskeysVoid:
		return fmt.Sprintf("Passkeys that sign the user in only after they have proved who they are, because an older version has changed the credentials: %d.", v.Count)
	case personal.ReasonMailWaiting:
		return fmt.Sprintf("A mail (%s) has been waiting since %s; %d attempts so far, the next at %s.", v.Kind, since(), v.Count, until())
	case personal.ReasonMailRefused:
		return fmt.Sprintf("The mail relay refused a mail (%s) at %s: %q", v.Kind, since(), v.Reply)
	case personal.ReasonFailed:
		from := ""
		if v.Address != "" {
			from = " " + at
		}
		return fmt.Sprintf("Failed sign-ins since the last success, within a day: %d or more, the last one at %s%s.", v.Count, since(), from)
	case personal.ReasonMissingFields:
		return fmt.Sprintf("%d user fields need a value, which the site may ask for.", v.Count)
	case personal.ReasonNothing:
		return "Nothing prevents the user from signing in. If they forgot the password, send a recovery mail."
	}
	return string(v.Reason)
}

// helps says how to do an action that was found with some addresses; "" if there is none. The
// argument who names the user in a command.
func helps(a personal.Action, who string, addresses []netip.Addr) string {
	command := func(verb string) string { return "personal user " + verb + " " + who }
	switch a {
	case personal.ActionCreate:
		return command("create") + " --email ADDRESS --invite"
	case personal.ActionEnable:
		return command("enable")
	case personal.ActionVerify:
		return "The user requests another mail on the site (email_resend/), or you do so on the page of the host."
	case personal.ActionRecover:
		return command("recover")
	case personal.ActionSetEmail:
		return "Set an e-mail on the admin page of the user."
	case personal.ActionLiftLimits:
		lift := command("lift-limits")
		for _, address := range addresses {
			lift += " --address " + address.String()
		}
		return lift
	case personal.ActionRemoveTwoFactor:
		return "If the user has lost it, and it is certain that they ask: " + command("remove-two-factor")
	case personal.ActionOperator:
		return "The operator of the site must correct its configuration: docs/two-factor.md"
	}
	return string(a)
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9._@+][A-Za-z0-9._@+-]*$`)

// shellWord quotes a text for a POSIX shell if it needs that: administrators paste the
// commands, and visitors choose their logins.
func shellWord(text string) string {
	if plainWord.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
