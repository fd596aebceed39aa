// Package password hashes passwords, judges new ones, and bounds the work that
// both cost.
//
// [Policy.Check] prepares and judges a new password, [Canonical] prepares one that
// was entered, and a [Hasher] makes and compares hashes: it makes Argon2id of
// prepared passwords, and compares with the formats of other systems as well, so
// that accounts can move in. Each format has a file of its own; [Adopt] takes a
// hash in. A Hasher serves the sources of requests in turn, and holds failures to the
// time of the slowest stored format ([Hasher.Measure]). No error ever holds a
// password or a hash.
package password
