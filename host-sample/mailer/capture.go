package mailer

import (
	"bytes"
	"context"
	"fmt"
	"net/mail"
	"os"
	"path/filepath"
	"time"

	gomail "github.com/wneessen/go-mail"

	"github.com/cms-personal/personal/shared/durable"
	"github.com/cms-personal/personal/shared/personal"
)

// Capture keeps mails as DIR/TIME-ID.eml instead of sending them. Whoever can
// read the folder can take over accounts: it is meant for development.
type Capture struct {
	dir  string
	from *mail.Address
}

// NewCapture returns a sender that writes into dir, made if there is none.
func NewCapture(dir string, from *mail.Address) (*Capture, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the mail folder: %w", err)
	}
	return &Capture{dir: dir, from: from}, nil
}

// Send writes one file. Names sort by time; a file is complete when it appears.
func (c *Capture) Send(_ context.Context, m personal.Mail) error {
	// In 8 bits a person, or a test, can read the file as it is: the token stands
	// alone on its line and links are whole.
	msg, err := compose(m, c.from, gomail.NoEncoding)
	if err != nil {
		return fmt.Errorf("composing a mail: %w", err)
	}
	var b bytes.Buffer
	if _, err := msg.WriteTo(&b); err != nil {
		return fmt.Errorf("composing a mail: %w", err)
	}
	name := time.Now().UTC().Format("20060102T150405.000000000Z") + "-" + cleanID(m.ID) + ".eml"
	return durable.WriteFile(filepath.Join(c.dir, name), b.Bytes())
}

// Check looks for the folder.
func (c *Capture) Check(context.Context) error {
	if _, err := os.Stat(c.dir); err != nil {
		return fmt.Errorf("looking for the mail folder: %w", err)
	}
	return nil
}
