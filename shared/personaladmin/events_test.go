package personaladmin_test

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/plugins/manager"
)

// second returns a point in time of these tests.
func second(n int) time.Time { return time.Unix(1_750_000_000+int64(n), 0).UTC() }

// fakeAudit is an audit log, oldest entry first.
type fakeAudit struct {
	log []personal.AuditEntry
	err error // of every call
}

// entries implements AuditEntries of [personal.Administration].
func (a *fakeAudit) entries(_ context.Context, r personal.AuditEntriesRequest) (page personal.AuditPage, err error) {
	for _, e := range slices.Backward(a.log) {
		if r.After != 0 && e.Cursor >= r.After || r.Type != "" && e.Type != r.Type || r.UserID != 0 && e.UserID != r.UserID ||
			e.Time.Before(r.Since) || !r.Until.IsZero() && !e.Time.Before(r.Until) ||
			!strings.Contains(strings.ToLower(e.Address+"\n"+e.RequestID), strings.ToLower(r.Text)) {
			continue
		}
		if len(page.Entries) == r.Limit {
			page.Next = page.Entries[r.Limit-1].Cursor
			break
		}
		page.Entries = append(page.Entries, e)
	}
	return page, a.err
}

func (b *browser) addEvent(n int, e personal.Event) {
	e.Time = second(n)
	if e.RequestID == "" {
		e.RequestID = fmt.Sprintf("req-%d.", n)
	}
	b.audit.log = append(b.audit.log, personal.AuditEntry{Event: e, Cursor: int64(len(b.audit.log) + 1)})
}

func swap(n int, version string) manager.Event {
	return manager.Event{Time: second(n), Type: manager.EventSwitched, Version: version}
}

var listed = regexp.MustCompile(`req-(\d+)\.|<span>(v\d+)</span>`)

// listing returns what a page of events lists: numbers of requests, and versions.
func listing(page string) string {
	var all []string
	for _, found := range listed.FindAllStringSubmatch(page, -1) {
		all = append(all, found[1]+found[2])
	}
	return strings.Join(all, " ")
}

func TestEvents_MergedListIsNewestFirst(t *testing.T) {
	b := open(t)
	b.events.EventLog = eventLog{swap(5, "v5"), swap(2, "v2"), swap(0, "v0")}
	for _, n := range []int{1, 3, 4, 6} {
		b.addEvent(n, personal.Event{Type: personal.EventSignedIn, UserID: 42})
	}
	page := b.page(t, "/admin/events")
	if got := listing(page); got != "6 v5 4 3 v2 1 v0" {
		t.Errorf("got the events %q, want %q", got, "6 v5 4 3 v2 1 v0")
	}
	wantAll(t, page, `href="/admin/users/42"`, "Signed in", "Plugin: switched", `datetime="`+second(6).Format(time.RFC3339)+`"`)
}

func TestEvents_FilterSelectsByTypeUserAndText(t *testing.T) {
	b := open(t)
	b.events.EventLog = eventLog{swap(9, "v9")}
	b.addEvent(1, personal.Event{Type: personal.EventSignInFailed, Address: "192.0.2.1"})
	b.addEvent(2, personal.Event{Type: personal.EventSignedIn, UserID: 42, Address: "192.0.2.1"})
	b.addEvent(3, personal.Event{Type: personal.EventSignedIn, UserID: 43, Address: "192.0.2.77"})
	at := func(n int) string { return second(n).Format("2006-01-02T15:04:05") }
	for query, want := range map[string]string{
		"":                                   "v9 3 2 1",
		"type=sign_in_failed":                "1",
		"type=plugin_switched":               "v9",
		"type=nonsense":                      "",
		"user=42":                            "2",
		"user=anna":                          "2",
		"user=+ANNA@example.com":             "2",
		"since=" + at(2):                     "v9 3 2",
		"until=" + at(2):                     "1",
		"since=" + at(2) + "&until=" + at(9): "3 2",
		"since=2025-06-15T15:06":             "v9 3 2 1",
		"since=2025-06-15&until=2025-06-15":  "v9 3 2 1",
		"until=2025-06-14":                   "",
		"since=2025-06-16":                   "",
		"user=42&until=" + at(2):             "",
		"text=192.0.2.1":                     "2 1",
		"text=REQ-3":                         "3",
		"text=V9":                            "v9",
		"type=signed_in&text=192.0.2.7":      "3",
		"before=nonsense":                    "v9 3 2 1",
		"before=1":                           "v9 3 2 1",
		"before=1.x":                         "v9 3 2 1",
		"before=1.2.3":                       "v9 3 2 1",
		"before=-1.2":                        "v9 3 2 1",
	} {
		if got := listing(b.page(t, "/admin/events?"+query)); got != want {
			t.Errorf("query %q: got the events %q, want %q", query, got, want)
		}
	}
}

