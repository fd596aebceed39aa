// Package pluginrpc carries the contract of package personal across the border
// of a process, with go-plugin and gRPC.
//
// A plugin's main calls [Serve] with a [Builder]. A host starts the process with
// go-plugin, giving it [Handshake] and [VersionedPlugins], and dispenses
// [PluginName]: a [Connection], by which it drives the module's life cycle.
// [NewService] makes a personal.Service of a connection, or of anything that
// forwards calls to one, and [NewAdministration] a personal.Administration.
//
// What belongs to a call travels as metadata: the values of personal.Call. Errors
// of the contract cross whole but for their cause, which stays in the log of the
// process where it arose; any other error crosses as an internal one, without its
// text. No uncertain outcome looks like a success.
//
// Nobody else sees protobuf's types. The package needs a Unix.
package pluginrpc
