package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/password"
	"github.com/cms-personal/personal/internal/rehearsal"
	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

// rehearsalReserve is how long before the deadline of its call a rehearsal ends, so that its
// result arrives in time.
const rehearsalReserve = 250 * time.Millisecond

// Rehearse implements [rpc.Module]. It shares nothing with the service that may serve
// at the same time, but the database and the settings. Where others need SQLite's only writer, it
// rehearses on an empty copy of the database.
func (m *module) Rehearse(ctx context.Context) (rpc.Rehearsal, error) {
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-rehearsalReserve))
		defer cancel()
	}
	result, err := m.rehearseOn(ctx, false)
	if errors.Is(err, store.ErrWriterNeeded) {
		m.log.InfoContext(ctx, "the rehearsal uses a copy of the database's schema: others need to write")
		result, err = m.rehearseOn(ctx, true)
		if len(result.Checks) > 0 && result.Checks[0].Reason == "" {
			result.Checks[0].Reason = "on an empty copy of the database: others needed to write"
		}
	}
	if errors.Is(err, accounts.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) {
		m.log.WarnContext(ctx, "there was no rehearsal", slog.Any("error", err))
		return rpc.Rehearsal{Checks: []rpc.RehearsalCheck{{
			Name: "rehearsal", Outcome: rpc.RehearsalSkipped, Interrupted: true, Reason: "the database was not available in time",
		}}}, nil
	}
	return result, err
}

// rehearseOn rehearses on the database, or on an empty copy in memory. The error is
// [store.ErrWriterNeeded] if it has ended early because others need to write.
func (m *module) rehearseOn(ctx context.Context, inMemory bool) (none rpc.Rehearsal, err error) {
	hasher, err := password.New(password.LowestParams(), 1)
	if err != nil {
		return none, err
	}
	rules := m.settings.accounts()
	rules.Keys = m.keys
	log := m.log.With(slog.Bool("rehearsal", true))
	clock := rehearsal.NewClock(m.store.Now())
	s, err := m.store.Rehearsal(ctx, store.RehearsalOptions{Options: store.Options{Clock: clock.Now, Log: log}, Copy: inMemory})
	if err != nil {
		return none, fmt.Errorf("beginning the rehearsal: %w", err)
	}
	c := rehearsal.Config{
		Store: s, Clock: clock, Settings: rules, Mails: m.mails, Hasher: hasher, Host: m.host, Log: log,
	}
	if m.rehearsed != nil {
		m.rehearsed(&c)
	}
	result, err := rehearsal.Run(ctx, c)
	if over := s.RehearsalOver(); errors.Is(over, store.ErrWriterNeeded) {
		return none, over
	}
	return result, err
}
