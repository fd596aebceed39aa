package personalhttp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/personalhttp"
)

// failing is a service that returns an error for GET fields/.
func failing(err error) *personaltest.Service {
	s := everything()
	s.FieldsFunc = func(context.Context) ([]personal.Field, error) { return nil, err }
	return s
}

// The name of a passkey has another limit than that of a user.
func TestErrors_NameThatIsTooLongTellsTheLimitOfItsOperation(t *testing.T) {
	h, err := personalhttp.New(everything(), personalhttp.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for _, locale := range []string{"en", "ru"} {
		for path, limit := range map[string]string{
			prefix + "passkeys_add_confirm/": "64", prefix + "passkeys_rename/": "64", prefix + "profile/": "200", "/account/profile": "200",
		} {
			r := httptest.NewRequestWithContext(personal.WithCall(t.Context(), personal.Call{Languages: locale}), http.MethodPost, path, nil)
			x := h.ErrorResponse(r, personal.FieldErrors{"name": personal.FieldErrorTooLong}.Err())
			if got := x.FieldErrors["name"].Message; !strings.Contains(got, limit) {
				t.Errorf("%s in %s: got %q, want the limit %s", path, locale, got, limit)
			}
		}
	}
}

func TestErrors_StatusOfServiceErrors(t *testing.T) {
	var none *personal.Error
	for _, c := range []struct {
		name   string
		err    error
		status int
		code   personal.Code
	}{
		{"malformed_request", personal.NewError("malformed_request", nil), 400, "malformed_request"},
		{"invalid_credentials", personal.NewError("invalid_credentials", nil), 401, "invalid_credentials"},
		{"unauthenticated", personal.NewError("unauthenticated", nil), 401, "unauthenticated"},
		{"account_disabled", personal.NewError("account_disabled", nil), 403, "account_disabled"},
		{"not_found", personal.NewError("not_found", nil), 404, "not_found"},
		{"already_exists", &personal.Error{Code: "already_exists", FieldErrors: personal.FieldErrors{"login": "taken"}}, 409, "already_exists"},
		{"validation_failed", personal.FieldErrors{"login": "required"}.Err(), 422, "validation_failed"},
		{"invalid_token", personal.NewError("invalid_token", nil), 422, "invalid_token"},
		{"too_many_attempts", personal.NewError("too_many_attempts", nil), 429, "too_many_attempts"},
		{"internal", personal.NewError("internal", nil), 500, "internal"},
		{"unavailable", personal.NewError("unavailable", nil), 503, "unavailable"},
		{"wrapped error", fmt.Errorf("calling: %w", personal.NewError("unauthenticated", nil)), 401, "unauthenticated"},
		{"other error", errors.New("secret cause"), 500, "internal"},
		{"unknown code", personal.NewError("teapot", nil), 500, "internal"},
		{"nil *personal.Error", none, 500, "internal"},
		{"deadline", fmt.Errorf("calling: %w", context.DeadlineExceeded), 503, "unavailable"},
		{"deadline as the cause of an internal error", personal.NewError("internal", context.DeadlineExceeded), 503, "unavailable"},
		{"deadline as the cause of a denial", personal.NewError("unauthenticated", context.DeadlineExceeded), 401, "unauthenticated"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newSite(t, failing(c.err), personalhttp.Options{}).do("GET", prefix+"fields", "", "")
			a.want(t, c.status, c.code)
			if strings.Contains(a.Body, "secret") {
				t.Errorf("got the cause in the response: %s", a.Body)
			}
			always := newSite(t, failing(c.err), personalhttp.Options{AlwaysOK: true}).do("GET", prefix+"fields", "", "")
			if always.want(t, 200, c.code); always.Body != a.Body {
				t.Errorf("always 200: got %s\nwant %s", always.Body, a.Body)
			}
		})
	}
}

