package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/internal/rehearsal"
	"github.com/cms-personal/personal/internal/store/dbconn"
	"github.com/cms-personal/personal/internal/testkit"
	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

// pause makes the rehearsals of a module call f, with the context of the rehearsal, in the middle of
// their transaction.
func pause(m *module, f func(ctx context.Context)) {
	m.rehearsed = func(c *rehearsal.Config) {
		c.Wrap = func(honest rehearsal.Contract) rehearsal.Contract { return paused{honest, f} }
	}
}

type paused struct {
	rehearsal.Contract
	before func(ctx context.Context)
}

func (p paused) Export(ctx context.Context, r personal.ExportRequest) (personal.Export, error) {
	p.before(ctx)
	return p.Contract.Export(ctx, r)
}

func (p paused) Delete(ctx context.Context, r personal.DeleteRequest) (time.Time, error) {
	p.before(ctx)
	return p.Contract.Delete(ctx, r)
}

// dump returns all rows of all tables, but not the sequences of PostgreSQL.
func dump(t testing.TB, url string) (rows []string) {
	t.Helper()
	pools, err := dbconn.Open(url, dbconn.MigrationLimits)
	if err != nil {
		t.Fatal(err)
	}
	defer pools.Close()
	query := func(q string) (all [][]any) {
		result, err := pools.Read.QueryContext(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		defer result.Close()
		names, _ := result.Columns()
		for result.Next() {
			row := make([]any, len(names))
			into := make([]any, len(names))
			for i := range row {
				into[i] = &row[i]
			}
			if err := result.Scan(into...); err != nil {
				t.Fatal(err)
			}
			all = append(all, row)
		}
		return all
	}
	tables := "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
	if pools.Kind == dbconn.PostgreSQL {
		tables = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' ORDER BY table_name"
	}
	for _, table := range query(tables) {
		for _, row := range query(fmt.Sprintf("SELECT * FROM %s", table[0])) {
			rows = append(rows, fmt.Sprint(table[0], row))
		}
	}
	slices.Sort(rows)
	return rows
}

// populated returns a module with some users, limits and jobs in its database.
func populated(t testing.TB, url string) *module {
	t.Helper()
	m := rehearsedModule(t, url, everythingOn, everyField()...)
	testkit.Populate(t, url, 30, "'{}'")
	ctx := t.Context()
	if err := m.service.Recover(ctx, personal.RecoverRequest{Login: "User7"}); err != nil {
		t.Fatal(err)
	}
	_, err := m.service.Authorize(ctx, personal.AuthorizeRequest{Login: "nobody", Password: "wrong password"})
	if personal.CodeOf(err) != personal.CodeInvalidCredentials {
		t.Fatal(err)
	}
	return m
}

func sameDump(t testing.TB, url string, before []string) {
	t.Helper()
	if diff := cmp.Diff(before, dump(t, url)); diff != "" {
		t.Errorf("the rehearsal has left something (-before +after):\n%s", diff)
	}
}

func TestRehearse_LeavesNothing(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		m := populated(t, url)
		before := dump(t, url)
		if len(before) < 40 {
			t.Fatalf("got %d rows, want those of the users and more", len(before))
		}
		t.Run("after a success", func(t *testing.T) { // 200 under load: TestSoakRehearsals
			if others, _ := rehearse(t, m); len(others) > 0 {
				t.Errorf("got %+v, want that all checks pass", others)
			}
			sameDump(t, url, before)
		})
		t.Run("after a failure", func(t *testing.T) {
			pause(m, func(context.Context) { panic("planted") })
			if others, _ := rehearse(t, m); len(others) == 0 {
				t.Error("all checks pass, want a failed one")
			}
			sameDump(t, url, before)
		})
		t.Run("after a cancelled call", func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			deadline, _ := ctx.Deadline()
			pause(m, func(ctx context.Context) {
				// Its end leaves time to return the result.
				if end, _ := ctx.Deadline(); !end.Equal(deadline.Add(-rehearsalReserve)) {
					t.Errorf("the rehearsal may take until %v, want %v before the deadline %v", end, rehearsalReserve, deadline)
				}
				cancel()
			})
			got, err := m.Rehearse(ctx)
			// On SQLite, if others needed to write, there is no copy either.
			if strings.HasPrefix(url, "sqlite:") && errors.Is(err, context.Canceled) {
				sameDump(t, url, before)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range got.Checks {
				if c.Outcome == rpc.RehearsalFailed {
					t.Errorf("check %s failed: %s", c.Name, c.Reason)
				}
			}
			last := got.Checks[len(got.Checks)-1]
			if last.Outcome != rpc.RehearsalSkipped || last.Reason != "no time was left" {
				t.Errorf("got %+v, want that it was skipped", last)
			}
			sameDump(t, url, before)
		})
		t.Run("after a deadline", func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), rehearsalReserve+500*time.Millisecond)
			defer cancel()
			pause(m, func(ctx context.Context) { <-ctx.Done() })
			// On SQLite there is no time left for the copy.
			if _, err := m.Rehearse(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
			sameDump(t, url, before)
		})
	})
}

