package main

import (
	"context"

	"github.com/cms-personal/personal/shared/pluginrpc"
)

// Rehearse implements [pluginrpc.Module].
func (m *module) Rehearse(context.Context) (pluginrpc.Rehearsal, error) {
	return pluginrpc.Rehearsal{}, nil
}
