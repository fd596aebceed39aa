// Package texts has the texts of the admin pages by language. The command line explains in
// the English ones why a user cannot sign in.
package texts

import "embed"

// Files has the texts of each language: en.json, for example.
//
//go:embed *.json
var Files embed.FS
