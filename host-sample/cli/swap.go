package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/cms-personal/personal/shared/plugins/adminapi"
	"github.com/cms-personal/personal/shared/plugins/manager"
)

// progressInterval is the time between requests for the progress of a swap.
const progressInterval = 100 * time.Millisecond

type pluginUse struct {
	Version           string `arg:"" help:"The version to swap to."`
	AcceptDifferences bool   `help:"Swap although the version differs from the one that serves, or fails in the rehearsal, which is made and shown all the same; an event names what was accepted."`
	Now               bool   `help:"Swap although the host has had the version for less than serve --plugin-min-age; the host logs it."`
}

// Run prints the steps while they are taken, and returns when the version serves.
func (u *pluginUse) Run(ctx context.Context, parent *commands, out output) error {
	return parent.Plugin.swap(ctx, out, "/use", adminapi.UseRequest{Version: u.Version, AcceptDifferences: u.AcceptDifferences, Now: u.Now})
}

type pluginRehearse struct {
	Version string `arg:"" help:"The version to rehearse."`
	Now     bool   `help:"Rehearse although the host has had the version for less than serve --plugin-min-age; the host logs it."`
}

// Run prints the steps while they are taken, and the result. A failure is an error.
func (r *pluginRehearse) Run(ctx context.Context, parent *commands, out output) error {
	if err := parent.Plugin.swap(ctx, out, "/rehearse", adminapi.UseRequest{Version: r.Version, Now: r.Now}); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out.stdout, "a swap to plugin %s would go on\n", r.Version)
	return err
}

type pluginRollback struct{}

// Run prints the steps while they are taken, and returns when the previous version
// serves.
func (*pluginRollback) Run(ctx context.Context, parent *commands, out output) error {
	return parent.Plugin.swap(ctx, out, "/rollback", adminapi.UseRequest{})
}

// swap requests a swap, or a rehearsal, and prints its steps and the rehearsal. A rollback
// has no version.
func (p *pluginCommand) swap(ctx context.Context, out output, path string, request adminapi.UseRequest) error {
	var body []byte
	if request.Version != "" {
		var err error
		if body, err = json.Marshal(request); err != nil {
			return fmt.Errorf("calling the host: %w", err)
		}
	}
	host, err := findHost(p.Data)
	if err != nil {
		return err
	}
	before, _, err := host.status(ctx)
	if err != nil {
		return err
	}
	shown := &progress{w: out.stdout}
	if before.Swap != nil {
		shown.other = before.Swap.Started
	}
	rehearsed := func(r *manager.RehearsalStatus) error { // unless it was another one
		if r == nil || before.Rehearsal != nil && r.Time.Equal(before.Rehearsal.Time) {
			return nil
		}
		return printRehearsal(out.stdout, r)
	}
	report, err := host.watchSwap(ctx, path, body, shown)
	var refused *hostError
	switch {
	case errors.As(err, &refused):
		shown.refuse(refused.response.Step)
		after, _, failure := host.status(ctx)
		if failure == nil {
			failure = rehearsed(after.Rehearsal)
		}
		if path == "/use" && slices.Contains([]string{"rehearse", "same_answers"}, refused.response.Step) {
			fmt.Fprintf(out.stdout, "to swap all the same: plugin use %s --accept-differences\n", request.Version)
		}
		return errors.Join(err, failure)
	case err != nil && ctx.Err() != nil:
		shown.end("…")
		return fmt.Errorf("stopped waiting for the swap, which continues: %w", ctx.Err())
	case err != nil:
		shown.end("…")
		return err
	}
	shown.show(report.Swap)
	shown.end("done")
	if err := rehearsed(report.Rehearsal); err != nil || path == "/rehearse" {
		return err
	}
	active := report.Active
	outcome := fmt.Sprintf("plugin %s serves, process %d", active.Version, active.PID)
	if active.State == manager.StateBaking {
		outcome += "; it is baking"
		if report.Previous != nil {
			outcome += fmt.Sprintf(": %s is kept warm for a rollback", report.Previous.Version)
		}
	}
	_, err = fmt.Fprintln(out.stdout, outcome)
	return err
}

// watchSwap sends the request for a swap and shows its progress until the response
// arrives.
func (c *hostClient) watchSwap(ctx context.Context, path string, body []byte, shown *progress) (report adminapi.Overview, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, err = c.call(ctx, http.MethodPost, pluginAPI+path, body, &report)
	}()
	tick := time.NewTicker(progressInterval)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return report, err
		case <-tick.C:
			if now, _, err := c.status(ctx); err == nil { // if the host is gone, the request for the swap fails too
				shown.show(now.Swap)
			}
		}
	}
}

// progress prints the steps of a swap, one per line: the name when the step begins,
// its duration when it ends.
type progress struct {
	w     io.Writer
	other time.Time // start of an earlier swap, whose steps are not printed
	ended int       // steps printed to the end
	open  string    // the step whose line is not complete
}

// lastStep is the step after which calls go to the new process; then it bakes.
const lastStep = "workers"

