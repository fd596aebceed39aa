package system

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/cms-personal/personal/internal/mailtext"
	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

// sample is one line of /metrics.
type sample struct {
	name   string
	labels map[string]string
	value  float64
}

var (
	sampleLine  = regexp.MustCompile(`^(\w+)(?:\{(.*)\})? (\S+)$`)
	sampleLabel = regexp.MustCompile(`(\w+)="((?:[^"\\]|\\.)*)"`)
	typeLine    = regexp.MustCompile(`(?m)^# TYPE (\w+) (\w+)$`)
)

// scrape returns all samples, and the types of metrics by name.
func (s *system) scrape(t testing.TB) (samples []sample, types map[string]string) {
	t.Helper()
	got, text := s.web(t, http.MethodGet, "/metrics", "")
	if got.StatusCode != http.StatusOK {
		t.Fatalf("/metrics: got %d %s", got.StatusCode, text)
	}
	types = map[string]string{}
	for _, found := range typeLine.FindAllStringSubmatch(text, -1) {
		types[found[1]] = found[2]
	}
	for line := range strings.Lines(text) {
		found := sampleLine.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if strings.HasPrefix(line, "#") || found == nil {
			continue
		}
		value, err := strconv.ParseFloat(found[3], 64)
		if err != nil {
			t.Fatal(err)
		}
		one := sample{found[1], map[string]string{}, value}
		for _, label := range sampleLabel.FindAllStringSubmatch(found[2], -1) {
			one.labels[label[1]] = label[2]
		}
		samples = append(samples, one)
	}
	return samples, types
}

// measured returns the sum of the samples that have a name and the given labels, pairs
// of names and values.
func measured(samples []sample, name string, labels ...string) (sum float64) {
	for _, one := range samples {
		matches := one.name == name
		for i := 0; i < len(labels); i += 2 {
			matches = matches && one.labels[labels[i]] == labels[i+1]
		}
		if matches {
			sum += one.value
		}
	}
	return sum
}

// TestMetrics follows what users do in the metrics of a host with its plugin, through
// swaps and a crash, and compares with them what the docs and the dashboard name.
func TestMetrics(t *testing.T) {
	t.Parallel()
	testdb.Database(t, func(t *testing.T, database string) {
		s := start(t, options{database: database, settings: cheap + links + "[throttle.recover]\nburst = 1\nevery = \"1h\"\n",
			flags: []string{"--bake", "1h"}})
		u := s.newUser(t)
		s.refresh(t, s.signIn(t, u))
		s.post(t, "auth/", params{"login": u.login, "password": "wrong horse 7"}).want(t, "invalid_credentials")
		s.post(t, "recover/", params{"login": u.login}).want(t, "")
		s.mailTo(t, mailtext.Recovery, u.email)
		s.post(t, "recover/", params{"login": u.login}).want(t, "too_many_attempts")

		const operations, jobs = "personal_plugin_operation_duration_seconds_count", "personal_plugin_outbox_job_duration_seconds_count"
		for _, want := range []struct {
			name   string
			labels []string
			min    float64
		}{
			{operations, []string{"operation", "Register", "outcome", "ok"}, 1},
			{operations, []string{"operation", "Authorize", "outcome", "ok"}, 1},
			{operations, []string{"operation", "Authorize", "outcome", "refused"}, 1},
			{operations, []string{"operation", "Refresh", "outcome", "ok"}, 1},
			{"personal_plugin_hashing_wait_seconds_count", nil, 3}, // a registration and two sign-ins
			{"personal_plugin_rejected_attempts_total", []string{"limit", "recover"}, 1},
			{jobs, []string{"kind", "recovery", "outcome", "done"}, 1}, // the mail
			{jobs, []string{"kind", "event", "outcome", "done"}, 2},    // registered, signed_in and more
			{"personal_plugin_store_duration_seconds_count", []string{"operation", "write_session"}, 1},
			{"personal_plugin_store_duration_seconds_count", []string{"operation", "find_session"}, 1},
			{"personal_plugin_store_batch_size_count", []string{"operation", "write_session"}, 1},
			{"personal_plugin_process_cpu_seconds_total", nil, 0.001},
			{"personal_plugin_process_resident_memory_bytes", nil, 1 << 20},
		} {
			var samples []sample
			eventually(t, fmt.Sprint(want), func() bool {
				samples, _ = s.scrape(t)
				return measured(samples, want.name, want.labels...) >= want.min
			})
			if got := measured(samples, "personal_plugin_rejected_attempts_total"); got > 1 {
				t.Errorf("got %v rejected attempts, want 1", got)
			}
		}

		t.Run("contain nothing that callers sent", func(t *testing.T) {
			_, text := s.web(t, http.MethodGet, "/metrics", "")
			for _, secret := range []string{u.login, u.email, u.password, "127.0.0.1", u.pair.Hash} {
				if strings.Contains(text, secret) {
					t.Errorf("/metrics contains %q", secret)
				}
			}
		})
		t.Run("are those in the docs", func(t *testing.T) {
			samples, types := s.scrape(t)
			testMetricsInDocs(t, samples, types)
		})
		t.Run("are those in the dashboard", func(t *testing.T) {
			samples, _ := s.scrape(t)
			testMetricsInDashboard(t, samples)
		})
		t.Run("are those in the alerts", func(t *testing.T) {
			samples, _ := s.scrape(t)
			testMetricsInAlerts(t, samples)
		})
		t.Run("tell processes apart", func(t *testing.T) { testMetricsOfProcesses(t, s, u) })
	})
}

