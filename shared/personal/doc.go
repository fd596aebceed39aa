// Package personal is the contract between a content management system, the host, and
// its personal-account module: what the module offers to visitors ([Service]) and to
// administrators ([Administration]), what it needs from the host ([Host]), and the
// errors of all three ([Error]).
//
// The package has plain Go types and imports the standard library only. A Service is
// the module itself, a client of a plugin process, or a fake: the test suite in
// package personaltest applies to all of them.
//
// The contract is independent of HTTP and gRPC. Values that belong to a call rather
// than to an operation, such as the request id, the locale and the client's address,
// travel in the context, see [Call]. "HTTP contract" in comments means the document
// that describes the HTTP API.
package personal
