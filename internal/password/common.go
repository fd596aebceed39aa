package password

import (
	_ "embed"
	"slices"
	"strings"
	"sync"
)

// commonText holds common passwords in lower case, sorted by bytes, one a line.
// Its source and licence stand in common/LICENSE.txt.
//
//go:embed common/passwords.txt
var commonText string

// commonList splits the text when it is first asked for.
var commonList = sync.OnceValue(func() []string {
	return strings.Split(strings.TrimSuffix(commonText, "\n"), "\n")
})

// isCommon reports whether a password is among the common ones, in any case.
func isCommon(password string) bool {
	_, found := slices.BinarySearch(commonList(), strings.ToLower(password))
	return found
}
