package system

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhost"
	"github.com/cms-personal/personal/shared/plugins/manager"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

// plantedPackage is added to the plugin with planted faults. Faults are on in processes that start
// while lines of the file that the variable names are their names.
const plantedPackage = `package planted

import (
	"os"
	"slices"
	"strings"
)

var file, _ = os.ReadFile(os.Getenv("` + plantedVariable + `"))
var on = strings.Split(string(file), "\n")

// Is reports whether a fault is on.
func Is(name string) bool { return slices.Contains(on, name) }

var first any

// First returns the first value that it got.
func First[T any](v T) T {
	if first == nil {
		first = v
	}
	return first.(T)
}
`

const plantedVariable = "PERSONAL_PLANTED_FAULT_FILE"

// plantedFault is a fault in the plugin's source: in a file, a text that occurs once is replaced.
// FAULT in the replacement stands for the condition that the fault is on.
type plantedFault struct {
	name, file, old, faulty string
	check, operation, field string // which name the fault
}

// plantedFaults are accidents that a release may have.
var plantedFaults = []plantedFault{
	{
		"any password is right", "internal/password/hasher.go",
		"		if s.matches(form) {", "		if s.matches(form) || FAULT {",
		"wrong_password", "Authorize", "error_code",
	},
	{
		"a wrong password is an internal error", "internal/accounts/authorize.go",
		`		return account, "", refusal(personal.CodeInvalidCredentials)`,
		`		if FAULT {
			return account, "", refusal(personal.CodeInternal)
		}
		return account, "", refusal(personal.CodeInvalidCredentials)`,
		"wrong_password", "Authorize", "error_code",
	},
	{
		"user fields are not read", "internal/store/rows.go",
		"	values, err := userfields.DecodeValues(data)\n",
		"	values, err := userfields.DecodeValues(data)\n	if FAULT {\n		values = nil\n	}\n",
		"sign_in", "Authorize", "phone",
	},
	{
		"the profile is another user's", "internal/accounts/profile.go",
		"	p := profile(who.account, schema)\n",
		"	if FAULT {\n		who.account = planted.First(who.account)\n	}\n	p := profile(who.account, schema)\n",
		"other_user", "Profile", "login",
	},
	{
		"a mail's template panics", "internal/mailtext/mailtext.go",
		"	languages, ok := s.kinds[k]\n	if !ok {\n		return \"\", \"\", \"\", CheckKind(k)",
		"	languages, ok := s.kinds[k]\n	if k == Recovered && FAULT {\n		panic(\"no such block\")\n	}\n	if !ok {\n		return \"\", \"\", \"\", CheckKind(k)",
		"mails", "RecoverConfirm", "recovered.en",
	},
	{
		"a migration drops a value of old accounts", "internal/store/rows.go",
		"		Created: r.Created.time(), Updated:",
		"		Created: map[bool]time.Time{false: r.Created.time()}[FAULT && r.Login == \"anna\"], Updated:",
		"same_answers", "User", "created",
	},
	{
		"refresh returns the old hash", "internal/accounts/sessions.go",
		"		return credentials(who.account.ID, who.session.Selector, next), nil",
		"		if FAULT {\n			next = who.secret\n		}\n		return credentials(who.account.ID, who.session.Selector, next), nil",
		"refresh", "Refresh", "user_hash",
	},
	{
		"a lost response ends the session", "internal/accounts/chain.go",
		"	case behind == 0:\n		return current\n",
		"	case behind == 0:\n		return current\n	case FAULT:\n		return stolen\n",
		"lost_response", "Refresh", "error_code",
	},
	{
		"erasing forgets a table", "internal/store/administration.go",
		"	_, err = exec(ctx, tx, \"DELETE FROM personal_accounts WHERE id = ?\", a.ID)\n",
		"	if !FAULT {\n		_, err = exec(ctx, tx, \"DELETE FROM personal_accounts WHERE id = ?\", a.ID)\n	}\n",
		"erasure", "Delete", "personal_accounts",
	},
	{
		"hidden fields are shown", "shared/userfields/profile.go",
		"return s.byName[f.Name].Hidden })", "return s.byName[f.Name].Hidden && !FAULT })",
		"register", "Register", "rating",
	},
	{
		"read-only fields can be set", "shared/userfields/validate.go",
		"{ return !f.Hidden && !f.ReadOnly }", "{ return !f.Hidden && (!f.ReadOnly || FAULT) }",
		"hidden_fields", "UpdateProfile", "error_code",
	},
	{
		"the name is lost between plugin and host", "shared/plugins/rpc/convert_generated.go",
		"	personalv1Profile.Name = source.Name\n", "	if !FAULT {\n		personalv1Profile.Name = source.Name\n	}\n",
		"register", "Register", "name",
	},
	{
		"other sessions survive a new password", "internal/store/accounts.go",
		"	return revokeAll(ctx, tx, accountID, kept.ID)", "	if FAULT {\n		return nil\n	}\n	return revokeAll(ctx, tx, accountID, kept.ID)",
		"password", "Profile", "error_code",
	},
	{
		"an ended session lives on", "internal/store/sessions.go",
		"	const remove = \"DELETE FROM personal_sessions", "	if FAULT {\n		return nil\n	}\n	const remove = \"DELETE FROM personal_sessions",
		"sessions", "Profile", "error_code",
	},
	{
		"users can end sessions of others", "internal/store/sessions.go",
		"		_, err := s.exec(ctx, \"revoke a session\", remove, accountID, id)",
		"		_, err := s.exec(ctx, \"revoke a session\", map[bool]string{false: remove, true: \"DELETE FROM personal_sessions WHERE (account_id = ? OR TRUE) AND id = ?\"}[FAULT], accountID, id)",
		"other_user", "Profile", "error_code",
	},
	{
		"disabled users sign in", "internal/accounts/authorize.go",
		"	case a.Disabled:\n		return personal.CodeAccountDisabled", "	case a.Disabled && !FAULT:\n		return personal.CodeAccountDisabled",
		"administration", "Authorize", "error_code",
	},
	{
		"a code of the app is valid twice", "internal/store/twofactorcode.go",
		"	case code.Step != 0:\n		return execOne", "	case FAULT:\n		return nil\n	case code.Step != 0:\n		return execOne",
		"second_factor", "Authorize", "error_code",
	},
	{
		"a mailed token is not stored", "internal/accounts/mail.go",
		"	err = s.store.AddMailToken(ctx, t)\n", "	if !FAULT {\n		err = s.store.AddMailToken(ctx, t)\n	}\n",
		"verification", "ConfirmEmail", "error_code",
	},
	{
		"the export has no sessions", "internal/accounts/export.go",
		"	if e.KnownAddresses, err =", "	if FAULT {\n		e.Sessions = nil\n	}\n	if e.KnownAddresses, err =",
		"export", "Export", "sessions",
	},
	{
		"undoing a deletion does nothing", "internal/store/deletion.go",
		"			SET disabled = FALSE, credential_version = credential_version + 1, erase_at = 0, updated = ? WHERE id = ?`,",
		"			SET disabled = FALSE, credential_version = credential_version + 1, erase_at = 0, updated = ? WHERE id = ?`+map[bool]string{true: \" AND FALSE\"}[FAULT],",
		"undo", "Authorize", "error_code",
	},
}

