package personal

import "slices"

// parameterNames are the parameters that operations have of their own, each a scalar (HTTP contract,
// section 3). Later parameters are not added: a site may have a user field of that name.
var parameterNames = []string{"login", "password", "confirm_password", "email", "name", "token", "old_password", "all", "id", "code"}

// ParameterNames returns the names that are reserved because operations have parameters of these
// names. No user field and no transient parameter may have one, and sent more than once it makes a
// request malformed.
func ParameterNames() []string { return slices.Clone(parameterNames) }

// IsParameter reports whether a name is one of [ParameterNames].
func IsParameter(name string) bool { return slices.Contains(parameterNames, name) }
