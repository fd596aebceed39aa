package system

import (
	"context"
	"errors"
	"net/mail"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhost"
	"github.com/cms-personal/personal/shared/personalhost/fieldstore"
	"github.com/cms-personal/personal/shared/personalhost/mailer"
)

// forgetfulHost is the host of a CMS that keeps data about users. It fails to erase it at
// first.
type forgetfulHost struct {
	*personalhost.Host
	mu    sync.Mutex
	asked []int64
}

func (h *forgetfulHost) EraseUser(_ context.Context, userID int64) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.asked = append(h.asked, userID); len(h.asked) == 1 {
		return errors.New("not yet")
	}
	return nil
}

func (h *forgetfulHost) calls() []int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.asked)
}

// TestEraser_IsAskedUntilItSucceeds has the plugin report an erasure to the CMS.
func TestEraser_IsAskedUntilItSucceeds(t *testing.T) {
	t.Parallel()
	testdb.Database(t, func(t *testing.T, database string) {
		t.Parallel()
		c := moduleConfig(t)
		c.DatabaseURL = database
		c.Settings = func() ([]byte, error) {
			return []byte(cheap + "[deletion]\ngrace = \"1s\"\n"), nil
		}
		fields, err := fieldstore.Open(filepath.Join(c.Data, "fields.json"), []byte("[]"))
		if err != nil {
			t.Fatal(err)
		}
		mails, err := mailer.NewCapture(t.TempDir(), &mail.Address{Address: "cms@site.example"})
		if err != nil {
			t.Fatal(err)
		}
		host := &forgetfulHost{Host: &personalhost.Host{Fields: fields, Mail: mails, Log: c.Log}}
		c.Host = host
		service := openModule(t, c).Client()
		const password = "correct horse 7"
		anna, err := service.Register(t.Context(), personal.RegisterRequest{Login: "anna", Email: "anna@mail.example", Password: password,
			ConfirmPassword: password})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := service.Delete(t.Context(), personal.DeleteRequest{Credentials: anna.Credentials, Password: password}); err != nil {
			t.Fatal(err)
		}
		want := []int64{anna.Credentials.UserID, anna.Credentials.UserID}
		eventually(t, "the CMS is asked again after its error", func() bool { return slices.Equal(host.calls(), want) })
	})
}
