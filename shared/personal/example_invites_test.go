package personal_test

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/cms-personal/personal/shared/personal"
)

// Users register with an invite code, the transient parameter invite.
func ExampleAdmission_invites() {
	const code = "7QHZ5X2MVKE3LBD4TNRYAWC6UJ" // of crypto/rand.Text
	list := &invites{of: map[string]invited{code: {}}}
	admission := &personal.Admission{Judge: list.judge}

	// In earnest: personalhost.Config{Admission: admission, API: personalhttp.Options{Transient: []string{"invite"}}}
	service := admission.Wrap(fakeService())
	register := func(login, invite string) {
		ctx := personal.WithTransient(context.Background(), map[string]string{"invite": invite})
		_, err := service.Register(ctx, personal.RegisterRequest{Login: login, Email: login + "@example.com"})
		fmt.Println(login, err)
	}
	register("anna", "")
	register("anna", code)
	register("anna", code) // again, after the module has refused a weak password for example
	register("boris", code)
	// Output:
	// anna validation_failed: invite=required
	// anna <nil>
	// anna <nil>
	// boris validation_failed: invite=mismatch
}

type invited struct{ login, email string }

// invites has the users to whom codes belong; zero for a code that has not been used. In earnest
// it is a table.
type invites struct {
	mu sync.Mutex
	of map[string]invited
}

// judge gives a code to the first login and e-mail that are registered with it.
func (i *invites) judge(ctx context.Context, r personal.AdmissionRequest) error {
	if !r.Registers() {
		return nil
	}
	code := personal.TransientFrom(ctx)["invite"]
	if code == "" {
		return personal.FieldErrors{"invite": personal.FieldErrorRequired}.Err()
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	user := invited{r.Login, strings.ToLower(r.Email)}
	if owner, known := i.of[code]; !known || owner != (invited{}) && owner != user {
		return unknownInvite()
	}
	i.of[code] = user
	return nil
}

// unknownInvite is the decision about an invite that is unknown or has been used.
func unknownInvite() error {
	return &personal.AdmissionError{FieldErrors: map[string]personal.AdmissionFieldError{
		"invite": {Code: personal.FieldErrorMismatch, Text: personal.LocalText{
			"en": "This invite is unknown or has been used.",
			"ru": "Такого приглашения нет, или оно уже использовано.",
		}},
	}}
}
