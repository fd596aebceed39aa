//go:build !race

package testkit

// RaceDetector reports whether this test binary was built with -race.
const RaceDetector = false