func TestEvents_InvalidFilterIsShownAtItsControl(t *testing.T) {
	b := open(t)
	b.events.EventLog = eventLog{swap(9, "v9")}
	b.addEvent(1, personal.Event{Type: personal.EventSignedIn, UserID: 42})
	for query, control := range map[string]string{
		"user=-1":                           "user",
		"user=ann":                          "user", // part of a login
		"since=yesterday":                   "since",
		"until=2025-02-30":                  "until",
		"since=2025-06-15&until=2025-06-14": "until",
	} {
		w := b.get("/admin/events?" + query)
		page := w.Body.String()
		_, value, _ := strings.Cut(query, "=")
		value, _, _ = strings.Cut(value, "&")
		if w.Code != http.StatusUnprocessableEntity || fieldError(page, control) == "" || listing(page) != "" ||
			strings.Contains(page, "No events found") {
			t.Errorf("query %q: got %d %q, want 422, a field error and no list: %s", query, w.Code, listing(page), page)
		}
		wantAll(t, page, `value="`+value)
	}
	b.events.Administration.(*personaltest.Administration).FindUsersFunc = nil
	if got := fieldError(b.get("/admin/events?user=anna").Body.String(), "user"); !strings.Contains(got, "Enter the id") {
		t.Errorf("a plugin that finds no users: got the field error %q, want that the id helps", got)
	}
}

func TestEvents_EmptyListSaysWhatWasSearched(t *testing.T) {
	b := open(t)
	page := b.page(t, "/admin/events?type=signed_in&user=anna&text=192.0.2.1&since=2025-06-15")
	wantAll(t, page, "No events found.", "Filters: Type: Signed in; User: anna; ", "192.0.2.1; From (UTC): 2025-06-15T00:00.",
		"audit.retention")
	wantNone(t, b.page(t, "/admin/events"), "Searched for")
}

func TestEvents_RefreshDoesNotSearchTheUserAgain(t *testing.T) {
	b := open(t)
	b.addEvent(1, personal.Event{Type: personal.EventSignedIn, UserID: 42})
	wantAll(t, b.page(t, "/admin/events?user=anna"), `hx-get="/admin/events/rows?user=42&amp;`, `value="anna"`)
}

func TestEvents_RowSaysWhoCausedIt(t *testing.T) {
	b := open(t)
	for actor, want := range map[personal.Actor]string{
		personal.ActorUser: ">on the site<", personal.ActorSystem: ">by the system<", personal.ActorAdministrator: ">by an administrator<",
	} {
		b.audit.log = nil
		b.addEvent(1, personal.Event{Type: personal.EventEmailChanged, UserID: 42, Actor: actor})
		wantAll(t, b.page(t, "/admin/events"), want)
		b.audit.log = nil
		b.addEvent(1, personal.Event{Type: personal.EventEmailChanged, UserID: 42, Actor: actor, ActorName: "Olga"})
		wantAll(t, b.page(t, "/admin/events"), ">by Olga<")
	}
}