// testMetricsOfProcesses compares all counters while the plugin is swapped, rolled back and
// killed under load: each process counts for itself, so that no series decreases.
func testMetricsOfProcesses(t *testing.T, s *system, u user) {
	older, newer := s.plugin(t).Active.Version, s.installAnother(t)
	l := s.load(call{method: http.MethodGet, path: "profile/", as: u.pair}, call{method: http.MethodGet, path: "fields/"})
	before := map[string]float64{}
	compare := func() (process string, profiles float64) {
		t.Helper()
		samples, types := s.scrape(t)
		now := map[string]float64{}
		for _, one := range samples {
			if !strings.HasPrefix(one.name, "personal_") || types[one.name] == "gauge" {
				continue
			}
			now[fmt.Sprint(one.name, one.labels)] = one.value
		}
		for key, value := range now {
			if value < before[key] {
				t.Errorf("%s: got %v after %v", key, value, before[key])
			}
			before[key] = value // also of processes that may return
		}
		process = strconv.Itoa(int(measured(samples, "personal_plugin_generation")))
		return process, measured(samples, "personal_plugin_operation_duration_seconds_count", "operation", "Profile", "process", process)
	}
	// advance waits until the process that serves now, which has this number, has counted calls.
	advance := func(what, want string) {
		t.Helper()
		process, first := compare()
		if process != want {
			t.Errorf("%s: process %s serves, want %s", what, process, want)
		}
		eventually(t, what+": calls are counted", func() bool { _, n := compare(); return n > first })
	}
	advance("before", "1")
	s.use(t, newer)
	advance("after a swap", "2")
	if got, body := s.admin(t, http.MethodPost, "plugin/rollback", ""); got.StatusCode != http.StatusOK {
		t.Fatalf("rollback: got %d %s", got.StatusCode, body)
	}
	advance("after a rollback", "1")
	if version := s.plugin(t).Active.Version; version != older {
		t.Fatalf("got version %s, want %s", version, older)
	}
	pid := s.plugin(t).Active.PID
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another process serves", func() bool { now := s.plugin(t).Active.PID; return now != 0 && now != pid })
	advance("after a crash", "3")
	l.end(t)
	samples, _ := s.scrape(t)
	if got := measured(samples, "personal_plugin_swaps_total", "outcome", "rolled_back"); got != 1 {
		t.Errorf("got %v swaps rolled back, want 1", got)
	}
	if got := measured(samples, "personal_plugin_restarts_total"); got != 1 {
		t.Errorf("got %v restarts, want 1", got)
	}
}

