package accounts_test

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cms-personal/personal/internal/store/dbconn"
	"github.com/cms-personal/personal/internal/testkit"
	"github.com/cms-personal/personal/shared/personal"
)

// TestADeletedUserLeavesNoTrace fills all that is kept about a user with texts
// that stand nowhere else, and looks for them in every column of the database.
func TestADeletedUserLeavesNoTrace(t *testing.T) {
	testkit.Databases(t, func(t *testing.T, url string) {
		f, _ := guarded(t, url)
		f.host.UserFieldsFunc = func(context.Context) (personal.Schema, error) {
			return personal.Schema{Revision: "1", Fields: []personal.Field{
				{Name: "motto", Type: personal.TypeText}, {Name: "secret_note", Type: personal.TypeText, Hidden: true},
			}}, nil
		}
		pools, err := dbconn.Open(url, dbconn.RequestLimits)
		if err != nil {
			t.Fatal(err)
		}
		defer pools.Close()
		f.register(t, "bob") // who stays
		id := f.leaveTraces(t)
		f.ask(t, personal.RecoverRequest{Login: "bob"}, "203.0.113.1")
		traces := []string{
			"ada_marker", "ada_address@marker.example", "ada_new@marker.example", "Ada Namemarker",
			"mottomarker", "notemarker", "203.0.113.77", "agentmarker", "requestmarker", "another_marker", "198.51.100.",
		}
		if missing := slices.DeleteFunc(slices.Clone(traces), func(trace string) bool { return len(find(t, pools, trace)) > 0 }); len(missing) > 0 {
			t.Fatalf("not even there before: %q", missing)
		}
		if err := f.service.DeleteUser(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		for _, trace := range traces {
			if where := find(t, pools, trace); len(where) > 0 {
				t.Errorf("%q is still in %v", trace, where)
			}
		}
		if asked := dump(t, pools)["personal_jobs.kind"]; !slices.Contains(asked, "recovery") {
			t.Errorf("bob's recovery is gone: %v", asked)
		}
		f.drain(t)
		for where, rows := range dump(t, pools) {
			if table, column, _ := strings.Cut(where, "."); column == "account_id" && slices.Contains(rows, fmt.Sprint(id)) {
				t.Errorf("%s still names the user", table)
			}
		}
		wantNotInFiles(t, url, traces)
		if lines := dump(t, pools)["personal_audit.type"]; !slices.Contains(lines, "user_deleted") || !slices.Contains(lines, "sign_in_failed") {
			t.Errorf("the audit lines left are %v", lines)
		}
	})
}

// leaveTraces makes a user, and lets him do all that leaves something behind.
func (f *fixture) leaveTraces(t *testing.T) (id int64) {
	t.Helper()
	call := personal.WithCall(t.Context(), personal.Call{
		RequestID: "requestmarker", Address: netip.MustParseAddr("203.0.113.77"), Agent: "agentmarker", Locale: "en",
	})
	in, err := f.service.Register(call, personal.RegisterRequest{
		Login: "ada_marker", Password: goodPassword, ConfirmPassword: goodPassword, Email: "ada_address@marker.example",
		Fields: map[string]personal.Input{"name": personal.Text("Ada Namemarker"), "motto": personal.Text("mottomarker")},
	})
	if err != nil {
		t.Fatal(err)
	}
	id = in.Credentials.UserID
	for _, does := range []func() error{
		func() error {
			return f.service.UpdateUser(call, personal.UpdateUserRequest{UserID: id, Fields: map[string]personal.Input{"secret_note": personal.Text("notemarker")}})
		},
		func() error { return f.service.Recover(call, personal.RecoverRequest{Login: "ada_marker"}) },
		func() error { f.drain(t); return nil }, // a mail, its token, events told
		func() error {
			_, err := f.service.Authorize(call, personal.AuthorizeRequest{Login: "ada_marker", Password: goodPassword})
			return err
		},
		func() error {
			return f.service.ChangeEmail(call, personal.ChangeEmailRequest{Credentials: in.Credentials, Password: goodPassword, Email: "ada_new@marker.example"})
		},
	} {
		if err := does(); err != nil {
			t.Fatal(err)
		}
	}
	for i, r := range []personal.RecoverRequest{
		{Login: "Ada_Marker"}, {Login: "ADA_address@marker.example"}, {Email: "ada_address@marker.example"},
		{Login: "ada_marker", Email: "another_marker@marker.example"},
	} {
		f.ask(t, r, fmt.Sprint("198.51.100.", i)) // nobody has looked whose they are
	}
	_, err = f.service.Authorize(call, personal.AuthorizeRequest{Login: "ada_address@marker.example", Password: otherPassword})
	wantCode(t, err, personal.CodeInvalidCredentials)
	return id
}

// ask asks for a recovery that waits.
func (f *fixture) ask(t *testing.T, r personal.RecoverRequest, address string) {
	t.Helper()
	if err := f.service.Recover(at(t, address), r); err != nil {
		t.Fatal(err)
	}
}

// find returns the columns that hold a text somewhere.
func find(t *testing.T, pools dbconn.Pools, text string) (where []string) {
	t.Helper()
	for column, rows := range dump(t, pools) {
		if slices.ContainsFunc(rows, func(row string) bool { return strings.Contains(strings.ToLower(row), strings.ToLower(text)) }) {
			where = append(where, column)
		}
	}
	return where
}

// wantNotInFiles looks for texts in the files themselves, on SQLite, where deleted
// rows could lie about, as they are while the database is open.
func wantNotInFiles(t *testing.T, url string, texts []string) {
	t.Helper()
	path, isFile := strings.CutPrefix(url, "sqlite://")
	if !isFile {
		return
	}
	for _, name := range []string{path, path + "-wal", path + "-shm"} {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range texts {
			if n := bytes.Count(data, []byte(text)); n > 0 {
				t.Errorf("%q is in %s %d times", text, filepath.Base(name), n)
			}
		}
	}
}

// dump returns the values of every column of every table.
func dump(t *testing.T, pools dbconn.Pools) map[string][]string {
	t.Helper()
	tables := "SELECT name FROM sqlite_master WHERE type = 'table'"
	if pools.Kind == dbconn.PostgreSQL {
		tables = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'"
	}
	all := map[string][]string{}
	for _, name := range slices.Concat(slices.Collect(maps.Values(columns(t, pools.Read, tables)))...) {
		for column, rows := range columns(t, pools.Read, "SELECT * FROM "+name) {
			all[name+"."+column] = rows
		}
	}
	return all
}

// columns returns what a query finds, by column, as text.
func columns(t *testing.T, db *sql.DB, query string) map[string][]string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]string{}
	for rows.Next() {
		cells, places := make([]any, len(names)), make([]any, len(names))
		for i := range cells {
			places[i] = &cells[i]
		}
		if err := rows.Scan(places...); err != nil {
			t.Fatal(err)
		}
		for i, cell := range cells {
			text := fmt.Sprint(cell)
			if raw, ok := cell.([]byte); ok {
				text = string(raw)
			}
			found[names[i]] = append(found[names[i]], text)
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return found
}

// TestWhatIsToldLastOfAUserIsThatHeWasDeleted: his password is still being judged
// when he goes.
func TestWhatIsToldLastOfAUserIsThatHeWasDeleted(t *testing.T) {
	testkit.Databases(t, func(t *testing.T, url string) {
		f, _, h := spied(t, url, cheap)
		id := f.register(t, "ada").Credentials.UserID
		h.while = func() { f.delete(t, id) }
		if code := f.try(t, "203.0.113.77", "ada", otherPassword); code != personal.CodeInvalidCredentials {
			t.Fatalf("the answer is %q", code)
		}
		f.drain(t)
		var told []personal.EventType
		for _, e := range f.host.Events() {
			told = append(told, e.Type)
		}
		if want := []personal.EventType{personal.EventRegistered, personal.EventUserDeleted}; !slices.Equal(told, want) {
			t.Errorf("told is %v, want %v", told, want)
		}
		pools, err := dbconn.Open(url, dbconn.RequestLimits)
		if err != nil {
			t.Fatal(err)
		}
		defer pools.Close()
		if where := find(t, pools, "203.0.113.77"); len(where) > 0 {
			t.Errorf("his address is in %v", where)
		}
	})
}
