package store

import "context"

// CheckSchema returns the version of the database's schema, the least
// SchemaTarget of a program that can work on it once Migrate is done, and, as a
// [*SchemaError], why this program can neither work on it nor migrate it.
func (s *Store) CheckSchema(ctx context.Context) (found, compatible int, err error) {
	found, compatible, err = s.SchemaVersion(ctx)
	if err != nil {
		return 0, 0, err
	}
	done, err := schemaDone(found, compatible)
	if !done {
		compatible = max(compatible, schemaCompatible)
	}
	return found, compatible, err
}
