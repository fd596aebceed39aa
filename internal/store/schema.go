package store

import "context"

// CheckSchema returns the version of the database's schema and, as a
// [*SchemaError], why this program can neither work on it nor migrate it.
func (s *Store) CheckSchema(ctx context.Context) (found int, err error) {
	found, minCompatible, err := s.SchemaVersion(ctx)
	if err != nil {
		return 0, err
	}
	_, err = schemaDone(found, minCompatible)
	return found, err
}