// A made-up 0.3.0 has another type of events, and another actor.
func TestEvents_TypeOfALaterVersionIsShownByItsName(t *testing.T) {
	b := open(t)
	b.events.EventLog = eventLog{{Time: second(2), Type: "dimmed", Version: "0.3.0"}}
	b.addEvent(1, personal.Event{Type: "passkey_renamed", UserID: 42, Actor: "assistant", Method: "gesture"})
	wantAll(t, b.page(t, "/admin/events"), ">passkey_renamed<", "dimmed")
	wantAll(t, b.page(t, "/admin/events?type=passkey_renamed"), ">passkey_renamed<")
	wantAll(t, b.page(t, "/admin/users/42/events"), ">passkey_renamed<")
}

func TestEvents_RowNamesChangedFields(t *testing.T) {
	b := open(t)
	b.addEvent(1, personal.Event{Type: personal.EventProfileUpdated, UserID: 42, Fields: []string{"city", "name"}})
	wantAll(t, b.page(t, "/admin/events"), ">Profile changed<", `<dd class="mono">city, name</dd>`)
}

func TestEvents_RowsHaveLoginsUnderTheirDays(t *testing.T) {
	b := open(t)
	asked := 0
	b.events.Administration.(*personaltest.Administration).UsersFunc = func(_ context.Context, ids []int64) (map[int64]personal.User, error) {
		asked++
		if len(ids) != 2 {
			t.Errorf("got the ids %v, want each once", ids)
		}
		return map[int64]personal.User{42: {ID: 42, Login: script}}, nil
	}
	const perDay = 24 * 60 * 60
	for n, id := range []int64{42, 41, 42} {
		b.addEvent(n*perDay, personal.Event{Type: personal.EventSignedIn, UserID: id})
	}
	page := b.page(t, "/admin/events")
	wantNoMarkup(t, page)
	wantAll(t, page, `<a href="/admin/users/42"><bdi>`+escapedScript, `<a href="/admin/users/41">user 41</a>`,
		second(0).Format("15:04:05")+"</time>", `<dd class="mono">req-0.</dd>`)
	for n := range 3 {
		wantAll(t, page, "<h2>"+second(n*perDay).Format("2 Jan 2006")+"</h2>")
	}
	if asked != 1 {
		t.Errorf("got %d calls for the logins, want 1", asked)
	}
}

func TestHistory_ListsTheEventsOfOneUser(t *testing.T) {
	b := open(t)
	b.events.EventLog = eventLog{swap(500, "v9")}
	for n := range 120 {
		b.addEvent(n, personal.Event{Type: personal.EventSignedIn, UserID: int64(42 + n%2)})
	}
	b.addEvent(200, personal.Event{Type: personal.EventUserDisabled, UserID: 42, Actor: personal.ActorAdministrator, ActorName: "Olga"})
	page := b.page(t, "/admin/users/42/events")
	wantAll(t, page, "History of anna", `href="/admin/users/42"`, `href="/admin/support?login=anna"`, "by Olga",
		`hx-get="/admin/users/42/events/rows?`, `value="user_disabled"`)
	wantNone(t, page, "v9", `value="plugin_switched"`)
	got := strings.Fields(listing(page))
	next := regexp.MustCompile(`href="(/admin/users/42/events\?before=[^"]*)"`).FindStringSubmatch(page)
	if len(got) != 50 || got[0] != "200" || got[1] != "118" || got[49] != "22" || next == nil {
		t.Fatalf("the first page: got %v, want 50 events from 200 to 22 and a link", got)
	}
	if got := listing(b.page(t, strings.ReplaceAll(next[1], "&amp;", "&"))); got != "20 18 16 14 12 10 8 6 4 2 0" {
		t.Errorf("the second page: got %q, want the rest", got)
	}
	if got := listing(b.page(t, "/admin/users/42/events?type=user_disabled")); got != "200" {
		t.Errorf("one type: got %q, want 200", got)
	}
	if got := listing(b.get("/admin/users/42/events/rows?type=user_disabled").Body.String()); got != "200" {
		t.Errorf("the refresh: got %q, want 200", got)
	}
}

