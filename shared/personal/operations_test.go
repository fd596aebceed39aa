package personal_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/cms-personal/personal/shared/personal"
)

// Each method of the two interfaces has one row.
func TestOperations_AreTheMethodsOfTheContract(t *testing.T) {
	listed := map[bool][]string{}
	for _, o := range personal.Operations() {
		listed[o.Administration] = append(listed[o.Administration], string(o.Name))
	}
	for administration, contract := range map[bool]reflect.Type{
		false: reflect.TypeFor[personal.Service](),
		true:  reflect.TypeFor[personal.Administration](),
	} {
		var methods []string
		for m := range contract.Methods() {
			methods = append(methods, m.Name)
			if !slices.Contains(listed[administration], m.Name) {
				t.Errorf("%s.%s has no row: add a constant Op%[2]s and its row to shared/personal/operations.go", contract.Name(), m.Name)
			}
		}
		for _, name := range listed[administration] {
			if !slices.Contains(methods, name) {
				t.Errorf("%s has a row, but %s has no such method: remove the row and its constant from shared/personal/operations.go", name,
					contract.Name())
			}
		}
		if names := slices.Clone(listed[administration]); len(slices.Compact(slices.Sorted(slices.Values(names)))) != len(names) {
			t.Errorf("%s: an operation has two rows: %s", contract.Name(), names)
		}
	}
}

// An operation without credentials has no caller; administrators have none.
func TestOperations_RowsAreConsistent(t *testing.T) {
	for _, o := range personal.Operations() {
		switch {
		case o.Administration && o.Credentials:
			t.Errorf("%s: operations of administrators take no credentials", o.Name)
		case o.Changes == personal.ChangesCaller && !o.Credentials:
			t.Errorf("%s: without credentials there is no caller to change", o.Name)
		}
	}
}

// An operation opens a session, so that an [personal.Admission] judges it, if it returns the
// credentials of one and was not called with those of a session.
func TestOperations_OpensIsWhatReturnsNewCredentials(t *testing.T) {
	interfaces := map[bool]reflect.Type{false: reflect.TypeFor[personal.Service](), true: reflect.TypeFor[personal.Administration]()}
	for _, o := range personal.Operations() {
		m, ok := interfaces[o.Administration].MethodByName(string(o.Name))
		if !ok {
			continue // another test says so
		}
		opens := !o.Credentials && hasCredentials(m.Type.Out(0))
		if o.Opens != opens {
			t.Errorf("%s: got Opens %t, want %t: correct its row in shared/personal/operations.go, and judge it in Admission", o.Name, o.Opens, opens)
		}
	}
}

// hasCredentials reports whether a type contains credentials.
func hasCredentials(t reflect.Type) bool {
	if t == reflect.TypeFor[personal.Credentials]() {
		return true
	}
	if t.Kind() != reflect.Struct {
		return false
	}
	for f := range t.Fields() {
		if hasCredentials(f.Type) {
			return true
		}
	}
	return false
}
