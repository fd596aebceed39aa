package pluginrpc

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	personalv1 "github.com/cms-personal/personal/proto/personal/v1"
)

func TestRuntimeProfile_RecordedAndMomentary(t *testing.T) {
	gzip := []byte{0x1f, 0x8b}
	for name, tt := range map[string]struct {
		duration time.Duration
		start    []byte
	}{
		"heap":       {0, gzip},
		"goroutine":  {0, gzip},
		ProfileCPU:   {time.Second, gzip},
		ProfileTrace: {time.Second, []byte("go 1.")},
	} {
		data, err := runtimeProfile(t.Context(), name, tt.duration)
		if err != nil || !bytes.HasPrefix(data, tt.start) {
			t.Errorf("%s: got %d bytes (%v), want a profile", name, len(data), err)
		}
	}
}

func TestRuntimeProfile_InvalidRequestIsPermanentError(t *testing.T) {
	for name, duration := range map[string]time.Duration{"passwords": 0, ProfileCPU: 0, ProfileTrace: MaxProfileTime + time.Second} {
		_, err := runtimeProfile(t.Context(), name, duration)
		var permanent *PermanentError
		if !errors.As(err, &permanent) {
			t.Errorf("%s for %v: got %v, want a permanent error", name, duration, err)
		}
	}
}

func TestRuntimeProfile_EndsWithContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := runtimeProfile(ctx, ProfileCPU, MaxProfileTime); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want a cancelled context", err)
	}
}

func TestRuntimeProfile_OlderPluginIsPermanentError(t *testing.T) {
	c := &Connection{lifecycle: olderPlugin{}}
	_, err := c.RuntimeProfile(t.Context(), "heap", 0)
	var permanent *PermanentError
	if !errors.As(err, &permanent) || !strings.Contains(permanent.Reason, "offers no profiles") {
		t.Errorf("got %v, want that this version offers no profiles", err)
	}
}

func TestSettle_OlderPluginIsNoError(t *testing.T) {
	if err := (&Connection{lifecycle: olderPlugin{}}).Settle(t.Context()); err != nil {
		t.Error(err)
	}
}

// olderPlugin does not know these calls.
type olderPlugin struct {
	personalv1.LifecycleServiceClient
}

func (olderPlugin) RuntimeProfile(context.Context, *personalv1.RuntimeProfileRequest, ...grpc.CallOption) (*personalv1.RuntimeProfileResponse, error) {
	return nil, status.Error(codes.Unimplemented, "unknown method RuntimeProfile")
}

func (olderPlugin) Settle(context.Context, *personalv1.SettleRequest, ...grpc.CallOption) (*personalv1.SettleResponse, error) {
	return nil, status.Error(codes.Unimplemented, "unknown method Settle")
}

func TestLimitedBuffer_RefusesLargeProfile(t *testing.T) {
	var b limitedBuffer
	if _, err := b.Write(make([]byte, maxProfileSize)); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Write([]byte{1}); !errors.Is(err, errProfileSize) || !errors.Is(b.err, errProfileSize) {
		t.Errorf("got %v, want that the profile is too large", err)
	}
	if got := b.buffer.Len(); got != maxProfileSize {
		t.Errorf("got %d bytes, want %d", got, maxProfileSize)
	}
}
