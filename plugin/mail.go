package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cms-personal/personal/internal/mailtext"
	"github.com/cms-personal/personal/shared/personal"
)

// mailCommand groups the commands for templates of mails.
type mailCommand struct {
	List    mailListCommand    `cmd:"" help:"Print the kinds of mails and the fields that their templates may use."`
	Preview mailPreviewCommand `cmd:"" help:"Print a mail as it would be sent, with sample values. It checks all templates."`
}

type mailListCommand struct {
	Write  string `placeholder:"DIR" help:"Write the built-in templates to this folder, and print nothing else. Existing files are not changed."`
	Locale string `placeholder:"L" help:"With --write: only the templates in this language, such as de or pt-BR."`
}

// Run lists the kinds, or writes the built-in templates.
func (c mailListCommand) Run(w io.Writer) error {
	if c.Write == "" && c.Locale != "" {
		return errors.New("--locale needs --write")
	}
	if c.Write != "" {
		n, err := writeTemplates(c.Write, c.Locale)
		if err != nil {
			return fmt.Errorf("--write: %w", err)
		}
		_, err = fmt.Fprintf(w, "%d templates written to %s. Remove those that you do not change.\n", n, c.Write)
		return err
	}
	var text strings.Builder
	var used []mailtext.Field
	for _, d := range mailtext.Descriptions() {
		var fields []string
		for _, f := range d.Fields {
			fields = append(fields, "."+string(f))
			if !slices.Contains(used, f) {
				used = append(used, f)
			}
		}
		fmt.Fprintf(&text, "%-20s  %s\n%-20s  %s\n", d.Kind, d.Sent, "", strings.Join(fields, " "))
	}
	text.WriteString("\n")
	for _, f := range used {
		fmt.Fprintf(&text, ".%-8s %s\n", f, f.Meaning())
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// writeTemplates writes the built-in templates in a language, "" for all, to a folder, which it makes if it does
// not exist. It writes all of them or, if one exists already, none.
func writeTemplates(dir, locale string) (n int, err error) {
	if locale != "" && !slices.Contains(personal.Languages(), locale) {
		return 0, fmt.Errorf("there are no templates in %q, but in %s", locale, strings.Join(personal.Languages(), ", "))
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return 0, fmt.Errorf("making the folder: %w", err)
	}
	var written []string
	defer func() {
		if err != nil {
			n = 0
			for _, path := range written {
				err = errors.Join(err, os.Remove(path))
			}
		}
	}()
	files := mailtext.BuiltInFiles()
	names, err := fs.Glob(files, "*."+cmp.Or(locale, "*")+".txt")
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		data, err := fs.ReadFile(files, name)
		if err != nil {
			return 0, err
		}
		path := filepath.Join(dir, name)
		file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if errors.Is(err, fs.ErrExist) {
			return 0, fmt.Errorf("%s exists already, nothing was written: name an empty folder", path)
		}
		if err != nil {
			return 0, err
		}
		written = append(written, path)
		_, err = file.Write(data)
		if err := errors.Join(err, file.Close()); err != nil {
			return 0, err
		}
	}
	return len(written), nil
}

type mailPreviewCommand struct {
	Kind      mailtext.Kind `arg:"" optional:"" help:"The mail: a kind that \"mail list\" names."`
	All       bool          `help:"Print every mail in every language that it has."`
	Locale    string        `default:"en" placeholder:"L" help:"The language of the reader, such as de or pt-BR."`
	Templates string        `placeholder:"DIR" help:"The folder of the setting mail.templates (default: only the built-in templates)."`
	HTML      bool          `name:"html" help:"Print the HTML instead of subject and text."`
}

// Run prints a mail, or all.
func (c mailPreviewCommand) Run(w io.Writer) error {
	if c.All == (c.Kind != "") {
		return errors.New("name the kind of a mail, or give --all")
	}
	if err := mailtext.CheckKind(c.Kind); err != nil && !c.All {
		return err
	}
	set, err := mailtext.Load(c.Templates, personal.Languages()...)
	if err == nil {
		err = set.Unknown()
	}
	if err != nil {
		return fmt.Errorf("--templates: %w", err)
	}
	if c.All {
		return c.printAll(w, set)
	}
	if err := set.CheckLocale(c.Kind, c.Locale); err != nil {
		return fmt.Errorf("--locale: %w", err)
	}
	return c.print(w, set, c.Kind, c.Locale)
}

// printAll prints each kind in each language, after a line that names both.
func (c mailPreviewCommand) printAll(w io.Writer, set *mailtext.Set) error {
	for _, d := range mailtext.Descriptions() {
		for _, locale := range set.Locales(d.Kind) {
			if _, err := fmt.Fprintf(w, "=== %s %s\n", d.Kind, locale); err != nil {
				return err
			}
			if err := c.print(w, set, d.Kind, locale); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c mailPreviewCommand) print(w io.Writer, set *mailtext.Set, kind mailtext.Kind, locale string) error {
	subject, text, html, err := set.Write(kind, locale, mailtext.Sample())
	if err != nil {
		return err
	}
	if c.HTML {
		_, err = io.WriteString(w, html)
		return err
	}
	_, err = fmt.Fprintf(w, "Subject: %s\n\n%s", subject, text)
	return err
}
