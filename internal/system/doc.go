// Package system contains tests only. They run the sample host with its plugin process
// on SQLite and on PostgreSQL, and check it from outside over HTTP. What they expect is
// taken from the contract, not from the code.
package system
