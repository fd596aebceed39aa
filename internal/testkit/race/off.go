//go:build !race

// Package race says whether a test runs with the race detector.
package race

// Enabled reports whether this test binary was built with -race.
const Enabled = false