// rehearsedVariable has the URL of the database on which the test binary rehearses until it is
// killed.
const rehearsedVariable = "TEST_REHEARSE_UNTIL_KILLED"

func TestRehearse_UntilKilled(t *testing.T) {
	url := os.Getenv(rehearsedVariable)
	if url == "" {
		t.Skip("run by TestRehearse_LeavesNothingWhenKilled")
	}
	m := rehearsedModule(t, url, everythingOn, everyField()...)
	pause(m, func(context.Context) {
		fmt.Println("in the middle")
		select {}
	})
	_, _ = m.Rehearse(t.Context())
}

func TestRehearse_LeavesNothingWhenKilled(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		m := populated(t, url)
		before := dump(t, url)
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		candidate := exec.CommandContext(t.Context(), self, "-test.run=^TestRehearse_UntilKilled$", "-test.v")
		candidate.Env = append(os.Environ(), rehearsedVariable+"="+url)
		output, err := candidate.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := candidate.Start(); err != nil {
			t.Fatal(err)
		}
		middle := false
		for lines := bufio.NewScanner(output); !middle && lines.Scan(); {
			middle = strings.Contains(lines.Text(), "in the middle")
		}
		if err := candidate.Process.Kill(); err != nil || !middle {
			t.Fatalf("the candidate was not in the middle of its rehearsal: %v", err)
		}
		_ = candidate.Wait()
		sameDump(t, url, before)
		if others, _ := rehearse(t, m); len(others) > 0 { // the server holds nothing of the former
			t.Errorf("got %+v, want that all checks pass", others)
		}
		sameDump(t, url, before)
	})
}

// TestRehearse_HoldsUpNoOne does everything that the process that serves does, while the
// transaction of a rehearsal is open, with a time limit that is shorter than the rehearsal.
func TestRehearse_HoldsUpNoOne(t *testing.T) {
	const attempts = 5 // a busy machine may be too slow for the limit; what is held up is so each time
	for attempt := 1; ; attempt++ {
		url := testdb.Postgres(t)
		m, live := populated(t, url), rehearsedModule(t, url, everythingOn, everyField()...)
		var once sync.Once
		var heldUp []string
		pause(m, func(context.Context) {
			once.Do(func() { heldUp = serveLive(t, live) })
		})
		others, _ := rehearse(t, m)
		if len(heldUp) == 0 && len(others) == 0 {
			return
		}
		if attempt == attempts {
			t.Fatalf("got %+v, want that all checks pass; while another version rehearses:\n%s", others, strings.Join(heldUp, "\n"))
		}
	}
}