func TestAlwaysOK_KeepsOtherHeaders(t *testing.T) {
	a := newSite(t, noService(), personalhttp.Options{AlwaysOK: true}).do("PUT", prefix+"profile", "", "")
	a.want(t, 200, personal.CodeMethodNotAllowed)
	if a.Header.Get("Allow") != "GET, POST" {
		t.Errorf("got Allow %q, want %q", a.Header.Get("Allow"), "GET, POST")
	}
}

func TestRetryAfter_WholeSeconds(t *testing.T) {
	for _, c := range []struct {
		code     personal.Code
		after    time.Duration
		min, max int
	}{
		{personal.CodeTooManyAttempts, 90 * time.Second, 90, 90},
		{personal.CodeTooManyAttempts, 1500 * time.Millisecond, 2, 2},
		{personal.CodeTooManyAttempts, time.Nanosecond, 1, 1},
		{personal.CodeTooManyAttempts, 0, 1, 1},
		{personal.CodeTooManyAttempts, -time.Second, 1, 1},
		{personal.CodeTooManyAttempts, math.MaxInt64, 1, math.MaxInt},
		{personal.CodeUnavailable, 3 * time.Second, 3, 3},
		{personal.CodeUnavailable, 0, 1, 5},
	} {
		s := failing(&personal.Error{Code: c.code, RetryAfter: c.after})
		a := newSite(t, s, personalhttp.Options{}).do("GET", prefix+"fields", "", "")
		if got, err := strconv.Atoi(a.Header.Get("Retry-After")); err != nil || got < c.min || got > c.max {
			t.Errorf("%s with RetryAfter %s: got Retry-After %q, want %d to %d", c.code, c.after, a.Header.Get("Retry-After"), c.min, c.max)
		}
	}
}

func TestCall_HasDeadlineAndMetadata(t *testing.T) {
	var got personal.Call
	s := everything()
	s.FieldsFunc = func(ctx context.Context) ([]personal.Field, error) {
		got = personal.CallFrom(ctx)
		<-ctx.Done()
		return nil, ctx.Err()
	}
	a := newSite(t, s, personalhttp.Options{Timeout: time.Millisecond}).do("GET", prefix+"fields", "", "",
		"Accept-Language", "ru", "X-Request-Id", "r-1", "User-Agent", "A\tb\u0085\xff"+strings.Repeat("я", 300))
	a.want(t, 503, personal.CodeUnavailable)
	want := personal.Call{RequestID: "r-1", Locale: "ru", Address: got.Address, Agent: "Ab" + strings.Repeat("я", 253)}
	if got != want || got.Address.String() != "127.0.0.1" {
		t.Errorf("got call %+v, want %+v", got, want)
	}
}

func TestRequestID_ValidIDIsKept(t *testing.T) {
	s := newSite(t, everything(), personalhttp.Options{})
	seen := map[string]bool{}
	for _, c := range []struct {
		ids  []string
		kept bool
	}{
		{[]string{"a"}, true},
		{[]string{"A-1_b.2"}, true},
		{[]string{strings.Repeat("x", 64)}, true},
		{nil, false},
		{[]string{""}, false},
		{[]string{strings.Repeat("x", 65)}, false},
		{[]string{"a", "a"}, false},
		{[]string{"a b"}, false},
		{[]string{"a,b"}, false},
		{[]string{"é"}, false},
		{[]string{"<script>"}, false},
	} {
		var headers []string
		for _, id := range c.ids {
			headers = append(headers, "X-Request-Id", id)
		}
		got := s.do("GET", prefix+"fields", "", "", headers...).Header.Get("X-Request-Id")
		if kept := len(c.ids) > 0 && got == c.ids[0]; kept != c.kept || seen[got] {
			t.Errorf("ids %q: got %q, want it kept: %t", c.ids, got, c.kept)
		}
		seen[got] = true
	}
}

