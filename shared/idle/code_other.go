//go:build !linux

package idle

func releaseCode() {}
