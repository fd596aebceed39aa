package cli

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhost/fieldstore"
)

const fieldsPath = "/admin/api/user-fields"

// requiredField has a default.
const requiredField = `[{"name":"country","type":"text","required":true,"default":"Latvia"}]`

// debtors is a site with a plugin that finds two of three users without a country.
func debtors(t *testing.T) (s *testSite, filled *[]string) {
	t.Helper()
	s, filled = startSite(t, signedInService(), ""), &[]string{}
	began := time.Now()
	s.administration.PreviewFieldsFunc = func(ctx context.Context, fields []personal.Field) (personal.FieldsPreview, error) {
		if deadline, ok := ctx.Deadline(); !ok || deadline.Sub(began) < 11*time.Second { // real time: a slow machine makes it longer
			t.Error("rehearsing: want time for the 10 seconds that it may take")
		}
		found := personal.FieldsPreview{Accounts: 3, Complete: true}
		if len(fields) == 1 && fields[0].Required {
			found.Violations, found.Fillable = 2, 1
			found.Examples = []personal.FieldsViolation{{UserID: 42, Login: "anna", Fields: personal.FieldErrors{"country": "required"}}}
		}
		return found, nil
	}
	s.administration.FieldsFillFunc = func(context.Context) (personal.FieldsFill, error) { return personal.FieldsFill{}, nil }
	s.administration.FillFieldsFunc = func(_ context.Context, revision string) error {
		if revision != s.fields.Get().Schema.Revision {
			t.Errorf("got revision %s, want the saved one", revision)
		}
		*filled = append(*filled, revision)
		return nil
	}
	return s, filled
}

const debt = `"accounts":3,"violations":2,"fillable":1,"at_least":false,"examples":[{"user_id":42,"login":"anna","fields":{"country":"required"}}]}` + "\n"

func TestUserFields_Violations(t *testing.T) {
	for _, tt := range []struct {
		query, schema string
		status        int
		body          string // its end
		fills         int
	}{
		{"", requiredField, http.StatusOK, requiredField, 0},
		{"?violations=ask", requiredField, http.StatusOK, requiredField, 0},
		{"?violations=refuse", requiredField, http.StatusConflict, debt, 0},
		{"?violations=refuse", oneField, http.StatusOK, oneField, 0},
		{"?violations=default", requiredField, http.StatusOK, requiredField, 1},
		{"?violations=fill", requiredField, http.StatusBadRequest, `{"error":"violations must be ask, refuse or default"}` + "\n", 0},
		{"?violations=", requiredField, http.StatusBadRequest, "", 0},
		{"?violations=ask&violations=refuse", requiredField, http.StatusBadRequest, "", 0},
		{"?violations=refuse", `[{"name":"city","type":"enum"}]`, http.StatusUnprocessableEntity, "", 0},
		{"?violations=refuse", `[{`, http.StatusUnprocessableEntity, "", 0},
		{"?violations=default", `[{"name":"city","type":"enum"}]`, http.StatusUnprocessableEntity, "", 0},
	} {
		t.Run(tt.query+" "+tt.schema, func(t *testing.T) {
			s, filled := debtors(t)
			before := s.fields.Get()
			a := s.admin(t, http.MethodPut, fieldsPath+tt.query, tt.schema)
			if a.StatusCode != tt.status || !strings.HasSuffix(a.body, tt.body) {
				t.Errorf("got %s %s, want %d and %s", a.Status, a.body, tt.status, tt.body)
			}
			after := s.fields.Get()
			switch {
			case tt.status != http.StatusOK && after != before:
				t.Errorf("got schema %s saved, want none", after.Source)
			case tt.status == http.StatusOK && (a.body != string(after.Source) || a.Header.Get("ETag") != etag(after.Schema.Revision)):
				t.Errorf("got ETag %s, schema %s, want those of the response", a.Header.Get("ETag"), after.Source)
			}
			if len(*filled) != tt.fills {
				t.Errorf("got %d filling jobs, want %d", len(*filled), tt.fills)
			}
		})
	}
}

