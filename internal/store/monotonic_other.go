//go:build !linux

package store

import "time"

func monotonic() func() time.Duration { return monotonicOfProcess() }
