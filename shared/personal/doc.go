// Package personal is the contract between a content management system and its
// personal-account module: what the module offers to visitors ([Service]) and to
// administrators ([Administration]), what it may ask of the system ([Host]), and
// the errors that cross between them ([Error]).
//
// The package holds plain Go types and depends on the standard library alone.
// A Service may be the domain itself, a client of a plugin process, or a fake:
// package personaltest holds one suite of tests that all of them pass.
//
// Nothing here knows HTTP or gRPC. Values that belong to a call rather than to
// an operation (request id, locale, client address) travel in the context, see
// [Call].
package personal
