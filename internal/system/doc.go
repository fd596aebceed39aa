// Package system holds no code but tests: they check the HTTP contract from
// outside, over real HTTP, against the sample host and the plugin process it
// runs, on SQLite and on PostgreSQL. What they expect is read off the contract,
// not off the code.
package system
