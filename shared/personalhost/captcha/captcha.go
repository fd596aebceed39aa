// Package captcha has a provider tell people from programs, before they register, sign in, or
// have a mail sent. One line adds it to the admission and to the account pages:
//
//	captcha.Turnstile(siteKey, secret).Use(&host, &pages)
//
// The provider's server checks each token, which is valid once, and learns the visitor's address.
package captcha

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhost"
	"github.com/cms-personal/personal/shared/personalpages"
)

// Parameter is the transient parameter that has the token. Apps send it, too.
const Parameter = "captcha"

const (
	// maxToken bounds a token, in bytes. Those of providers have up to 4 KiB.
	maxToken = 8 << 10

	// reserve is what a check leaves of the time of a judgement, [personal.MaxJudgement], so that
	// FailOpen is a decision in time.
	reserve = 500 * time.Millisecond
	// minTime is what must be left for a check. A request that has waited longer for its turn is refused also with
	// FailOpen: the flood that it waited for must not open the door.
	minTime = 1500 * time.Millisecond
)

// Captcha is the captcha of one provider. Set its fields before the first call of a method. It is
// safe for concurrent use then.
type Captcha struct {
	// Operations are the judged operations that need a token; register/, auth/, recover/, email_resend/ and
	// code_begin/ if empty. A sign-in with a second factor needs one for each of its two steps.
	Operations []personal.OperationName

	// FailOpen admits requests with a token while the provider is out of reach, overloaded or
	// broken. Otherwise they are 503 unavailable. A token that is missing, wrong or used is
	// refused in either case, and so is all while the provider refuses the request itself.
	FailOpen bool

	// Hostnames are the hosts, without port, on whose pages a token may have been made; any host if
	// empty. Providers check that as well, unless their settings for the site say otherwise.
	Hostnames []string

	// Label is the text beside the widget, Missing and Wrong the field errors of a request without
	// a token and with one that is not valid. They have texts in all built-in languages.
	Label, Missing, Wrong personal.LocalText

	Client *http.Client // reaches the provider, without redirects; one with the usual transport if nil
	Log    *slog.Logger // gets why a token cannot be checked; [slog.Default] if nil

	provider        provider
	siteKey, secret string
}

func newCaptcha(p provider, siteKey, secret string) *Captcha {
	return &Captcha{
		provider: p, siteKey: strings.TrimSpace(siteKey), secret: strings.TrimSpace(secret),
		Label: personal.LocalText{
			"en":    "Check that you are human",
			"ru":    "Проверка, что вы человек",
			"de":    "Prüfung, ob Sie ein Mensch sind",
			"es":    "Demuestre que es una persona",
			"fr":    "Vérification anti-robot",
			"pt-BR": "Confirme que você é uma pessoa",
			"uk":    "Перевірка, що ви людина",
		},
		Missing: personal.LocalText{
			"en":    "Do this check first. It needs scripts.",
			"ru":    "Сначала пройдите эту проверку. Для неё нужны скрипты.",
			"de":    "Führen Sie zuerst diese Prüfung durch. Sie benötigt Skripte.",
			"es":    "Haga antes esta comprobación. Necesita JavaScript.",
			"fr":    "Faites d’abord cette vérification. Elle a besoin de scripts.",
			"pt-BR": "Faça primeiro esta verificação. Ela precisa de scripts.",
			"uk":    "Спочатку пройдіть цю перевірку. Для неї потрібні скрипти.",
		},
		Wrong: personal.LocalText{
			"en":    "The check was not successful, or has expired. Do it again.",
			"ru":    "Проверка не пройдена или устарела. Пройдите её ещё раз.",
			"de":    "Die Prüfung war nicht erfolgreich oder ist abgelaufen. Führen Sie sie noch einmal durch.",
			"es":    "La comprobación no se ha superado o ha caducado. Hágala de nuevo.",
			"fr":    "La vérification n’a pas réussi ou a expiré. Recommencez.",
			"pt-BR": "A verificação não deu certo ou expirou. Faça-a de novo.",
			"uk":    "Перевірка не вдалася або застаріла. Пройдіть її ще раз.",
		},
	}
}

// Use adds the captcha to the admission of a host, in front of the one that it has, and to the
// account pages, which may be nil. Call it when the host's Admission is set, and before Open.
func (c *Captcha) Use(host *personalhost.Config, pages *personalpages.Config) {
	var admission personal.Admission
	if host.Admission != nil {
		admission = *host.Admission
	}
	next := admission.Judge
	admission.Judge = func(ctx context.Context, r personal.AdmissionRequest) error {
		if err := c.Judge(ctx, r); err != nil || next == nil {
			return err
		}
		return next(ctx, r)
	}
	host.Admission = &admission
	host.API.Transient = append(slices.Clone(host.API.Transient), Parameter)
	if pages != nil {
		pages.Inputs = append(slices.Clone(pages.Inputs), c.Input())
	}
}

// Input returns the widget for the account pages.
func (c *Captcha) Input() personalpages.Input {
	return personalpages.Input{
		Name: Parameter, Kind: personalpages.InputWidget, Required: true, Operations: c.operations(), Label: c.Label,
		HTML: c.provider.widget(c.siteKey), Script: c.provider.script, SentAs: c.provider.sentAs, Sources: c.provider.sources,
	}
}

func (c *Captcha) operations() []personal.OperationName {
	if len(c.Operations) > 0 {
		return c.Operations
	}
	return []personal.OperationName{personal.OpRegister, personal.OpAuthorize, personal.OpRecover, personal.OpResendVerification,
		personal.OpBeginMailedCode}
}

// Judge decides on one request, for a [personal.Admission]. Its errors are
//   - a [*personal.AdmissionError] of [Parameter]: required without a token, mismatch with one that
//     is not valid;
//   - any other error: the provider has not decided.
//
// Requests of administrators need no token.
func (c *Captcha) Judge(ctx context.Context, r personal.AdmissionRequest) error {
	if !slices.Contains(c.operations(), r.Operation) || personal.CallFrom(ctx).Administrator != "" {
		return nil
	}
	token := personal.TransientFrom(ctx)[Parameter]
	switch {
	case token == "":
		return refuse(personal.FieldErrorRequired, c.Missing)
	case len(token) > maxToken:
		return refuse(personal.FieldErrorMismatch, c.Wrong)
	}
	host, err := c.check(ctx, token)
	switch down := (*downError)(nil); {
	case errors.Is(err, errWrong):
		return refuse(personal.FieldErrorMismatch, c.Wrong)
	case errors.As(err, &down) && c.FailOpen && ctx.Err() == nil:
		c.log().WarnContext(ctx, "captcha not checked: the request is admitted", "provider", c.provider.name, "error", err)
		return nil
	case err != nil:
		c.log().ErrorContext(ctx, "captcha not checked: the request is refused", "provider", c.provider.name, "error", err)
		return fmt.Errorf("checking a captcha: %w", err)
	}
	if len(c.Hostnames) > 0 && !slices.ContainsFunc(c.Hostnames, func(own string) bool { return strings.EqualFold(own, host) }) {
		c.log().WarnContext(ctx, "captcha refused: its token was made on another host, which Hostnames does not have",
			"provider", c.provider.name, "hostname", host)
		return refuse(personal.FieldErrorMismatch, c.Wrong)
	}
	return nil
}

func refuse(code personal.FieldErrorCode, text personal.LocalText) error {
	return &personal.AdmissionError{FieldErrors: map[string]personal.AdmissionFieldError{Parameter: {Code: code, Text: text}}}
}

func (c *Captcha) log() *slog.Logger { return cmp.Or(c.Log, slog.Default()) }
