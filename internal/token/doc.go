// Package token makes and reads the random tokens of the module: those that are
// mailed, and the chained secrets behind a session's user_hash. What is stored
// of them are digests only: HTTP contract, section 3.
package token
