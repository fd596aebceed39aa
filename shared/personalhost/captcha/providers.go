package captcha

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/cms-personal/personal/shared/personal"
)

// provider is what differs between providers: their server's protocol and their widget.
type provider struct {
	name   string
	verify string // URL of the check

	tokenKey, addressKey string // parameters of the check, beside secret

	class  string // of the widget's element
	script string
	sentAs string // the value that the widget adds to its form

	sources map[string][]string
}

// Turnstile is the captcha of Cloudflare, with the keys of its widget. The mode of the widget is
// chosen at Cloudflare.
func Turnstile(siteKey, secret string) *Captcha {
	const host = "https://challenges.cloudflare.com"
	return newCaptcha(provider{
		name: "turnstile", verify: host + "/turnstile/v0/siteverify", tokenKey: "response", addressKey: "remoteip",
		class: "cf-turnstile", script: host + "/turnstile/v0/api.js", sentAs: "cf-turnstile-response",
		sources: map[string][]string{"script-src": {host}, "frame-src": {host}},
	}, siteKey, secret)
}

// HCaptcha is the captcha of hcaptcha.com, with the site key and the secret of the account.
func HCaptcha(siteKey, secret string) *Captcha {
	hosts := []string{"https://hcaptcha.com", "https://*.hcaptcha.com"}
	return newCaptcha(provider{
		name: "hcaptcha", verify: "https://api.hcaptcha.com/siteverify", tokenKey: "response", addressKey: "remoteip",
		class: "h-captcha", script: "https://js.hcaptcha.com/1/api.js", sentAs: "h-captcha-response",
		sources: map[string][]string{"script-src": hosts, "frame-src": hosts, "style-src": hosts, "connect-src": hosts},
	}, siteKey, secret)
}

// ReCaptcha is version 2 of Google's reCAPTCHA, with its checkbox.
func ReCaptcha(siteKey, secret string) *Captcha {
	return newCaptcha(provider{
		name: "recaptcha", verify: "https://www.google.com/recaptcha/api/siteverify", tokenKey: "response", addressKey: "remoteip",
		class: "g-recaptcha", script: "https://www.google.com/recaptcha/api.js", sentAs: "g-recaptcha-response",
		sources: map[string][]string{
			"script-src":  {"https://www.google.com/recaptcha/", "https://www.gstatic.com/recaptcha/"},
			"frame-src":   {"https://www.google.com/recaptcha/", "https://recaptcha.google.com/recaptcha/"},
			"connect-src": {"https://www.google.com/recaptcha/"},
		},
	}, siteKey, secret)
}

// SmartCaptcha is the captcha of Yandex Cloud, with its client key and its server key.
func SmartCaptcha(clientKey, serverKey string) *Captcha {
	const host = "https://smartcaptcha.cloud.yandex.ru"
	hosts := []string{host, "https://smartcaptcha.yandexcloud.net"}
	return newCaptcha(provider{
		name: "smartcaptcha", verify: host + "/validate", tokenKey: "token", addressKey: "ip",
		class: "smart-captcha", script: host + "/captcha.js", sentAs: "smart-token",
		sources: map[string][]string{"script-src": hosts, "frame-src": hosts, "style-src": hosts, "connect-src": hosts, "img-src": hosts},
	}, clientKey, serverKey)
}

func (p provider) widget(siteKey string) template.HTML {
	return template.HTML(fmt.Sprintf(`<div class="%s" data-sitekey="%s"></div>`, p.class, template.HTMLEscapeString(siteKey)))
}

// errWrong is the error of a token that the provider refuses.
var errWrong = errors.New("the token is not valid")

// downError is the error of a provider that gives no result. What visitors send does not cause it.
type downError struct{ error }

func (e *downError) Unwrap() error { return e.error }

// maxResult bounds the response of a provider, in bytes.
const maxResult = 64 << 10

// result is the response of a provider.
type result struct {
	Success  *bool    `json:"success"`
	Hostname string   `json:"hostname"`
	Errors   []string `json:"error-codes"`

	Status  string `json:"status"` // of SmartCaptcha, in place of Success
	Host    string `json:"host"`   // in place of Hostname, with a port
	Message string `json:"message"`
}

// check returns the host on whose page the token was made, in the words of the provider. No error
// contains the token or the secret.
func (c *Captcha) check(ctx context.Context, token string) (hostname string, err error) {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(personal.MaxJudgement)
	}
	if time.Until(deadline) < minTime {
		return "", errors.New("the request has waited too long for its turn")
	}
	ctx, cancel := context.WithDeadline(ctx, deadline.Add(-reserve))
	defer cancel()
	form := url.Values{"secret": {c.secret}, c.provider.tokenKey: {token}}
	if address := personal.CallFrom(ctx).Address; address.IsValid() {
		form.Set(c.provider.addressKey, address.WithZone("").String())
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.provider.verify, strings.NewReader(form.Encode()))
	if err != nil {
		return "", err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Accept", "application/json")
	response, err := c.client().Do(request)
	if err != nil {
		return "", &downError{err}
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, maxResult+1))
	if err != nil {
		return "", &downError{fmt.Errorf("reading the response: %w", err)}
	}
	return c.resultOf(response.StatusCode, data)
}

// client does not follow redirects, which would send the secret elsewhere.
func (c *Captcha) client() *http.Client {
	client := http.Client{}
	if c.Client != nil {
		client = *c.Client
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &client
}

func (c *Captcha) resultOf(status int, data []byte) (hostname string, err error) {
	var r result
	decoded := len(data) <= maxResult && json.NewDecoder(bytes.NewReader(data)).Decode(&r) == nil && (r.Success != nil || r.Status != "")
	refused := status >= 400 && status < 500 // such as for a key that does not exist, or by a flood of visitors
	switch {
	case refused && !decoded:
		return "", fmt.Errorf("the provider refuses the request with status %d: check the keys", status)
	case !refused && status != http.StatusOK:
		return "", &downError{fmt.Errorf("the provider responds with status %d", status)}
	case !decoded:
		return "", &downError{fmt.Errorf("the provider's response of %d bytes or more is not a result", min(len(data), maxResult))}
	case r.Success != nil && *r.Success && status == http.StatusOK:
		return r.Hostname, nil
	case r.Status == "ok" && status == http.StatusOK:
		if host, _, err := net.SplitHostPort(r.Host); err == nil {
			return host, nil
		}
		return r.Host, nil
	case slices.ContainsFunc(r.Errors, func(code string) bool {
		return strings.Contains(code, "input-secret") || strings.Contains(code, "sitekey-secret")
	}),
		strings.Contains(strings.ToLower(r.Message), "secret"):
		return "", errors.New("the provider does not accept the secret: check the keys")
	case slices.Contains(r.Errors, "internal-error"):
		return "", &downError{errors.New("the provider has an internal error")}
	}
	return "", errWrong
}
