// Package mailbox reads the mails that a host keeps instead of sending: a
// folder of .eml files whose names sort by time. Mails contain secrets.
package mailbox

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
)

// maxMail bounds what is read of a mail, in bytes. The mails of this site are far
// smaller.
const maxMail = 4 << 20

// ErrNotFound is returned for a mail that does not exist.
var ErrNotFound = errors.New("there is no such mail")

// Box is a folder of mails. It is safe for concurrent use.
type Box string

// open opens the folder. The caller must close it. No name leads out of it.
func (b Box) open() (*os.Root, error) {
	root, err := os.OpenRoot(string(b))
	if err != nil {
		return nil, fmt.Errorf("opening the mailbox: %w", err)
	}
	return root, nil
}

// Page is a part of the mailbox.
type Page struct {
	Mails []Mail
	Next  string // the argument of [Box.List] for the next page; empty on the last
}

// List returns up to n mails, newest first, whose names sort before the name before,
// or the newest if before is empty.
func (b Box) List(before string, n int) (Page, error) {
	names, err := b.names()
	if err != nil {
		return Page{}, err
	}
	var page Page
	for _, name := range slices.Backward(names) {
		if before != "" && name >= before {
			continue
		}
		if len(page.Mails) == n {
			page.Next = page.Mails[n-1].Name
			return page, nil
		}
		m, err := b.Read(name)
		if errors.Is(err, ErrNotFound) {
			continue // deleted since
		}
		if err != nil {
			return Page{}, err
		}
		page.Mails = append(page.Mails, m)
	}
	return page, nil
}

// names returns the sorted names of all mails.
func (b Box) names() ([]string, error) {
	root, err := b.open()
	if err != nil {
		return nil, err
	}
	defer root.Close()
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, fmt.Errorf("listing the mails: %w", err)
	}
	var names []string
	for _, e := range entries {
		if isMail(e.Name()) && e.Type().IsRegular() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// isMail reports whether a name is that of a mail directly in the folder.
func isMail(name string) bool {
	return path.Ext(name) == ".eml" && path.Base(name) == name && name[0] != '.'
}

// Source returns the content of a mail's file; the error may be [ErrNotFound].
func (b Box) Source(name string) ([]byte, error) {
	if !isMail(name) {
		return nil, ErrNotFound
	}
	root, err := b.open()
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if info, err := root.Lstat(name); err != nil || !info.Mode().IsRegular() { // List shows regular files only
		return nil, ErrNotFound
	}
	file, err := root.Open(name)
	if err != nil {
		return nil, classify("opening a mail", err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxMail))
	if err != nil {
		return nil, fmt.Errorf("reading a mail: %w", err)
	}
	return data, nil
}

// Read returns a mail; the error may be [ErrNotFound].
func (b Box) Read(name string) (Mail, error) {
	source, err := b.Source(name)
	if err != nil {
		return Mail{}, err
	}
	return parse(name, source), nil
}

// Delete removes a mail; the error may be [ErrNotFound].
func (b Box) Delete(name string) error {
	if !isMail(name) {
		return ErrNotFound
	}
	root, err := b.open()
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.Remove(name); err != nil {
		return classify("deleting a mail", err)
	}
	return nil
}

// Clear removes the mail upTo and all older ones. Newer mails, which the
// administrator has not seen, remain.
func (b Box) Clear(upTo string) error {
	names, err := b.names()
	if err != nil {
		return err
	}
	for _, name := range names {
		if name > upTo {
			break
		}
		if err := b.Delete(name); err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
	}
	return nil
}

func classify(doing string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return ErrNotFound
	}
	return fmt.Errorf("%s: %w", doing, err)
}