func TestUserFields_UnfinishedCheckIsRefused(t *testing.T) {
	s, _ := debtors(t)
	s.administration.PreviewFieldsFunc = func(context.Context, []personal.Field) (personal.FieldsPreview, error) {
		return personal.FieldsPreview{Accounts: 3}, nil
	}
	before := s.fields.Get()
	a := s.admin(t, http.MethodPut, fieldsPath+"?violations=refuse", requiredField)
	if a.StatusCode != http.StatusConflict || !strings.Contains(a.body, `"at_least":true`) || s.fields.Get() != before {
		t.Errorf("got %s %s, want 409, at_least, and nothing saved", a.Status, a.body)
	}
}

func TestUserFields_RefusesOldRevisionBeforeTheCheck(t *testing.T) {
	s, filled := debtors(t)
	s.administration.PreviewFieldsFunc = nil // responds not_found
	for _, choice := range []string{"refuse", "default"} {
		a := s.admin(t, http.MethodPut, fieldsPath+"?violations="+choice, requiredField, "If-Match", `"another"`)
		if a.StatusCode != http.StatusPreconditionFailed || len(*filled) > 0 {
			t.Errorf("%s: got %s %s and %d filling jobs, want 412 and none", choice, a.Status, a.body, len(*filled))
		}
	}
}

func TestUserFields_FailureOfThePluginSavesNothing(t *testing.T) {
	for code, want := range map[personal.Code]int{
		personal.CodeUnavailable: http.StatusServiceUnavailable, personal.CodeInternal: http.StatusInternalServerError,
	} {
		s := startSite(t, signedInService(), "")
		err := personal.NewError(code, nil)
		s.administration.PreviewFieldsFunc = func(context.Context, []personal.Field) (personal.FieldsPreview, error) {
			return personal.FieldsPreview{}, err
		}
		s.administration.FieldsFillFunc = func(context.Context) (personal.FieldsFill, error) { return personal.FieldsFill{}, err }
		before := s.fields.Get()
		for method, path := range map[string]string{
			http.MethodPut + " refuse":  fieldsPath + "?violations=refuse",
			http.MethodPut + " default": fieldsPath + "?violations=default",
			http.MethodPost:             fieldsPath + "/rehearsal",
			http.MethodGet:              fieldsPath + "/fill",
		} {
			method, _, _ = strings.Cut(method, " ")
			a := s.admin(t, method, path, requiredField)
			if a.StatusCode != want || !strings.HasPrefix(a.body, `{"error":"`) {
				t.Errorf("%s: %s %s: got %s %s, want %d", code, method, path, a.Status, a.body, want)
			}
		}
		if s.fields.Get() != before {
			t.Errorf("%s: got schema %s saved, want none", code, s.fields.Get().Source)
		}
		if a := s.admin(t, http.MethodPut, fieldsPath, requiredField); a.StatusCode != http.StatusOK || a.body != requiredField {
			t.Errorf("%s: ask: got %s %s, want 200", code, a.Status, a.body)
		}
	}
}

func TestUserFields_FileThatCannotBeReplacedIsNamed(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "volume")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	fields, err := fieldstore.Open(filepath.Join(folder, "user-fields.json"), sampleFields)
	if err != nil {
		t.Fatal(err)
	}
	s := startSiteWith(t, fields, signedInService(), "")
	if err := os.RemoveAll(folder); err != nil { // it was taken away
		t.Fatal(err)
	}
	for _, violations := range []string{"", "?violations=ask"} {
		a := s.admin(t, http.MethodPut, fieldsPath+violations, "[]")
		if want := `{"error":"storing the user fields: writing ` + folder; a.StatusCode != http.StatusInternalServerError || !strings.HasPrefix(a.body, want) {
			t.Errorf("%q: got %s %s, want 500 and %s…", violations, a.Status, a.body, want)
		}
	}
}