// isPart reports whether a sample of the second name is part of a metric: of a histogram,
// its buckets, sum and count.
func isPart(metric, name, metricType string) bool {
	if metricType == "histogram" {
		return name == metric+"_bucket" || name == metric+"_sum" || name == metric+"_count"
	}
	return name == metric
}

var documentedMetric = regexp.MustCompile("(?m)^\\| `(personal_\\w+)(?:\\{([\\w,]+)\\})?` \\|")

// testMetricsInDocs compares the names and labels with the table in docs/observing.md.
func testMetricsInDocs(t *testing.T, samples []sample, types map[string]string) {
	page := readFile(t, repository+"/docs/observing.md")
	documented := map[string]string{}
	for _, row := range documentedMetric.FindAllStringSubmatch(page, -1) {
		documented[row[1]] = row[2]
	}
	exported := map[string]string{}
	for metric, metricType := range types {
		if !strings.HasPrefix(metric, "personal_") {
			continue
		}
		for _, one := range samples {
			if isPart(metric, one.name, metricType) {
				labels := slices.Sorted(maps.Keys(one.labels))
				exported[metric] = strings.Join(slices.DeleteFunc(labels, func(label string) bool { return label == "le" }), ",")
			}
		}
	}
	for metric, labels := range exported {
		names := strings.Split(documented[metric], ",")
		slices.Sort(names)
		if _, ok := documented[metric]; !ok || strings.Join(names, ",") != labels {
			t.Errorf("docs/observing.md has %s{%s}, want {%s}", metric, documented[metric], labels)
		}
	}
	for metric := range documented {
		if _, ok := exported[metric]; !ok {
			t.Errorf("docs/observing.md has %s, which is not exported", metric)
		}
	}
}

// testMetricsInAlerts checks every rule of deploy/alerts.yml, and the names in the series of its test, which
// .ci/extended runs. docs/observing.md has each alert.
func testMetricsInAlerts(t *testing.T, samples []sample) {
	var rules struct {
		Groups []struct {
			Rules []struct{ Record, Alert, Expr string }
		}
	}
	var tests struct {
		Tests []struct {
			Series []struct{ Series string } `yaml:"input_series"`
		}
	}
	for file, into := range map[string]any{"alerts.yml": &rules, "alerts_test.yml": &tests} {
		if err := yaml.Unmarshal([]byte(readFile(t, repository+"/deploy/"+file)), into); err != nil {
			t.Fatal(err)
		}
	}
	recorded, alerts := "up", []string{}
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			for _, name := range regexp.MustCompile(`\bpersonal:\w+:\w+`).FindAllString(r.Expr, -1) {
				if !slices.Contains(strings.Fields(recorded), name) {
					t.Errorf("%s: no rule before it records %s", r.Alert, name)
				}
			}
			if inExpression.MatchString(r.Expr) {
				checkExpression(t, r.Expr, samples)
			}
			if recorded += " " + r.Record; r.Alert != "" {
				alerts = append(alerts, r.Alert)
			}
		}
	}
	slices.Sort(alerts)
	documented := regexp.MustCompile("`(Personal[A-Z]\\w+)`").FindAllStringSubmatch(readFile(t, repository+"/docs/observing.md"), -1)
	var names []string
	for _, found := range documented {
		names = append(names, found[1])
	}
	slices.Sort(names)
	if diff := cmp.Diff(alerts, slices.Compact(names)); diff != "" || len(alerts) < 15 {
		t.Errorf("alerts in docs/observing.md (-want +got):\n%s", diff)
	}
	for _, one := range tests.Tests {
		for _, s := range one.Series {
			if !strings.HasPrefix(s.Series, "up{") {
				checkExpression(t, regexp.MustCompile(`="[^"]*"`).ReplaceAllString(s.Series, `!=""`), samples)
			}
		}
	}
}

