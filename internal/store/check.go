package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/store/dbconn"
	"github.com/cms-personal/personal/internal/token"
)

// CheckUse returns a [*dbconn.SetupError] if the role of the database lacks a right on a table, and looks a
// session up, as requests do. It changes nothing.
func (s *Store) CheckUse(ctx context.Context) error {
	if err := s.checkRights(ctx); err != nil {
		return err
	}
	var selector []byte
	err := s.scan(ctx, "choose a session", s.read.NewRaw(`SELECT selector FROM personal_sessions
		WHERE id >= (SELECT min(id) + CAST(? * (max(id) - min(id)) AS BIGINT) FROM personal_sessions) ORDER BY id LIMIT 1`, rand.Float64()), &selector)
	if err == nil && len(selector) != len(token.Selector{}) {
		err = fmt.Errorf("choose a session: the selector has %d bytes", len(selector))
	}
	if err == nil {
		_, _, err = s.FindSession(ctx, token.Selector(selector), accounts.AccountProfile)
	}
	if errors.Is(err, accounts.ErrNotFound) { // there is none, or it has ended since
		return nil
	}
	return err
}

var createsTable = regexp.MustCompile(`CREATE TABLE (personal_\w+)`)

// checkRights refuses a role that may not read or write each table of the migrations.
func (s *Store) checkRights(ctx context.Context) error {
	if s.lacking == "" {
		return nil
	}
	var tables []string
	for version := SchemaMinimum; version <= SchemaTarget; version++ {
		statements, err := s.migration(version)
		if err != nil {
			return err
		}
		for _, table := range createsTable.FindAllStringSubmatch(statements, -1) {
			tables = append(tables, table[1])
		}
	}
	var lacking []string
	err := s.scan(ctx, "look for rights", s.write.NewRaw(s.lacking, strings.Join(tables, ",")), &lacking)
	if err != nil || len(lacking) == 0 {
		return err
	}
	return &dbconn.SetupError{
		Problem: "as the owner of the tables run GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA … TO the role of the database URL " +
			"(docs/postgresql.md, Rights in PostgreSQL)",
		Err: fmt.Errorf("the role lacks %d rights: %s", len(lacking), strings.Join(lacking[:min(len(lacking), 5)], ", ")),
	}
}