// serveLive makes calls to a module, runs its background work, and returns what failed.
func serveLive(t testing.TB, m *module) (failed []string) {
	ctx, cancel := context.WithTimeout(personal.WithCall(t.Context(), personal.Call{RequestID: "live"}), 1500*time.Millisecond)
	defer cancel()
	expect := func(doing string, err error, code personal.Code) {
		if got := personal.CodeOf(err); got != code {
			failed = append(failed, fmt.Sprintf("%s: got %v, want code %q", doing, err, code))
		}
	}
	fields := map[string]personal.Input{
		"company": personal.Text("a"), "phone": personal.Text("123456"), "born": personal.Text("2001-02-03"), "tags": personal.Text("x"),
	}
	const password = "a long live password"
	_, err := m.service.Register(ctx, personal.RegisterRequest{Login: "live", Email: "live@example.org", Password: password,
		ConfirmPassword: password, Fields: fields})
	expect("Register", err, "")
	_, err = m.service.Authorize(ctx, personal.AuthorizeRequest{Login: "live", Password: "wrong"})
	expect("Authorize", err, personal.CodeInvalidCredentials)
	_, err = m.service.Authorize(ctx, personal.AuthorizeRequest{Login: "live", Password: password})
	expect("Authorize", err, personal.CodeEmailUnverified)
	expect("Recover", m.service.Recover(ctx, personal.RecoverRequest{Login: "User8"}), "")
	expect("DisableUser", m.service.DisableUser(ctx, 25), "")
	expect("DeleteUser", m.service.DeleteUser(ctx, 26), "")
	expect("FillFields", m.service.FillFields(ctx, "1"), "")
	expect("EraseDue", m.service.EraseDue(ctx), "")
	expect("Prune", m.store.Prune(ctx, m.settings.prune(m.store.Now())), "")
	expect("UpdateClasses", m.store.UpdateClasses(ctx, m.hasher, true), "")
	handlers := m.service.Jobs()
	jobs, err := m.store.ClaimJobs(ctx, outbox.Claim{Kinds: []outbox.Kind{accounts.KindEvent, accounts.KindRecovery,
		accounts.KindVerification}, N: 100, Lease: time.Minute})
	expect("ClaimJobs", err, "")
	for _, j := range jobs {
		expect("a job of the kind "+string(j.Kind), handlers[j.Kind](ctx, j), "")
	}
	expect("FinishJobs", m.store.FinishJobs(ctx, jobs...), "")
	if len(jobs) == 0 {
		failed = append(failed, "no job was claimed")
	}
	return failed
}

func TestRehearse_LeavesSQLitesWriterToOthers(t *testing.T) {
	url := testdb.SQLite(t)
	m := populated(t, url)
	before := dump(t, url)
	pauses := 0
	pause(m, func(ctx context.Context) {
		if pauses++; pauses > 1 {
			return
		}
		// A writer gets its turn although the rehearsal does not go on.
		if err := m.service.RevokeUserSessions(ctx, 30); err != nil {
			t.Errorf("a write during the rehearsal: got %v, want success", err)
		}
		if err := m.service.EnableUser(ctx, 30); err != nil {
			t.Errorf("a write during the rehearsal: got %v, want success", err)
		}
	})
	if others, _ := rehearse(t, m); len(others) > 0 {
		t.Errorf("got %+v, want that all checks pass in memory", others)
	}
	if pauses < 2 {
		t.Errorf("got %d pauses, want those of the second rehearsal, in memory", pauses)
	}
	if same := cmp.Equal(before, dump(t, url)); same {
		t.Error("the other write has left nothing")
	}
}

// A wait for the lock of a migration, for example, is not the version's fault.
func TestRehearse_SkipsWhatALockPrevents(t *testing.T) {
	url := testdb.Postgres(t)
	m := populated(t, url)
	pools, err := dbconn.Open(url, dbconn.MigrationLimits)
	if err != nil {
		t.Fatal(err)
	}
	defer pools.Close()
	tx, err := pools.Write.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(t.Context(), "LOCK TABLE personal_accounts IN ACCESS EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	others, _ := rehearse(t, m)
	if len(others) == 0 {
		t.Error("all checks pass, want that they are skipped")
	}
	for _, c := range others {
		if c.Outcome != rpc.RehearsalSkipped {
			t.Errorf("check %s: got %s, want skipped: %s", c.Name, c.Outcome, c.Reason)
		}
	}
}
