// Package testkit provides the real parts that tests run against: a temporary
// PostgreSQL server and the built binaries.
package testkit