func TestUserFields_FillingThatDoesNotStartIsReported(t *testing.T) {
	s, filled := debtors(t)
	works := s.administration.FillFieldsFunc
	s.administration.FillFieldsFunc = func(context.Context, string) error { return errors.New("lost") }
	a := s.admin(t, http.MethodPut, fieldsPath+"?violations=default", requiredField)
	if a.StatusCode != http.StatusServiceUnavailable || !strings.Contains(a.body, "repeat the request") {
		t.Errorf("got %s %s, want 503 and what to do", a.Status, a.body)
	}
	s.administration.FillFieldsFunc = works
	a = s.admin(t, http.MethodPut, fieldsPath+"?violations=default", requiredField)
	if a.StatusCode != http.StatusOK || len(*filled) != 1 {
		t.Errorf("repeated: got %s %s and %d filling jobs, want 200 and 1", a.Status, a.body, len(*filled))
	}
}

func TestUserFieldsPreview_SavesNothing(t *testing.T) {
	s, _ := debtors(t)
	before := s.fields.Get()
	if a := s.admin(t, http.MethodPost, fieldsPath+"/rehearsal", requiredField); a.StatusCode != http.StatusOK || a.body != "{"+debt {
		t.Errorf("got %s %s, want {%s", a.Status, a.body, debt)
	}
	if a := s.admin(t, http.MethodPost, fieldsPath+"/rehearsal", oneField); !strings.HasSuffix(a.body,
		`"violations":0,"fillable":0,"at_least":false,"examples":[]}`+"\n") {
		t.Errorf("without violations: got %s %s", a.Status, a.body)
	}
	if a := s.admin(t, http.MethodPost, fieldsPath+"/rehearsal",
		`[{"name":"city","type":"enum"}]`); a.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(a.body, `"field":"city"`) {
		t.Errorf("an invalid schema: got %s %s, want 422 with the field", a.Status, a.body)
	}
	if s.fields.Get() != before {
		t.Errorf("got schema %s saved, want none", s.fields.Get().Source)
	}
}

func TestUserFieldsPreview_WarnsOfValuesThatUsersTyped(t *testing.T) {
	s, _ := debtors(t)
	s.administration.PreviewFieldsFunc = func(context.Context, []personal.Field) (personal.FieldsPreview, error) {
		return personal.FieldsPreview{Accounts: 3, Complete: true, Kept: map[string]int64{"role": 2}}, nil
	}
	a := s.admin(t, http.MethodPost, fieldsPath+"/rehearsal", `[{"name":"role","type":"text","read_only":true}]`)
	if want := `"warnings":["role becomes read-only and keeps the values of 2 users, who may have typed them`; !strings.Contains(a.body, want) {
		t.Errorf("got %s, want %s", a.body, want)
	}
}

func TestUserFieldsFill_Progress(t *testing.T) {
	s, _ := debtors(t)
	const none = `{"revision":"","state":"","checked":0,"total":0,"filled":0}` + "\n"
	if a := s.admin(t, http.MethodGet, fieldsPath+"/fill", ""); a.StatusCode != http.StatusOK || a.body != none {
		t.Errorf("before the first job: got %s %s, want %s", a.Status, a.body, none)
	}
	s.administration.FieldsFillFunc = func(context.Context) (personal.FieldsFill, error) {
		return personal.FieldsFill{
			Revision: "r", State: personal.FillRunning, Checked: 500, Total: 1200, Filled: 499, Started: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		}, nil
	}
	const running = `{"revision":"r","state":"running","checked":500,"total":1200,"filled":499,"started":"2026-01-02T03:04:05Z"}` + "\n"
	if a := s.admin(t, http.MethodGet, fieldsPath+"/fill", ""); a.StatusCode != http.StatusOK || a.body != running {
		t.Errorf("a job that runs: got %s %s, want %s", a.Status, a.body, running)
	}
}