func TestPanic_IsInternalErrorWithLoggedStack(t *testing.T) {
	var log bytes.Buffer
	s := everything()
	s.FieldsFunc = func(context.Context) ([]personal.Field, error) { panic("secret value") }
	server := newSite(t, s, personalhttp.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	a := server.do("GET", prefix+"fields", "", "", "X-Request-Id", "r-1")
	a.want(t, 500, personal.CodeInternal)
	server.Close() // all requests are logged now
	for _, want := range []string{"panic=string", "request_id=r-1", "TestPanic_", "level=ERROR"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("got log %s, want %q in it", log.String(), want)
		}
	}
	if strings.Contains(a.Body+log.String(), "secret value") {
		t.Errorf("got the panic's value in the response or the log: %s", a.Body)
	}
}

func TestPanic_ErrAbortHandlerClosesConnection(t *testing.T) {
	s := everything()
	s.FieldsFunc = func(context.Context) ([]personal.Field, error) { panic(http.ErrAbortHandler) }
	if res, err := http.Get(newSite(t, s, personalhttp.Options{}).URL + prefix + "fields"); err == nil {
		res.Body.Close()
		t.Errorf("got status %d, want a closed connection", res.StatusCode)
	}
}

func TestEncode_UnsupportedValueIsInternalError(t *testing.T) {
	for _, value := range []any{math.NaN(), struct{}{}, int32(1)} {
		s := everything()
		s.ProfileFunc = func(context.Context, personal.Credentials) (personal.Profile, error) {
			return personal.Profile{Fields: []personal.ProfileField{{Name: "x", Value: value}}}, nil
		}
		newSite(t, s, personalhttp.Options{}).do("GET", prefix+"profile", "", "").want(t, 500, personal.CodeInternal)
	}
}

func TestLog_ContainsNoCallerValues(t *testing.T) {
	var log bytes.Buffer
	s := failing(errors.New("disk on fire"))
	s.AuthorizeFunc = func(context.Context, personal.AuthorizeRequest) (personal.SignedIn, error) {
		return personal.SignedIn{}, personal.NewError(personal.CodeInvalidCredentials, nil)
	}
	handler := slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})
	server := newSite(t, s, personalhttp.Options{Log: slog.New(handler)})
	server.do("POST", prefix+"auth/?q=hunter1", form, "login=hunter2&password=hunter3", "User-Hash", "hunter4", "User-Agent", "hunter5")
	server.do("HUNTER6", prefix+"hunter7", "hunter8", "{hunter9", "X-Request-Id", "<hunter>")
	server.do("POST", prefix+"auth", asJSON, "{hunter10")
	server.do("POST", prefix+"auth", form, "a=%hunter11;")
	server.do("POST", prefix+"auth", "hunter/12; hunter=", "x")
	server.do("GET", prefix+"fields", "", "", "X-Request-Id", "r-7").want(t, 500, personal.CodeInternal)
	server.Close()
	if strings.Contains(strings.ToLower(log.String()), "hunter") {
		t.Errorf("got a caller's value in the log: %s", log.String())
	}
	for _, want := range []string{"disk on fire", "request_id=r-7", "route=/api/v1/personal/auth/", "code=invalid_credentials", "status=401",
		"method=other"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("got log %s, want %s in it", log.String(), want)
		}
	}
	if lines := strings.Count(log.String(), `msg="personal-account request"`); lines != 6 {
		t.Errorf("got %d access lines, want 6", lines)
	}
}