func TestHistory_UnknownUserHasNone(t *testing.T) {
	b := open(t)
	b.addEvent(1, personal.Event{Type: personal.EventUserDeleted})
	page := b.page(t, "/admin/users/41/events")
	wantAll(t, page, "History of user 41", "no longer name it")
	wantNone(t, page, "req-1.", "hx-get", "No events found")
	for _, id := range []string{"0", "-1", "x", "99999999999999999999"} {
		if w := b.get("/admin/users/" + id + "/events"); w.Code != http.StatusNotFound {
			t.Errorf("user %s: got status %d, want 404", id, w.Code)
		}
	}
	b.audit.err = personal.NewError(personal.CodeUnavailable, nil)
	page = b.page(t, "/admin/users/41/events")
	wantAll(t, page, "Account events are missing")
	wantNone(t, page, "no longer name it")
}

var olderLink = regexp.MustCompile(`href="(/admin/events\?[^"]*before=[^"]*)"`)

func TestEvents_PagesAreCompleteWhileEventsArrive(t *testing.T) {
	var log eventLog
	for n := 299; n >= 0; n -= 3 {
		log = append(log, swap(n, fmt.Sprintf("v%d", n)))
	}
	b := open(t)
	b.events.EventLog = log
	var want []string
	for n := range 300 {
		if n%3 != 2 {
			b.addEvent(n, personal.Event{Type: personal.EventSignedIn, UserID: 1})
			want = append([]string{strconv.Itoa(n)}, want...)
		} else {
			want = append([]string{fmt.Sprintf("v%d", n)}, want...)
		}
	}
	var got []string
	for path := "/admin/events?text="; path != ""; {
		page := b.page(t, path)
		got = append(got, strings.Fields(listing(page))...)
		path = ""
		if link := olderLink.FindStringSubmatch(page); link != nil {
			path = strings.ReplaceAll(link[1], "&amp;", "&")
		}
		b.addEvent(1000, personal.Event{Type: personal.EventSignedIn})
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("got %d events, want %d in this order %v: %v", len(got), len(want), want, got)
	}
}

func TestEvents_PagesWithPluginEventsOnlyLoseNoAccountEvent(t *testing.T) {
	var log eventLog
	for n := 200; n > 140; n-- { // more than a page
		log = append(log, swap(n, fmt.Sprintf("v%d", n)))
	}
	b := open(t)
	b.events.EventLog = log
	b.addEvent(1, personal.Event{Type: personal.EventSignedIn})
	first := b.page(t, "/admin/events")
	b.addEvent(300, personal.Event{Type: personal.EventSignedIn})
	second := b.page(t, strings.ReplaceAll(olderLink.FindStringSubmatch(first)[1], "&amp;", "&"))
	if got := strings.Fields(listing(first)); len(got) != 50 || got[49] != "v151" {
		t.Errorf("the first page: got %v, want 50 events down to v151", got)
	}
	if got, want := listing(second), "v150 v149 v148 v147 v146 v145 v144 v143 v142 v141 1"; got != want {
		t.Errorf("the second page: got %q, want %q", got, want)
	}
	if olderLink.MatchString(second) {
		t.Error("the last page has a link to older events")
	}
}

func TestEvents_UnavailablePluginLeavesPluginEvents(t *testing.T) {
	b := open(t)
	b.events.EventLog = eventLog{swap(2, "v2")}
	b.addEvent(1, personal.Event{Type: personal.EventSignedIn})
	const missing = "Account events are missing"
	if page := b.page(t, "/admin/events"); strings.Contains(page, missing) {
		t.Errorf("with a plugin that responds: got the notice of missing events, want none: %s", page)
	}
	for _, code := range []personal.Code{personal.CodeUnavailable, personal.CodeNotFound, personal.CodeInternal} {
		entries := b.audit.log
		b.audit.log, b.audit.err = nil, personal.NewError(code, nil)
		page := b.page(t, "/admin/events")
		if got := listing(page); got != "v2" || !strings.Contains(page, missing) || !strings.Contains(page, "hx-get") {
			t.Errorf("%s: got the events %q, want v2, a notice and a refresh: %s", code, got, page)
		}
		b.audit.log, b.audit.err = entries, nil
	}
}

