// Package password hashes passwords, judges new ones, and bounds the work that
// both cost.
//
// A password passes through three steps: [Policy.Check] prepares and judges a
// new one, [Canonical] prepares one that was entered at sign-in, and a [Hasher]
// makes and compares hashes of prepared ones. No error ever holds a password or
// a hash.
package password
