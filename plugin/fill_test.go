package main

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/store/dbconn"
	"github.com/cms-personal/personal/internal/testkit"
	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

// TestFill_ContinuesAfterKill kills the built binary while it fills in a field. The next
// process goes on where it was.
func TestFill_ContinuesAfterKill(t *testing.T) {
	const users, revision = 10_000, "2"
	testdb.Database(t, func(t *testing.T, url string) {
		host := &personaltest.Host{UserFieldsFunc: func(context.Context) (personal.Schema, error) {
			return personal.Schema{Revision: revision, Fields: []personal.Field{
				{Name: "city", Type: personal.TypeText, Required: true, Default: personal.Text("Riga")},
			}}, nil
		}}
		manager := startPlugin(t, url, host)
		client := rpc.NewClient(manager, host)
		testkit.Populate(t, url, users, `CASE WHEN i % 2 = 0 THEN '{}' ELSE '{"city":"Omsk"}' END`)
		if err := client.FillFields(t.Context(), revision); err != nil {
			t.Fatal(err)
		}
		await := func(what string, is func(personal.FieldsFill) bool) personal.FieldsFill {
			t.Helper()
			for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
				fill, err := client.FieldsFill(t.Context())
				if err == nil && is(fill) {
					return fill
				}
				if time.Now().After(deadline) {
					t.Fatalf("waiting for %s: got %+v, %v", what, fill, err)
				}
			}
		}
		await("a batch", func(f personal.FieldsFill) bool { return f.Checked > 0 })
		if err := syscall.Kill(manager.Status().PID, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		pools, err := dbconn.Open(url, dbconn.RequestLimits)
		if err != nil {
			t.Fatal(err)
		}
		defer pools.Close()
		var state string
		var checked int64
		err = pools.Read.QueryRow("SELECT state, checked FROM personal_fill").Scan(&state, &checked)
		if err != nil || state != string(personal.FillRunning) || checked == 0 || checked >= users {
			t.Fatalf("after the kill: got %s, %d checked, %v; want it running, some of %d checked", state, checked, err, users)
		}
		// The user sets the last value themselves before the job arrives there; and the lease
		// of the killed process is over, for which the test does not wait.
		for _, statement := range []string{
			`UPDATE personal_accounts SET fields = '{"city":"Oslo"}' WHERE login = 'User10000'`,
			"UPDATE personal_jobs SET due = 0 WHERE kind = '" + string(accounts.KindFill) + "'",
		} {
			if _, err := pools.Write.Exec(statement); err != nil {
				t.Fatal(err)
			}
		}
		fill := await("the end", func(f personal.FieldsFill) bool { return f.State == personal.FillDone })
		if fill.Checked != users || fill.Total != users || fill.Filled != users/2-1 || fill.Started.After(fill.Ended) {
			t.Errorf("got %+v, want %d checked and %d filled, each once", fill, users, users/2-1)
		}
		r, err := client.PreviewFields(t.Context(), []personal.Field{
			{Name: "city", Type: personal.TypeEnum, Required: true, Options: []personal.Option{{Value: "Omsk"}, {Value: "Riga"}}},
		})
		if err != nil || r.Accounts != users || r.Violations != 1 || r.Examples[0].Login != "User10000" {
			t.Errorf("got %+v, %v; want only User10000 to have another city", r, err)
		}
	})
}
