package adminpages_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cms-personal/personal/host-sample/adminpages"
	"github.com/cms-personal/personal/host-sample/eventlog"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/pluginmanager"
)

// second is a moment of these tests.
func second(n int) time.Time { return time.Unix(1_750_000_000+int64(n), 0).UTC() }

func (b *browser) addEvent(t *testing.T, n int, e personal.Event) {
	t.Helper()
	e.Time = second(n)
	if e.ID == "" {
		e.ID = fmt.Sprintf("e%d", n)
	}
	if e.RequestID == "" {
		e.RequestID = fmt.Sprintf("req-%d.", n)
	}
	if err := b.Events.Append(e); err != nil {
		t.Fatal(err)
	}
}

func swap(n int, version string) pluginmanager.Record {
	return pluginmanager.Record{Time: second(n), Kind: pluginmanager.KindSwitched, Version: version}
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

func TestEventsOfAccountsAndOfThePluginAreOneListNewestFirst(t *testing.T) {
	b := open(t, func(o *adminpages.Options) {
		o.Plugin.History = fakeHistory{swap(5, "v5"), swap(2, "v2"), swap(0, "v0")}
	})
	for _, n := range []int{1, 3, 4, 6} {
		b.addEvent(t, n, personal.Event{Type: personal.EventSignedIn, UserID: 42})
	}
	page := b.page(t, "/admin/events")
	if got := listing(page); got != "6 v5 4 3 v2 1 v0" {
		t.Errorf("listed are %s", got)
	}
	for _, want := range []string{`href="/admin/users/42"`, "Signed in", "Plugin: switched", `datetime="` + second(6).Format(time.RFC3339) + `"`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %s", want)
		}
	}
}

func TestEventsAreFiltered(t *testing.T) {
	b := open(t, func(o *adminpages.Options) { o.Plugin.History = fakeHistory{swap(9, "v9")} })
	b.addEvent(t, 1, personal.Event{Type: personal.EventSignInFailed, Address: "192.0.2.1"})
	b.addEvent(t, 2, personal.Event{Type: personal.EventSignedIn, UserID: 42, Address: "192.0.2.1"})
	b.addEvent(t, 3, personal.Event{Type: personal.EventSignedIn, UserID: 43, Address: "192.0.2.77"})
	for query, want := range map[string]string{
		"":                              "v9 3 2 1",
		"type=sign_in_failed":           "1",
		"type=plugin_switched":          "v9",
		"type=nonsense":                 "",
		"user=42":                       "2",
		"user=nobody":                   "",
		"user=-1":                       "",
		"text=192.0.2.1":                "2 1",
		"text=REQ-3":                    "3",
		"text=V9":                       "v9",
		"type=signed_in&text=192.0.2.7": "3",
		"before=nonsense":               "v9 3 2 1",
		"before=1.2":                    "v9 3 2 1",
		"before=1.2.x":                  "v9 3 2 1",
	} {
		if got := listing(b.page(t, "/admin/events?"+query)); got != want {
			t.Errorf("%s lists %q, want %q", query, got, want)
		}
	}
	if fault := faultAt(b.page(t, "/admin/events?user=nobody"), "user"); fault == "" {
		t.Error("a user's number that is none is not told of")
	}
}

var olderLink = regexp.MustCompile(`href="(/admin/events\?[^"]*before=[^"]*)"`)

