package pluginrpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/pprof"
	"runtime/trace"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	personalv1 "github.com/cms-personal/personal/proto/personal/v1"
)

// The runtime profiles that are recorded for a while. All others are snapshots.
const (
	ProfileCPU   = "profile" // use of processors
	ProfileTrace = "trace"   // execution trace
)

const (
	// MaxProfileTime bounds how long a profile is recorded.
	MaxProfileTime = time.Minute

	// maxProfileSize keeps the response below MaxMessageSize, in bytes.
	maxProfileSize = MaxMessageSize - 64<<10
)

// IsRecorded reports whether a runtime profile of this name is recorded for a while.
func IsRecorded(name string) bool { return name == ProfileCPU || name == ProfileTrace }

// RuntimeProfile returns a profile of the plugin process: [ProfileCPU] or [ProfileTrace],
// recorded for a duration of 1 s to [MaxProfileTime] in whole seconds, or one of
// runtime/pprof, such as "heap". Profiles show code, not data. The error is a
// [*PermanentError] if the plugin does not know the name, or offers no profiles.
func (c *Connection) RuntimeProfile(ctx context.Context, name string, duration time.Duration) ([]byte, error) {
	response, err := c.lifecycle.RuntimeProfile(ctx, &personalv1.RuntimeProfileRequest{Name: name, Seconds: int64(duration / time.Second)})
	if status.Code(err) == codes.Unimplemented {
		return nil, &PermanentError{Reason: "this version of the plugin offers no profiles"}
	}
	return response.GetData(), lifecycleError(ctx, err)
}

// RuntimeProfile works without a module and fails when the process stops.
func (s *lifecycleServer) RuntimeProfile(ctx context.Context, in *personalv1.RuntimeProfileRequest) (*personalv1.RuntimeProfileResponse, error) {
	data, err := runtimeProfile(ctx, in.GetName(), time.Duration(in.GetSeconds())*time.Second)
	return &personalv1.RuntimeProfileResponse{Data: data}, err
}

// runtimeProfile returns a profile of this process.
func runtimeProfile(ctx context.Context, name string, duration time.Duration) ([]byte, error) {
	if IsRecorded(name) && (duration < time.Second || duration > MaxProfileTime) {
		return nil, &PermanentError{Reason: fmt.Sprintf("a profile is recorded for 1s to %v, not %v", MaxProfileTime, duration)}
	}
	var data limitedBuffer
	var err error
	switch name {
	case ProfileCPU:
		err = record(ctx, duration, &data, pprof.StartCPUProfile, pprof.StopCPUProfile)
	case ProfileTrace:
		err = record(ctx, duration, &data, trace.Start, trace.Stop)
	default:
		profile := pprof.Lookup(name)
		if profile == nil {
			return nil, &PermanentError{Reason: fmt.Sprintf("there is no profile %q", name)}
		}
		err = profile.WriteTo(&data, 0)
	}
	if err == nil {
		err = data.err // start and stop do not return it
	}
	return data.buffer.Bytes(), err
}

// record runs a recorder for a duration, or until ctx ends, which is an error.
func record(ctx context.Context, duration time.Duration, w io.Writer, start func(io.Writer) error, stop func()) error {
	if err := start(w); err != nil {
		return err
	}
	defer stop()
	select {
	case <-time.After(duration):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

var errProfileSize = errors.New(`the profile is larger than 4 MiB; record "profile" or "trace" for less time`)

// limitedBuffer is a buffer that refuses to grow beyond maxProfileSize.
type limitedBuffer struct {
	buffer bytes.Buffer
	err    error // that of the first write it refused
}

// Write appends p, or nothing.
func (b *limitedBuffer) Write(p []byte) (int, error) {
	if b.err == nil && b.buffer.Len()+len(p) > maxProfileSize {
		b.err = errProfileSize
	}
	if b.err != nil {
		return 0, b.err
	}
	return b.buffer.Write(p)
}
