// Package texts has the texts of the account pages, by language.
package texts

import "embed"

// Files has the texts of each language: en.json, for example.
//
//go:embed *.json
var Files embed.FS
