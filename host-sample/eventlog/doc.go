// Package eventlog keeps what happens to accounts in a file, one JSON object on a
// line, and reads it from its end.
package eventlog
