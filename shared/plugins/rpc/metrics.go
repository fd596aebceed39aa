package rpc

import (
	"context"
	"fmt"
	"path"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	personalv1 "github.com/cms-personal/personal/proto/personal/v1"
)

// maxMetricsSize bounds the metrics that a host accepts from a plugin, in bytes, so that a
// defective version cannot fill the memory of the host or of what stores its metrics.
const maxMetricsSize = 1 << 20

// Metrics returns what [Module].Metrics returns in the plugin process. More than 1 MiB is an
// error.
func (c *Connection) Metrics(ctx context.Context) ([]byte, error) {
	response, err := c.lifecycle.Metrics(ctx, &personalv1.MetricsRequest{})
	text := response.GetText()
	switch {
	case err != nil:
		return nil, lifecycleError(ctx, err)
	case len(text) > maxMetricsSize:
		return nil, fmt.Errorf("the plugin's metrics have %d bytes, at most %d are accepted", len(text), maxMetricsSize)
	}
	return text, nil
}

// Metrics implements the RPC.
func (s *lifecycleServer) Metrics(ctx context.Context, _ *personalv1.MetricsRequest) (*personalv1.MetricsResponse, error) {
	text, err := s.module().Metrics(ctx)
	return &personalv1.MetricsResponse{Text: text}, err
}

// Outcome classifies how an operation ended.
type Outcome string

// The outcomes of an operation.
const (
	OutcomeOK          Outcome = "ok"
	OutcomeRefused     Outcome = "refused"     // the caller's doing: a wrong password, an invalid value, a used up limit
	OutcomeUnavailable Outcome = "unavailable" // overload, no database, or the caller hung up
	OutcomeInternal    Outcome = "internal"    // an error of the plugin
)

// Outcomes returns all outcomes.
func Outcomes() []Outcome {
	return []Outcome{OutcomeOK, OutcomeRefused, OutcomeUnavailable, OutcomeInternal}
}

// outcomeOf returns the outcome of a call that ended with a status.
func outcomeOf(err error) Outcome {
	switch status.Code(err) {
	case codes.OK:
		return OutcomeOK
	case codes.Unavailable, codes.Canceled, codes.DeadlineExceeded:
		return OutcomeUnavailable
	case codes.Internal, codes.Unknown, codes.DataLoss:
		return OutcomeInternal
	}
	return OutcomeRefused
}

// Observer is called in the plugin process after every call of an operation, see
// [MethodNames]. It must be fast and safe for concurrent use.
type Observer func(operation string, outcome Outcome, took time.Duration)

// call calls the observer, if there is one, after a call that ended with a status.
func (o Observer) call(fullMethod string, err error, took time.Duration) {
	if o != nil {
		o(path.Base(fullMethod), outcomeOf(err), took)
	}
}
