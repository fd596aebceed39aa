package personalhttp

import (
	"errors"
	"slices"

	"github.com/cms-personal/personal/shared/personal"
)

// params are a request's parameters by name.
type params map[string]personal.Input

// except returns all parameters but the named ones; never nil.
func (p params) except(names ...string) map[string]personal.Input {
	rest := make(map[string]personal.Input, len(p))
	for name, in := range p {
		if !slices.Contains(names, name) {
			rest[name] = in
		}
	}
	return rest
}

// reader reads standard parameters and gathers what is wrong with them. A
// value of the wrong type becomes a fault that the service reports with its
// own findings, behind a 429 or a 401; a repeated scalar makes the request
// malformed at once.
type reader struct {
	params    params
	faults    personal.FieldErrors
	malformed error
}

// text returns a text parameter, "" if it is not set or at fault.
func (r *reader) text(name string) string {
	switch in := r.params[name]; in.Kind {
	case personal.InputUnset:
	case personal.InputText:
		return in.Text
	default:
		r.refuse(name, in.Kind)
	}
	return ""
}

// boolean returns a boolean parameter in any of the forms that the HTTP
// contract, section 1, names; false if it is not set or at fault.
func (r *reader) boolean(name string) bool {
	in := r.params[name]
	switch in.Kind {
	case personal.InputUnset:
		return false
	case personal.InputText, personal.InputBoolean:
		switch in.Text {
		case "true", "1", "on":
			return true
		case "false", "0", "off":
			return false
		}
	}
	r.refuse(name, in.Kind)
	return false
}

// done hands over the faults that were found, or returns why the request can't be
// read at all.
func (r *reader) done(faults *personal.FieldErrors) error {
	*faults = r.faults
	return r.malformed
}

func (r *reader) refuse(name string, kind personal.InputKind) {
	if kind == personal.InputRepeated {
		r.malformed = malformed(errors.New("a parameter that is no list was repeated"))
		return
	}
	r.faults.Add(name, personal.FieldErrorInvalidType)
}
