// Package admission has the examples of docs/admission.md.
package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"github.com/cms-personal/personal/shared/personal"
)

// Captcha has a provider check the token that the widget of a form sends as the parameter
// captcha.
type Captcha struct {
	URL    string // of the provider's check
	Secret string
	Log    *slog.Logger
}

// Judge asks the provider. It leaves sign-ins to the rate limits of the module, to keys and to
// providers, and changes of the e-mail to the password.
func (c *Captcha) Judge(ctx context.Context, r personal.AdmissionRequest) error {
	switch r.Operation {
	case personal.OpAuthorize, personal.OpAuthorizePasskey, personal.OpSignIn, personal.OpChangeEmail:
		return nil
	}
	token := personal.TransientFrom(ctx)["captcha"]
	if token == "" {
		return personal.FieldErrors{"captcha": personal.FieldErrorRequired}.Err()
	}
	human, err := c.check(ctx, token)
	switch {
	case err != nil: // 503
		c.Log.WarnContext(ctx, "the captcha cannot be checked", "error", err)
		return err
	case !human:
		return personal.FieldErrors{"captcha": personal.FieldErrorMismatch}.Err()
	}
	return nil
}

// check ends with the context, 3 s after the request has come. Its errors do not contain
// the form.
func (c *Captcha) check(ctx context.Context, token string) (human bool, err error) {
	form := url.Values{"secret": {c.Secret}, "response": {token}}
	if address := personal.CallFrom(ctx).Address; address.IsValid() {
		form.Set("remoteip", address.String())
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL, strings.NewReader(form.Encode()))
	if err != nil {
		return false, err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return false, fmt.Errorf("the provider responds with %s", response.Status)
	}
	var result struct {
		Success bool `json:"success"`
	}
	err = json.NewDecoder(io.LimitReader(response.Body, 64<<10)).Decode(&result)
	return result.Success, err
}
