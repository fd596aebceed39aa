package manager

// Limits returns the limits of a manager, for a test to change.
func (c *Config) Limits() *limits {
	if c.limits == nil {
		l := defaultLimits
		c.limits = &l
	}
	return c.limits
}
