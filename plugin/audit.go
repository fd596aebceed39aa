package main

import (
	"context"
	"io"
	"time"

	"github.com/cms-personal/personal/internal/transfer"
)

type auditCommand struct {
	databaseFlag
	Since time.Duration `placeholder:"DURATION" help:"How far back, like 24h; by default all there is, see audit.retention."`
}

// Run prints what happened to accounts.
func (c auditCommand) Run(ctx context.Context, w io.Writer) error {
	db, err := c.find(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	var since time.Time
	if c.Since > 0 {
		since = db.Now().Add(-c.Since)
	}
	return transfer.ExportAudit(ctx, db, since, w)
}
