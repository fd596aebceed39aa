package main

import (
	"fmt"
	"net/http"
)

// The pages say what to do with curl. %[1]s is the URL of the API's base.
const (
	indexPage = `This is host-sample, a sample CMS with personal accounts.

API         %[1]s/api/v1/personal/
Demo page   /demo/greeting, for signed-in users
Health      /healthz  /readyz  /metrics
Admin API   /admin/api/user-fields  /admin/api/plugin, with the token from DATA/admin-token

Register:
  curl -d login=anna -d password='correct horse' -d confirm_password='correct horse' -d email=anna@example.com %[1]s/api/v1/personal/register/
Sign in:
  curl -d login=anna -d password='correct horse' %[1]s/api/v1/personal/auth/
See who is signed in, with the user_id and user_hash of the answer:
  curl -H 'User-Id: ID' -H 'User-Hash: HASH' %[1]s/api/v1/personal/profile/
`

	// Mails lead to these two. Opening them changes nothing: scanners of mail do
	// that too.
	recoverPage = `To set a new password, send the code from the mail with it:

  curl -d token=CODE -d password='a new password' -d confirm_password='a new password' %[1]s/api/v1/personal/recover_confirm/
`
	emailPage = `To confirm your new address, send the code from the mail:

  curl -d token=CODE %[1]s/api/v1/personal/email_confirm/
`
)

// page answers with a text that names the API's base.
func page(text, base string) http.HandlerFunc {
	text = fmt.Sprintf(text, base)
	return func(w http.ResponseWriter, _ *http.Request) { writeText(w, text) }
}

func writeText(w http.ResponseWriter, text string) {
	header := w.Header()
	header.Set("Content-Type", "text/plain; charset=utf-8")
	header.Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write([]byte(text)) // an error means that nobody listens any more
}