func TestExplain_MatchesAPIResponse(t *testing.T) {
	var log bytes.Buffer
	h, err := personalhttp.New(noService(), personalhttp.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest("GET", "/", nil)
	r = r.WithContext(personal.WithCall(r.Context(), personal.Call{RequestID: "r-1", Locale: "ru"}))
	for _, tt := range []struct {
		err    error
		want   personalhttp.ErrorResponse
		logged bool
	}{
		{personal.FieldErrors{"login": personal.FieldErrorTaken}.Err(), personalhttp.ErrorResponse{
			Status: 422, Code: personal.CodeValidationFailed, Message: "Проверьте введённые данные.",
			FieldErrors: map[string]personalhttp.FieldError{"login": {Code: personal.FieldErrorTaken, Message: "Этот логин занят. Выберите другой."}},
		}, false},
		{&personal.Error{Code: personal.CodeTooManyAttempts, RetryAfter: 1500 * time.Millisecond}, personalhttp.ErrorResponse{
			Status: 429, Code: personal.CodeTooManyAttempts, Message: "Слишком много попыток. Попробуйте позже.", RetryAfter: 2,
		}, false},
		{errors.New("boom"), personalhttp.ErrorResponse{
			Status: 500, Code: personal.CodeInternal, Message: "На нашей стороне произошла ошибка. Попробуйте позже.",
		}, true},
	} {
		log.Reset()
		if diff := cmp.Diff(tt.want, h.ErrorResponse(r, tt.err)); diff != "" {
			t.Errorf("%v (-want +got):\n%s", tt.err, diff)
		}
		if got := strings.Contains(log.String(), "request_id=r-1"); got != tt.logged {
			t.Errorf("%v: got log %q, want an entry: %t", tt.err, log.String(), tt.logged)
		}
	}
}

func TestExplain_FollowsUserFields(t *testing.T) {
	schema := personal.Schema{Fields: []personal.Field{
		{Name: "phone", Type: personal.TypeText, PatternMessage: personal.LocalText{"en": "Like +44 20.", "kk": "+7 сияқты."}},
		{Name: "born", Type: personal.TypeDate, Hidden: true},
		{Name: "tags", Type: personal.TypeTags},
	}}
	var err error
	h, errNew := personalhttp.New(noService(), personalhttp.Options{Log: quiet(), UserFields: func(context.Context) (personal.Schema, error) {
		return schema, err
	}})
	if errNew != nil {
		t.Fatal(errNew)
	}
	const date, form, long = "Enter a date such as 2026-01-31: year, month, day.",
		"This does not have the expected form. Check what you have entered.", "This is too long. Shorten it."
	r := httptest.NewRequest("GET", "/", nil)
	check := func(name string, want map[string]string) {
		t.Helper()
		invalid := personal.FieldErrors{"phone": personal.FieldErrorInvalidFormat, "born": personal.FieldErrorInvalidFormat,
			"email": personal.FieldErrorInvalidFormat}
		got := map[string]string{}
		for parameter, e := range h.ErrorResponse(r, invalid.Err()).FieldErrors {
			got[parameter] = e.Message
		}
		want["email"] = "Enter an address like anna@example.com."
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	check("in force", map[string]string{"phone": "Like +44 20.", "born": date})
	r.Header.Set("Accept-Language", "kk")
	check("in the caller's language", map[string]string{"phone": "+7 сияқты.", "born": date})
	err = errors.New("gone")
	check("unknown", map[string]string{"phone": form, "born": form})
	got := h.FieldErrors(r, personal.FieldErrors{"phone": personal.FieldErrorTooLong, "born": personal.FieldErrorInvalidFormat},
		[]personal.Field{{Name: "phone", Type: personal.TypeDate}})
	want := map[string]personalhttp.FieldError{"phone": {Code: "too_long", Message: long}, "born": {Code: "invalid_format", Message: form}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("under other fields (-want +got):\n%s", diff)
	}
}

func TestConfirm_MatchesAPIMessage(t *testing.T) {
	h, err := personalhttp.New(noService(), personalhttp.Options{Log: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest("GET", "/", nil)
	for operation, want := range map[string]string{"profile": "Your profile has been saved.", "auth_refresh": "", "sessions": "",
		"made_up": ""} {
		if got := h.SuccessMessage(r, operation); got != want {
			t.Errorf("%s: got %q, want %q", operation, got, want)
		}
	}
}
