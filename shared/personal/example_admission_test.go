package personal_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/cms-personal/personal/shared/personal"
)

// Only e-mails of one domain are registered, or become those of an account.
func ExampleAdmission() {
	admission := &personal.Admission{Judge: onlyExampleCom}
	service := admission.Wrap(fakeService()) // in earnest: personalhost.Config{Admission: admission}

	ctx := context.Background()
	for _, email := range []string{"anna@example.com", "boris@example.org"} {
		_, err := service.Register(ctx, personal.RegisterRequest{Login: "new-user", Email: email})
		fmt.Println(email, "registers:", err)
	}
	_, err := service.Authorize(ctx, personal.AuthorizeRequest{Login: "boris@example.org"})
	fmt.Println("boris@example.org signs in:", err)
	// Output:
	// anna@example.com registers: <nil>
	// boris@example.org registers: refused
	// boris@example.org signs in: <nil>
}

func onlyExampleCom(_ context.Context, r personal.AdmissionRequest) error {
	switch {
	case !r.Registers() && r.Operation != personal.OpChangeEmail:
		return nil
	case r.Email == "":
		return nil // the module asks for it, together with all else that is missing
	case !strings.HasSuffix(strings.ToLower(r.Email), "@example.com"):
		return personal.Refuse(personal.LocalText{
			"en": "This site accepts only e-mail addresses of example.com.",
			"ru": "Этот сайт принимает только адреса электронной почты в домене example.com.",
		})
	}
	return nil
}
