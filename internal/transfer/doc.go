// Package transfer brings accounts in from elsewhere and gives them back: the
// import of CSV and NDJSON files, the export, and the wrapping of MD5 hashes that
// were imported bare.
//
// An import flows one way: records are read from the file (records.go, csv.go,
// ndjson.go), become accounts or are refused (row.go), go into batches, of which
// what is there already is left out before MD5 hashes are wrapped (batch.go), and
// are stored a batch at a time (import.go).
package transfer
