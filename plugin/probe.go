package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/term"

	"github.com/cms-personal/personal/internal/password"
	"github.com/cms-personal/personal/internal/transfer"
)

// probe asks for the password of a row and checks that its hash would be accepted. If the hash is
// digits whose form is not stated, it finds the form and states it for the import, which uses it for
// digits of that length.
func probe(ctx context.Context, job *transfer.Import, hasher *password.Hasher, row transfer.RowHash, login string, stderr io.Writer) error {
	entered, err := askPassword(ctx, "Password of "+login+" in the other system: ", stderr)
	if err != nil {
		return fmt.Errorf("--probe: %w", err)
	}
	form := row.Form
	if form == "" {
		form = job.HashForm
	}
	if form == "" {
		if forms := password.MatchForms(row.Hash, row.Salt, entered); len(forms) > 0 {
			form, job.HashForm = forms[0], forms[0]
		}
	}
	encoded, err := password.AdoptForm(row.Hash, row.Salt, form)
	if err != nil {
		return fmt.Errorf("--probe: line %d: the hash cannot be imported: %w", row.Line, err)
	}
	result, err := hasher.Verify(ctx, password.Source{}, encoded, entered)
	if err != nil {
		return fmt.Errorf("--probe: %w", err)
	}
	if !result.Match {
		hint := ""
		if fitting := password.MatchForms(row.Hash, row.Salt, entered); row.Form == "" && len(fitting) > 0 {
			hint = "; it would with --hash-form=" + fitting[0]
		}
		return fmt.Errorf("--probe: line %d: this password would not be accepted (%s)%s", row.Line, password.Name(encoded), hint)
	}
	digits, _, _ := strings.Cut(row.Hash, ":")
	text := fmt.Sprintf("line %d: the password would be accepted: %s", row.Line, password.Name(encoded))
	if job.HashForm != "" && form == job.HashForm {
		text += fmt.Sprintf("; this holds for hashes of %d digits", len(digits))
		job.Report.Probed = form
	}
	_, err = fmt.Fprintln(stderr, text)
	return err
}

// askPassword reads a password from the terminal, without showing it. It never takes one from
// elsewhere: other users can read command lines, and files stay.
func askPassword(ctx context.Context, prompt string, stderr io.Writer) (string, error) {
	terminal := int(os.Stdin.Fd())
	if !term.IsTerminal(terminal) {
		return "", errors.New("standard input is not a terminal, where the password is asked for")
	}
	before, err := term.GetState(terminal)
	if err != nil {
		return "", fmt.Errorf("asking for the password: %w", err)
	}
	if _, err := io.WriteString(stderr, prompt); err != nil {
		return "", err
	}
	type read struct {
		text []byte
		err  error
	}
	done := make(chan read, 1)
	go func() { // ends with the line, or with the process
		text, err := term.ReadPassword(terminal)
		done <- read{slices.Clone(text), err}
	}()
	select {
	case r := <-done:
		fmt.Fprintln(stderr)
		if r.err != nil {
			return "", fmt.Errorf("asking for the password: %w", r.err)
		}
		return string(r.text), nil
	case <-ctx.Done():
		return "", errors.Join(ctx.Err(), term.Restore(terminal, before))
	}
}
