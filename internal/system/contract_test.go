package system

import (
	"testing"

	"github.com/cms-personal/personal/internal/testkit"
)

// TestContract checks what holds under every setting on one running system for
// each database; what needs settings of its own has tests of its own.
func TestContract(t *testing.T) {
	t.Parallel()
	themes := []struct {
		name string
		test func(*testing.T, *system)
	}{
		{"paths and methods", testRouting},
		{"request bodies", testBodies},
		{"the order of faults", testOrder},
		{"headers and languages", testHeaders},
		{"the description", testDescription},
		{"sign-in", testAuth},
		{"identity", testIdentity},
		{"registration", testRegister},
		{"user fields", testUserFields},
		{"the schema of user fields", testSchema},
		{"profile", testProfile},
		{"sessions", testSessions},
		{"password change", testPassword},
		{"recovery", testRecovery},
		{"e-mail change", testEmail},
		{"races", testRaces},
		{"the host's own pages", testHost},
	}
	testkit.Databases(t, func(t *testing.T, database string) {
		s := start(t, options{database: database, settings: cheap + unthrottled + links})
		s.putSchema(t, schema)
		for _, theme := range themes {
			t.Run(theme.name, func(t *testing.T) { theme.test(t, s) })
		}
	})
}
