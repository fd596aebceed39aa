// Package messages has the built-in messages of the API, which end users read, by language.
package messages

import "embed"

// Files has the texts of each language: en.json, for example.
//
//go:embed *.json
var Files embed.FS
