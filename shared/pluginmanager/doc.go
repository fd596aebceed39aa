// Package pluginmanager runs the personal-account plugin: it starts the active
// version of a catalogue, checks it before any request reaches it, replaces it
// when it dies or hangs, and ends it with the host.
//
// A [Manager] is a grpc.ClientConnInterface: a service made on it by
// [pluginrpc.NewService] outlives the processes behind it.
//
// One goroutine, the owner, decides which process serves, and watches it. What
// callers see, the live process and the counts of calls in it, is behind one
// mutex. There is one way to bring a process up, for boot, restart and swap.
// Every step that waits for a process has a deadline, and behind every deadline
// stands SIGKILL to the process group, which no process can refuse.
//
// [Manager.Use] swaps versions while calls go on. A goroutine of the swap's own
// brings the new process up beside the old one and then gives the owner orders:
// to settle an earlier swap, and to switch. After the switch the new version is
// on trial for [Config].Bake while the old process stays warm, its background
// work stopped; if the new one dies, answers no health check, or fails too many
// calls, the owner switches back. Overload is no reason to: while a process answers
// many calls, but late, the health checks it fails and the calls it leaves unanswered
// do not count. A process that gets no calls any more is looked after as well: one
// that hangs is killed, and its calls end at once. Only a version that has passed its
// trial becomes the active one on disk, and the one before it the last good one: a
// host that dies at any moment starts with a version that has served.
//
// The package works on Unix.
package pluginmanager
