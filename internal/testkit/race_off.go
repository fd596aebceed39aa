//go:build !race

package testkit

// raceDetector tells whether this test binary was built with -race.
const raceDetector = false