func TestEvents_FilterErrorIsShownAtItsControl(t *testing.T) {
	b := open(t)
	b.audit.err = personal.FieldErrors{"text": personal.FieldErrorTooLong}.Err()
	w := b.get("/admin/events?text=long")
	if w.Code != http.StatusUnprocessableEntity || fieldError(w.Body.String(), "text") == "" {
		t.Errorf("got %d %s, want 422 and the field error of the text", w.Code, w.Body)
	}
}

func TestEvents_FirstPageRefreshesOnNewEvents(t *testing.T) {
	b := open(t)
	b.addEvent(1, personal.Event{Type: personal.EventRegistered})
	page := b.page(t, "/admin/events?type=registered")
	found := regexp.MustCompile(`hx-get="([^"]*)"`).FindStringSubmatch(page)
	if found == nil || !strings.Contains(page, "htmx.min") {
		t.Fatalf("the page does not refresh itself: %s", page)
	}
	refresh := strings.ReplaceAll(found[1], "&amp;", "&")
	if w := b.get(refresh); w.Code != http.StatusNoContent {
		t.Errorf("without a new event: got status %d, want 204", w.Code)
	}
	b.addEvent(2, personal.Event{Type: personal.EventSignedIn})
	if w := b.get(refresh); w.Code != http.StatusNoContent {
		t.Errorf("with a new event of another type: got status %d, want 204", w.Code)
	}
	b.addEvent(3, personal.Event{Type: personal.EventRegistered})
	w := b.get(refresh)
	if got := listing(w.Body.String()); w.Code != http.StatusOK || got != "3 1" || strings.Contains(w.Body.String(), "<html") {
		t.Errorf("with a new event: got status %d and the events %q, want 200 and both: %s", w.Code, got, w.Body)
	}
	wantNone(t, b.page(t, "/admin/events?before=1.0"), "hx-get") // a later page
}

func TestEvents_TextsAreEscaped(t *testing.T) {
	e := swap(1, script)
	e.Reason, e.Step, e.From = script, script, script
	b := open(t)
	b.events.EventLog = eventLog{e}
	b.addEvent(2, personal.Event{Type: personal.EventType(script), Address: script, RequestID: script})
	wantNoMarkup(t, b.page(t, "/admin/events"))
	wantNoMarkup(t, b.page(t, "/admin/users/42/events?type="+url.QueryEscape(script)))
	for _, name := range []string{"text", "type", "user", "since", "until"} {
		wantNoMarkup(t, b.get("/admin/events?"+url.Values{name: {script}}.Encode()).Body.String())
	}
}

// constantsOf reads the constants of a type from a source file of the contract.
func constantsOf(t *testing.T, file, name string) []string {
	t.Helper()
	source, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var constants []string
	ast.Inspect(source, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if kind, ok := spec.Type.(*ast.Ident); ok && kind.Name == name {
			value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			constants = append(constants, value)
		}
		return false
	})
	if len(constants) == 0 {
		t.Fatalf("%s has no constants of the type %s", file, name)
	}
	return constants
}

func TestEvents_EveryTypeOfTheContractHasALabel(t *testing.T) {
	b := open(t)
	for _, locale := range []string{"en", "ru"} {
		b.locale = locale
		page := b.page(t, "/admin/events")
		for _, want := range constantsOf(t, filepath.Join("..", "..", "shared", "personal", "event.go"), "EventType") {
			option := regexp.MustCompile(`<option value="` + want + `"[^>]*>([^<]+)</option>`).FindStringSubmatch(page)
			if option == nil || option[1] == "event_"+want {
				t.Errorf("%s: the list of types offers %s as %q, want it with a label", locale, want, option)
			}
		}
	}
}
