package store

import (
	"io/fs"
	"regexp"
	"slices"
	"testing"
)

func TestParts_OfStatements(t *testing.T) {
	for _, tt := range []struct{ statement, operation, table string }{
		{"SELECT a FROM personal_sessions s JOIN personal_accounts a", "SELECT", "personal_sessions"},
		{"\n\t\twith due AS (SELECT id FROM personal_jobs j)", "WITH", "personal_jobs"},
		{`INSERT INTO "personal_mail_tokens" VALUES ('personal_accounts')`, "INSERT", "personal_mail_tokens"},
		{"DELETE FROM personal_mails; UPDATE personal_accounts", "DELETE", "personal_mails"},
		{"BEGIN", "BEGIN", ""},
		{"SELECTED 'anna'", "other", ""},
		{"anna personal_anna personal_ personal_accountsanna personal_accounts", "other", "personal_accounts"},
		{"", "other", ""},
	} {
		if operation, table := parts(tt.statement); operation != tt.operation || table != tt.table {
			t.Errorf("%q: got %q %q, want %q %q", tt.statement, operation, table, tt.operation, tt.table)
		}
	}
}

func TestTables_AreThoseOfTheMigrations(t *testing.T) {
	create := regexp.MustCompile(`CREATE TABLE (?:IF NOT EXISTS )?(\w+)`)
	var made []string
	err := fs.WalkDir(migrations, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(migrations, path)
		for _, found := range create.FindAllSubmatch(text, -1) {
			made = append(made, string(found[1]))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(made)
	made = slices.Compact(made)
	if listed := slices.Sorted(slices.Values(tables)); !slices.Equal(made, listed) {
		t.Errorf("the list has %q, the migrations make %q", listed, made)
	}
}