func TestEventsComePageByPageWhateverHappensMeanwhile(t *testing.T) {
	var records fakeHistory
	for n := 299; n >= 0; n -= 3 {
		records = append(records, swap(n, fmt.Sprintf("v%d", n)))
	}
	b := open(t, func(o *adminpages.Options) { o.Plugin.History = records })
	var want []string
	for n := range 300 {
		if n%3 != 2 {
			b.addEvent(t, n, personal.Event{Type: personal.EventSignedIn, UserID: 1})
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
		b.addEvent(t, 1000, personal.Event{Type: personal.EventSignedIn})
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("%d events, want %d: %v", len(got), len(want), got)
	}
}

func TestAnEventThatWasDeliveredTwiceIsListedOnce(t *testing.T) {
	b := open(t, nil)
	for range 2 {
		b.addEvent(t, 1, personal.Event{Type: personal.EventRegistered})
	}
	if got := listing(b.page(t, "/admin/events")); got != "1" {
		t.Errorf("listed are %s", got)
	}
}

func TestTheFirstPageIsRefreshedWhenSomethingHasHappened(t *testing.T) {
	b := open(t, nil)
	b.addEvent(t, 1, personal.Event{Type: personal.EventRegistered})
	page := b.page(t, "/admin/events?type=registered")
	found := regexp.MustCompile(`hx-get="([^"]*)"`).FindStringSubmatch(page)
	if found == nil || !strings.Contains(page, "htmx.min") {
		t.Fatalf("nothing is refreshed: %s", page)
	}
	refresh := strings.ReplaceAll(found[1], "&amp;", "&")
	if w := b.get(refresh); w.Code != http.StatusNoContent {
		t.Errorf("nothing has happened: %d", w.Code)
	}
	b.addEvent(t, 2, personal.Event{Type: personal.EventSignedIn})
	if w := b.get(refresh); w.Code != http.StatusNoContent {
		t.Errorf("nothing of that type has happened: %d", w.Code)
	}
	b.addEvent(t, 3, personal.Event{Type: personal.EventRegistered})
	w := b.get(refresh)
	if got := listing(w.Body.String()); w.Code != http.StatusOK || got != "3 1" || strings.Contains(w.Body.String(), "<html") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	older := b.page(t, "/admin/events?before="+"1.0.1")
	if strings.Contains(older, "hx-get") {
		t.Error("a later page is refreshed")
	}
}

func TestTextsOfEventsAreNeverMarkup(t *testing.T) {
	record := swap(1, script)
	record.Reason, record.Step, record.From = script, script, script
	b := open(t, func(o *adminpages.Options) { o.Plugin.History = fakeHistory{record} })
	b.addEvent(t, 2, personal.Event{Type: personal.EventType(script), Address: script, RequestID: script})
	wantNoMarkup(t, b.page(t, "/admin/events"))
	wantNoMarkup(t, b.page(t, "/admin/events?"+url.Values{"text": {script}, "type": {script}, "user": {script}}.Encode()))
}

func TestALongLogIsSearchedPieceByPiece(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.ndjson")
	line := func(id string, user int) string {
		return fmt.Sprintf(`{"id":%q,"type":"signed_in","time":"2026-01-02T03:04:05Z","user_id":%d,"request_id":"req-%d."}`+"\n", id, user, user)
	}
	long := line("first", 7) + strings.Repeat(line("other", 1), 40<<20/len(line("other", 1)))
	if err := os.WriteFile(path, []byte(long), 0o600); err != nil {
		t.Fatal(err)
	}
	events, err := eventlog.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer events.Close()
	b := open(t, func(o *adminpages.Options) { o.Events = events })
	pages, found := 0, ""
	for path := "/admin/events?user=7"; path != "" && pages < 10; pages++ {
		page := b.page(t, path)
		if strings.Contains(page, "hx-get") && pages == 0 {
			t.Error("a long search is repeated again and again")
		}
		found += listing(page)
		path = ""
		if link := olderLink.FindStringSubmatch(page); link != nil {
			path = strings.ReplaceAll(link[1], "&amp;", "&")
		}
	}
	if found != "7" || pages != 3 {
		t.Errorf("found %q on %d pages", found, pages)
	}
}

// contractEventTypes reads the event types from the source of the contract.
func contractEventTypes(t *testing.T) []string {
	t.Helper()
	source, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "..", "shared", "personal", "host.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var types []string
	ast.Inspect(source, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if kind, ok := spec.Type.(*ast.Ident); ok && kind.Name == "EventType" {
			value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			types = append(types, value)
		}
		return false
	})
	if len(types) == 0 {
		t.Fatal("the contract has no event types")
	}
	return types
}

func TestEvents_EveryTypeOfTheContractHasALabel(t *testing.T) {
	b := open(t, nil)
	for _, locale := range []string{"en", "ru"} {
		b.locale = locale
		page := b.page(t, "/admin/events")
		for _, want := range contractEventTypes(t) {
			option := regexp.MustCompile(`<option value="` + want + `"[^>]*>([^<]+)</option>`).FindStringSubmatch(page)
			if option == nil || option[1] == "event_"+want {
				t.Errorf("%s: the list of types offers %s as %q, want it with a label", locale, want, option)
			}
		}
	}
}
