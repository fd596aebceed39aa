// Package userfields turns a host's user-field schema into checks, and what
// callers send into typed values: the HTTP contract, section 4.
//
// A schema is compiled once ([Compile], [ParseJSON]) and is then safe for
// concurrent use. Hosts use the same package to refuse a faulty schema before it
// comes into force.
package userfields
