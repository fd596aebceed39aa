package userfields

import "regexp"

var snakeCase = regexp.MustCompile(`\A[a-z][a-z0-9]*(_[a-z0-9]+)*\z`)

// isParameter tells the parameters of the operations, which no field may be
// called: HTTP contract, section 3. All of them are scalars.
func isParameter(name string) bool {
	switch name {
	case "login", "password", "confirm_password", "email", "name", "token", "old_password", "all", "id":
		return true
	}
	return false
}

// isSystem tells the names of what only the system may set: HTTP contract,
// section 3, register. Sending one is a fault rather than an unknown name, so
// that nobody believes to have been given a group.
func isSystem(name string) bool {
	switch name {
	case "id", "user_id", "user_hash", "login_key", "groups", "roles", "disabled", "created", "updated", "token":
		return true
	}
	return false
}