// testMetricsInDashboard checks every query of the dashboard.
func testMetricsInDashboard(t *testing.T, samples []sample) {
	var dashboard struct {
		Panels []struct {
			Title   string
			Type    string
			Targets []struct{ Expr, LegendFormat string }
		}
		Templating struct {
			List []struct{ Name, Query string }
		}
	}
	if err := json.Unmarshal([]byte(readFile(t, repository+"/deploy/grafana-dashboard.json")), &dashboard); err != nil {
		t.Fatal(err)
	}
	queries := 0
	for _, panel := range dashboard.Panels {
		if panel.Type != "row" && len(panel.Targets) == 0 {
			t.Errorf("panel %s has no query", panel.Title)
		}
		for _, target := range panel.Targets {
			labels := checkExpression(t, target.Expr, samples)
			for _, label := range regexp.MustCompile(`\{\{(\w+)\}\}`).FindAllStringSubmatch(target.LegendFormat, -1) {
				if !slices.Contains(labels, label[1]) {
					t.Errorf("panel %s: the legend has label %s, which the result of %s has not", panel.Title, label[1], target.Expr)
				}
			}
			queries++
		}
	}
	for _, variable := range dashboard.Templating.List {
		if variable.Name != "datasource" {
			checkExpression(t, variable.Query, samples)
		}
	}
	if queries < 20 {
		t.Errorf("found %d queries in the dashboard, want more", queries)
	}
}

var (
	inExpression = regexp.MustCompile(`\b((?:personal|process|go)_\w+)(?:\{([^}]*)\})?`)
	matcher      = regexp.MustCompile(`(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"`)
	grouping     = regexp.MustCompile(`\bby \(([^)]*)\)`)
)

// targetLabels are those that Prometheus adds.
var targetLabels = []string{"job", "instance"}

// checkExpression checks that each metric in an expression is exported and has the labels
// that it is selected and grouped by, and that values are exported that it asks for. It
// returns the labels of the result.
func checkExpression(t *testing.T, expression string, samples []sample) (grouped []string) {
	t.Helper()
	metrics := inExpression.FindAllStringSubmatch(expression, -1)
	if len(metrics) == 0 {
		t.Errorf("%s names no metric", expression)
	}
	for _, by := range grouping.FindAllStringSubmatch(expression, -1) {
		for label := range strings.SplitSeq(by[1], ",") {
			grouped = append(grouped, strings.TrimSpace(label))
		}
	}
	for _, metric := range metrics {
		labels := map[string]map[string]bool{} // the values of each
		for _, one := range samples {
			if one.name != metric[1] {
				continue
			}
			for _, label := range targetLabels {
				labels[label] = nil
			}
			for label, value := range one.labels {
				if labels[label] == nil {
					labels[label] = map[string]bool{}
				}
				labels[label][value] = true
			}
		}
		if len(labels) == 0 {
			t.Errorf("%s: %s is not exported", expression, metric[1])
			continue
		}
		for _, m := range matcher.FindAllStringSubmatch(metric[2], -1) {
			values, ok := labels[m[1]]
			// Values that are written out must exist; there need not have been every outcome.
			if !ok || m[2] == "=" && !values[m[3]] && !slices.Contains(rpc.Outcomes(), rpc.Outcome(m[3])) {
				t.Errorf("%s: %s has no label %s with value %s", expression, metric[1], m[1], m[3])
			}
		}
		for _, label := range grouped {
			if _, ok := labels[label]; !ok {
				t.Errorf("%s: %s has no label %s", expression, metric[1], label)
			}
		}
	}
	return grouped
}
