package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/transfer"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personaladmin/texts"
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
		hidden := hiddenLimits(service, "looked at")
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
			if err := c.print(w, e, err, shellWord(c.User)+" --login", hidden); err != nil {
				return err
			}
			e, err = byID(two.ID)
			return c.print(w, e, err, c.User+" --id", hidden)
		case c.ID && err == nil:
			e, err := byID(found)
			return c.print(w, e, err, c.User+" --id", hidden)
		case errors.Is(err, accounts.ErrNotFound) && (c.ID || c.Login && isID(c.User)): // Explain would take an id
			return errNoAccount
		}
		e, err := byName() // which also finds an account that waits for its e-mail to be confirmed
		return c.print(w, e, err, shellWord(c.User), hidden)
	})
}

func isID(text string) bool {
	_, err := strconv.ParseInt(text, 10, 64)
	return err == nil
}

var errNoAccount = errors.New("there is no such account")

// print prints an explanation. The argument who names the user in commands, and hidden what was not looked at.
func (c explainCommand) print(w io.Writer, e personal.Explanation, err error, who, hidden string) error {
	if err != nil {
		return flagErrors(err)
	}
	if c.JSON {
		if err := writeJSON(w, explanationJSON(e, who, c.Address, hidden)); err != nil {
			return err
		}
		if e.User == nil {
			return errNoAccount
		}
		return nil
	}
	if e.User != nil && hidden != "" {
		defer fmt.Fprintln(w, hidden)
	}
	if e.User != nil {
		fmt.Fprintf(w, "Account %d (%q), %s\n", e.User.ID, e.User.Login, stateOf(*e.User))
	}
	shown := e.User
	if shown != nil {
		safe := *shown
		safe.Login, shown = printable(safe.Login), &safe
	}
	for _, v := range e.Verdicts {
		if _, err := fmt.Fprintf(w, "- %s\n", texts.Sentences(shown, v)); err != nil {
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
		if hidden := hiddenLimits(service, "lifted"); hidden != "" {
			return done(w, "The other limits of account %d (%q) are lifted. "+hidden+" Limits of an address, which all its users share, are not lifted.", a)
		}
		return done(w, "No limit of account %d (%q) holds any more. Limits of an address, which all its users share, are not lifted.", a)
	})
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
