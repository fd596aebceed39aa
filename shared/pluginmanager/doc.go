// Package pluginmanager runs the personal-account plugin: it starts the active
// version of a catalogue, checks it before any request reaches it, replaces it
// when it dies or hangs, and ends it with the host.
//
// A [Manager] is a grpc.ClientConnInterface: a service made on it by
// [pluginrpc.NewService] outlives the processes behind it.
//
// Everything about a process's life happens in one goroutine, the owner: bring
// up (one way for boot and restart), watch, retire. What callers see, the live
// process and the counts of calls in it, is behind one mutex. Every step that
// waits for a process has a deadline, and behind every deadline stands SIGKILL
// to the process group, which no process can refuse.
//
// The package works on Unix.
package pluginmanager