func (p *progress) show(s *manager.SwapStatus) {
	if s == nil || s.Started.Equal(p.other) {
		return
	}
	for i := p.ended; i < len(s.Steps); i++ {
		step := s.Steps[i]
		if i > 0 && s.Steps[i-1].Name == lastStep {
			return
		}
		if p.open == "" {
			p.begin(step.Name)
		}
		if step.Took == 0 {
			return
		}
		p.end(duration(step))
		p.ended++
	}
}

// refuse completes the line of the step that was refused, if it is known.
func (p *progress) refuse(step string) {
	if step == "" {
		p.end("…")
		return
	}
	if p.open != step {
		p.end("…")
		p.begin(step)
	}
	p.end("refused")
}

func (p *progress) begin(step string) {
	fmt.Fprintf(p.w, "%-10s ", step)
	p.open = step
}

// end completes the open line, if there is one.
func (p *progress) end(text string) {
	if p.open != "" {
		fmt.Fprintln(p.w, text)
		p.open = ""
	}
}

// duration returns how long a step took, rounded for readers, and its details.
func duration(step manager.SwapStep) string {
	took := "<1ms"
	if step.Took >= time.Millisecond {
		took = step.Took.Round(time.Millisecond).String()
	}
	return strings.TrimSpace(took + "  " + step.Detail)
}

type pluginStatus struct {
	JSON bool `name:"json" help:"Print the report as the host sends it."`
}

// Run prints the host's report.
func (s *pluginStatus) Run(ctx context.Context, parent *commands, out output) error {
	host, err := findHost(parent.Plugin.Data)
	if err != nil {
		return err
	}
	report, raw, err := host.status(ctx)
	if err != nil {
		return err
	}
	if s.JSON {
		_, err = out.stdout.Write(raw)
		return err
	}
	return printStatus(out.stdout, report)
}

func printStatus(w io.Writer, r adminapi.Overview) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	a := r.Active
	fmt.Fprintf(table, "active\t%s\t%s%s\n", a.Version, process(a.State, a.Generation, a.PID), since(a.Started))
	if p := r.Previous; p != nil {
		fmt.Fprintf(table, "previous\t%s\t%s\n", p.Version, process(p.State, p.Generation, p.PID))
	}
	if s := r.Swap; s != nil {
		what := "swap"
		if s.RehearsalOnly {
			what = "rehearsal"
		}
		fmt.Fprintf(table, "%s\t%s\tfrom %s, step %s%s\n", what, s.To, s.From, s.Step, since(s.Started))
	}
	for _, v := range r.Versions {
		details := []string{"sha256 " + v.SHA256[:min(12, len(v.SHA256))]}
		if v.LastGood {
			details = append(details, "last good")
		}
		if v.Notes != "" {
			details = append(details, strings.Join(strings.Fields(v.Notes), " "))
		}
		fmt.Fprintf(table, "installed\t%s\t%s\n", v.Version, strings.Join(details, ", "))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if r.Swap != nil {
		fmt.Fprint(w, "\nsteps of the swap:\n")
		for _, s := range r.Swap.Steps {
			took := strings.TrimSpace("under way  " + s.Detail)
			if s.Took > 0 {
				took = duration(s)
			}
			fmt.Fprintf(w, "  %-10s %s\n", s.Name, took)
		}
	}
	if r.Rehearsal != nil {
		if err := printRehearsal(w, r.Rehearsal); err != nil {
			return err
		}
	}
	if a.Restarts > 0 {
		fmt.Fprintf(w, "\nrestarts after a crash: %d\n", a.Restarts)
	}
	for _, warning := range a.Warnings {
		fmt.Fprintf(w, "\nwarning: %s\n", warning)
	}
	for _, u := range a.UnknownSettings {
		level := "error"
		if u.KnownBy != "" {
			level = "warning"
		}
		fmt.Fprintf(w, "\n%s: settings: %s\n", level, u)
	}
	if a.LastError != "" {
		fmt.Fprintf(w, "\nlast error: %s\n", a.LastError)
	}
	return nil
}

// printRehearsal prints the checks of a rehearsal as a table.
func printRehearsal(w io.Writer, r *manager.RehearsalStatus) error {
	fmt.Fprintf(w, "\nrehearsal of %s: %s\n", r.Version, cmp.Or(string(r.Outcome), "under way"))
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, "  check\toutcome\tcomparisons\twhere, and why\n")
	for _, c := range r.Checks {
		var where []string
		for _, d := range c.Differences {
			where = append(where, d.String())
		}
		reason := strings.Join(where, ", ")
		if c.Reason != "" {
			reason = strings.TrimSpace(reason + " (" + c.Reason + ")")
		}
		fmt.Fprintf(table, "  %s\t%s\t%d\t%s\n", c.Name, c.Outcome, c.Count, cmp.Or(reason, "-"))
	}
	fmt.Fprintln(table)
	return table.Flush()
}

func process(state manager.State, generation, pid int) string {
	if pid == 0 {
		return string(state)
	}
	return fmt.Sprintf("%s, generation %d, process %d", state, generation, pid)
}

func since(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return ", since " + t.UTC().Format(time.DateTime) + " UTC"
}
