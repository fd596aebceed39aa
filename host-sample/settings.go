package main

import (
	"fmt"
	"os"
)

// settingsSource returns what the plugin gets as its settings at every start:
// the file as it is then, unread. Without a file this CMS only says where its
// pages are. They are named by the configured listener, never by what a request
// says its host is: whoever asks for a recovery must not choose where the
// token goes.
//
// Mails that leave the machine get no such link: of the address that others know
// the site by, the listener knows nothing.
func settingsSource(file, url string, captured bool) func() ([]byte, error) {
	if file == "" && !captured {
		return func() ([]byte, error) { return nil, nil }
	}
	if file == "" {
		pages := fmt.Appendf(nil, "[recovery]\nurl = %q\n\n[email]\nurl = %q\n",
			url+"/account/recover#token={token}", url+"/account/email#token={token}")
		return func() ([]byte, error) { return pages, nil }
	}
	return func() ([]byte, error) {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("reading the plugin's settings: %w", err)
		}
		return data, nil
	}
}
