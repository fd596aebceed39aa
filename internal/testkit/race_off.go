//go:build !race

package testkit

// RaceDetector tells whether this test binary was built with -race.
const RaceDetector = false
