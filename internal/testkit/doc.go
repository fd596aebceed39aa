// Package testkit provides what tests run against: databases, a PostgreSQL server and
// the built programs.
package testkit
