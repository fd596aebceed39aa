package pluginrpc

import (
	"context"

	personalv1 "github.com/cms-personal/personal/proto/personal/v1"
)

type lifecycleClient struct {
	client personalv1.LifecycleServiceClient
}

func (c lifecycleClient) configure(ctx context.Context, configuration Configuration, hostID uint32) error {
	_, err := c.client.Configure(ctx, configureToPB(configuration, hostID))
	return lifecycleError(ctx, err)
}

// Preflight asks whether this version can run here.
func (c lifecycleClient) Preflight(ctx context.Context) (Report, error) {
	answer, err := c.client.Preflight(ctx, &personalv1.PreflightRequest{})
	if err != nil {
		return Report{}, lifecycleError(ctx, err)
	}
	return reportFromPB(answer), nil
}

// Migrate brings the database to the schema that this version needs.
func (c lifecycleClient) Migrate(ctx context.Context) error {
	_, err := c.client.Migrate(ctx, &personalv1.MigrateRequest{})
	return lifecycleError(ctx, err)
}

// Activate starts background work.
func (c lifecycleClient) Activate(ctx context.Context) error {
	_, err := c.client.Activate(ctx, &personalv1.ActivateRequest{})
	return lifecycleError(ctx, err)
}

// Quiesce stops background work and waits for what is under way.
func (c lifecycleClient) Quiesce(ctx context.Context) error {
	_, err := c.client.Quiesce(ctx, &personalv1.QuiesceRequest{})
	return lifecycleError(ctx, err)
}

// Health asks for one cheap read through everything a request needs.
func (c lifecycleClient) Health(ctx context.Context) error {
	_, err := c.client.Health(ctx, &personalv1.HealthRequest{})
	return lifecycleError(ctx, err)
}
