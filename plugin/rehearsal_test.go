//go:build extended

package main

import (
	"context"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/testkit"
	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

// TestRehearsal_AnswersInTimeWithAMillionUsers asks the built binary like a host. The
// tenth part of the users have no city.
func TestRehearsal_AnswersInTimeWithAMillionUsers(t *testing.T) {
	const users, violations, limit = 1_000_000, 100_000, 11 * time.Second
	fields := []personal.Field{
		{Name: "phone", Type: personal.TypeText, Pattern: `\+?[0-9 ]{5,20}`},
		{Name: "age", Type: personal.TypeInteger, Min: new(0.0), Max: new(150.0)},
		{Name: "city", Type: personal.TypeText, Required: true, Default: personal.Text("Riga")},
		{Name: "interests", Type: personal.TypeTags},
		{Name: "newsletter", Type: personal.TypeBoolean},
	}
	testdb.Databases(t, func(t *testing.T, url string) {
		host := &personaltest.Host{}
		client := rpc.NewClient(startPlugin(t, url, host), host)
		testkit.Populate(t, url, users, `'{"phone":"+7 800 ' || i || '","age":' || (i % 100) || ',"interests":["a","b"],"newsletter":true'
			|| CASE WHEN i % 10 = 0 THEN '' ELSE ',"city":"Omsk"' END || '}'`)
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		began := time.Now()
		got, err := client.PreviewFields(ctx, fields)
		if err != nil {
			t.Fatalf("after %v: %v", time.Since(began), err)
		}
		t.Logf("%d of %d users in %v, complete: %t", got.Accounts, users, time.Since(began), got.Complete)
		// Of the users up to any number, the tenth part violate the fields.
		if got.Violations != got.Accounts/10 || got.Fillable != got.Violations || len(got.Examples) != personal.MaxPreviewExamples ||
			got.Accounts == 0 || got.Complete != (got.Accounts == users) || got.Complete && got.Violations != violations {
			t.Errorf("got %+v, want a tenth of the users, and complete if these are all", got)
		}
	})
}
