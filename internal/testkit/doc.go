// Package testkit provides the real parts that tests run against: a PostgreSQL
// server of their own and the built binaries.
package testkit