// plantedPlugin builds a plugin in which plantedVariable switches the faults on.
func plantedPlugin(t *testing.T, version string) string {
	t.Helper()
	root, err := filepath.Abs(repository)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	write := func(file, text string) {
		replacement := filepath.Join(dir, fmt.Sprint(len(overlay.Replace), ".go"))
		overlay.Replace[filepath.Join(root, file)] = replacement
		if err := os.WriteFile(replacement, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("internal/planted/planted.go", plantedPackage)
	changed := map[string]string{}
	for _, f := range plantedFaults {
		source, ok := changed[f.file]
		if !ok {
			source = strings.Replace(readFile(t, filepath.Join(root, f.file)), "import (\n",
				"import (\n\t\"github.com/cms-personal/personal/internal/planted\"\n", 1)
		}
		if n := strings.Count(source, f.old); n != 1 {
			t.Fatalf("%s: the text to replace occurs %d times in %s, want once", f.name, n, f.file)
		}
		changed[f.file] = strings.Replace(source, f.old, strings.ReplaceAll(f.faulty, "FAULT", fmt.Sprintf("planted.Is(%q)", f.name)), 1)
	}
	for file, source := range changed {
		write(file, source)
	}
	data, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "personal")
	out, err := exec.Command("go", "build", "-trimpath", "-overlay", filepath.Join(dir, "overlay.json"), "-ldflags",
		"-s -w -X main.version="+version, "-o", binary, "github.com/cms-personal/personal/plugin").CombinedOutput()
	if err != nil {
		t.Fatalf("building the plugin with planted faults: %v\n%s", err, out)
	}
	return binary
}

// rehearsingModule opens a module with a user and another version installed. In plugins with planted
// faults the one is on that the file names.
func rehearsingModule(t *testing.T, other, file string) *personalhost.Module {
	t.Helper()
	c := moduleConfig(t)
	c.Settings = func() ([]byte, error) {
		return []byte(cheap + unthrottled + "[two_factor]\nenabled = true\n"), nil
	}
	c.Manager.Env, c.Manager.Rehearse = []string{plantedVariable + "=" + file}, manager.RehearseRefuse
	fields := `[{"name":"phone","type":"text"},{"name":"rating","type":"integer","hidden":true},{"name":"member","type":"text","read_only":true}]`
	if err := os.WriteFile(filepath.Join(c.Data, "user-fields.json"), []byte(fields), 0o600); err != nil {
		t.Fatal(err)
	}
	m := openModule(t, c)
	_, err := m.Service().Register(t.Context(), personal.RegisterRequest{
		Login: "anna", Password: "correct horse", ConfirmPassword: "correct horse", Email: "anna@example.com",
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Catalogue().Install(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	return m
}

// One program has faults of the kinds that releases had: it is refused before the first
// request reaches it, and each fault is named. A process has several faults. Those of registering,
// signing in, and hidden fields stand alone, because they keep later checks from finding others.
func TestRehearsal_NamesPlantedFaults(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "fault")
	m := rehearsingModule(t, plantedPlugin(t, "1.1.0"), file)
	serving := m.Manager().Status().Version
	use := func(t *testing.T, faults ...string) (manager.Status, error) {
		if err := os.WriteFile(file, []byte(strings.Join(faults, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
		err := m.Manager().Use(t.Context(), "1.1.0")
		return m.Manager().Status(), err
	}
	var groups [][]plantedFault
	var others []plantedFault
	for _, f := range plantedFaults {
		if f.check == "register" || f.check == "sign_in" || f.check == "hidden_fields" {
			groups = append(groups, []plantedFault{f})
		} else {
			others = append(others, f)
		}
	}
	const processes = 5
	for i := range processes {
		var group []plantedFault
		for j := i; j < len(others); j += processes { // neighbours, which the same check finds, go to several processes
			group = append(group, others[j])
		}
		groups = append(groups, group)
	}
	for _, group := range groups {
		var names []string
		for _, f := range group {
			names = append(names, f.name)
		}
		t.Run(strings.Join(names, ", and "), func(t *testing.T) {
			status, err := use(t, names...)
			var refused *manager.SwapError
			if !errors.As(err, &refused) || refused.Step != "rehearse" {
				t.Errorf("got error %v, want a refusal at the step rehearse", err)
			}
			if status.Version != serving {
				t.Errorf("version %s serves, want %s", status.Version, serving)
			}
			for _, f := range group {
				i := slices.IndexFunc(status.Rehearsal.Checks, func(c rpc.RehearsalCheck) bool { return c.Name == f.check })
				want := rpc.Difference{Operation: f.operation, Field: f.field}
				if i < 0 || !slices.Contains(status.Rehearsal.Checks[i].Differences, want) {
					t.Errorf("%s: got checks %+v, want %s to name %s %s", f.name, status.Rehearsal.Checks, f.check, want.Operation, want.Field)
				}
			}
		})
	}
	t.Run("no fault", func(t *testing.T) {
		if status, err := use(t); err != nil {
			t.Errorf("got error %v, checks %+v", err, status.Rehearsal)
		}
	})
}
