package personaltest

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/shared/personal"
)

// testMissingFields makes the schema stricter. Other tests have users, too.
func testMissingFields(t *testing.T, s *administrationSuite) {
	u := s.register(t)
	stored := s.record(t, u.Credentials.UserID)
	wantMissing := func(when string, want ...string) {
		t.Helper()
		p, err := s.service.Profile(t.Context(), u.Credentials)
		if err != nil || !cmp.Equal(p.Missing, want) {
			t.Fatalf("%s: got missing fields %q, %v; want %q", when, p.Missing, err, want)
		}
	}
	wantMissing("before")

	before := sampleFields()
	t.Cleanup(func() { s.fields.set(before) })
	stricter := append(sampleFields(),
		personal.Field{Name: "country", Type: personal.TypeText, Required: true, Default: personal.Text("Latvia")},
		personal.Field{Name: "street", Type: personal.TypeText, Required: true})
	r, err := s.administration.PreviewFields(t.Context(), stricter)
	if err != nil {
		t.Fatalf("rehearsing: %v", err)
	}
	if r.Accounts < 1 || r.Violations != r.Accounts || r.Fillable != 0 || !r.Complete ||
		len(r.Examples) != int(min(r.Accounts, personal.MaxPreviewExamples)) {
		t.Fatalf("got %+v, want all users to violate the fields, none of them fillable", r)
	}
	for _, e := range r.Examples {
		if e.UserID == 0 || e.Login == "" || e.Fields["country"] != personal.FieldErrorRequired ||
			e.Fields["street"] != personal.FieldErrorRequired {
			t.Errorf("got example %+v, want a user without country and street", e)
		}
	}
	readOnly := sampleFields()
	for i := range readOnly {
		readOnly[i].Required, readOnly[i].ReadOnly = false, readOnly[i].Name == "city"
	}
	r, err = s.administration.PreviewFields(t.Context(), readOnly)
	if err != nil || len(r.Kept) != 1 || r.Kept["city"] < 1 {
		t.Errorf("got %+v, %v; want the number of users who keep a city", r, err)
	}
	wantMissing("after a rehearsal")
	_, err = s.administration.PreviewFields(t.Context(), []personal.Field{{Name: "login", Type: personal.TypeText}})
	wantFieldErrors(t, err, personal.CodeValidationFailed, personal.FieldErrors{"fields": personal.FieldErrorInvalidFormat})

	s.fields.set(stricter)
	wantMissing("with a stricter schema", "country", "street")
	schema, _ := s.fields.schema(t.Context())
	wantFieldErrors(t, s.administration.FillFields(t.Context(), "no revision"), personal.CodeValidationFailed,
		personal.FieldErrors{"revision": personal.FieldErrorMismatch})
	if err := s.administration.FillFields(t.Context(), schema.Revision); err != nil {
		t.Fatalf("filling in: %v", err)
	}
	fill := s.awaitFill(t, personal.FillDone)
	if fill.Revision != schema.Revision || fill.Checked < fill.Total || fill.Filled < 1 || fill.Started.IsZero() ||
		fill.Ended.Before(fill.Started) {
		t.Errorf("got %+v, want all users of revision %s checked, and some filled", fill, schema.Revision)
	}
	s.awaitEvents(t, 0, personal.EventFieldsFilled)
	after := s.record(t, u.Credentials.UserID) // a host may rely on an earlier Profile
	if !slices.Contains(after.Fields, personal.ProfileField{Name: "country", Value: "Latvia"}) || !after.Updated.Equal(stored.Updated) {
		t.Errorf("got fields %v, updated %v; want the default of country, and still %v", after.Fields, after.Updated, stored.Updated)
	}
	p, err := s.service.UpdateProfile(t.Context(), personal.UpdateProfileRequest{
		Credentials: u.Credentials, Fields: map[string]personal.Input{"street": personal.Text("Brivibas 1")},
	})
	if err != nil || p.Missing != nil {
		t.Errorf("got missing fields %q, %v; want none", p.Missing, err)
	}
}

// awaitFill waits until the last filling has a state.
func (s *administrationSuite) awaitFill(t *testing.T, want personal.FillState) personal.FieldsFill {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; {
		fill, err := s.administration.FieldsFill(t.Context())
		if err != nil {
			t.Fatalf("reading the progress: %v", err)
		}
		if fill.State == want {
			return fill
		}
		if time.Now().After(deadline) {
			t.Fatalf("got %+v, want state %s", fill, want)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
