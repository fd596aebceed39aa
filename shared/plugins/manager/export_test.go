package manager

import (
	"context"

	"github.com/cms-personal/personal/shared/plugins/manager/rehearsal"
)

// SetScript replaces the script of rehearsals.
func (c *Config) SetScript(script func(context.Context, rehearsal.Config) (rehearsal.Result, error)) {
	c.script = script
}

// Limits returns the limits of a manager, for a test to change.
func (c *Config) Limits() *limits {
	if c.limits == nil {
		l := defaultLimits
		c.limits = &l
	}
	return c.limits
}
