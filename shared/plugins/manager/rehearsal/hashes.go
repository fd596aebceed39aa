package rehearsal

import (
	"maps"
	"slices"
)

// hashes are users with a hash of every stored format.
var hashes = []struct{ login, password, hash string }{
	{"ada_argon2id", "password", "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4"},
}

func sorted(users map[string]*user) []string { return slices.Sorted(maps.Keys(users)) }
