package personalhttp_test

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhttp"
)

func TestAnErrorIsExplainedAsTheAPIWould(t *testing.T) {
	var log bytes.Buffer
	h, err := personalhttp.New(noService(), personalhttp.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest("GET", "/", nil)
	r = r.WithContext(personal.WithCall(r.Context(), personal.Call{RequestID: "r-1", Locale: "ru"}))
	for _, tt := range []struct {
		err    error
		want   personalhttp.Explanation
		logged bool
	}{
		{personal.FieldErrors{"login": personal.FieldErrorTaken}.Err(), personalhttp.Explanation{
			Status: 422, Code: personal.CodeValidationFailed, Message: "Проверьте введённые данные.",
			Fields: map[string]personalhttp.FieldError{"login": {Code: personal.FieldErrorTaken, Message: "Уже занято."}},
		}, false},
		{&personal.Error{Code: personal.CodeTooManyAttempts, RetryAfter: 1500 * time.Millisecond}, personalhttp.Explanation{
			Status: 429, Code: personal.CodeTooManyAttempts, Message: "Слишком много попыток. Повторите позже.", RetryAfter: 2,
		}, false},
		{errors.New("boom"), personalhttp.Explanation{
			Status: 500, Code: personal.CodeInternal, Message: "На нашей стороне произошла ошибка. Повторите позже.",
		}, true},
	} {
		log.Reset()
		if diff := cmp.Diff(tt.want, h.Explain(r, tt.err)); diff != "" {
			t.Errorf("%v (-want +got):\n%s", tt.err, diff)
		}
		if got := strings.Contains(log.String(), "request_id=r-1"); got != tt.logged {
			t.Errorf("%v: logged %q", tt.err, log.String())
		}
	}
}

func TestSuccessIsConfirmedAsTheAPIDoes(t *testing.T) {
	h, err := personalhttp.New(noService(), personalhttp.Options{Log: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest("GET", "/", nil)
	for operation, want := range map[string]string{"profile": "Your profile has been saved.", "auth_refresh": "", "sessions": "", "made_up": ""} {
		if got := h.Confirm(r, operation); got != want {
			t.Errorf("%s: %q, want %q", operation, got, want)
		}
	}
}

func TestLabelsOfTheHostsOwnPagesAreInTheCallersLanguage(t *testing.T) {
	h, err := personalhttp.New(noService(), personalhttp.Options{Log: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("Accept-Language", "kk, ru;q=0.5")
	labels := h.Labels(r)
	if got := labels(personal.LocalText{"en": "City", "kk": "Қала"}, "city"); got != "Қала" {
		t.Errorf("got %q", got)
	}
	if got := labels(nil, "city"); got != "city" {
		t.Errorf("without a text: %q", got)
	}
}
