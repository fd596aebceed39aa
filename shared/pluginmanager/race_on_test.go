//go:build race

package pluginmanager_test

const raceDetector = true
