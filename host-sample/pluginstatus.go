package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/cms-personal/personal/shared/pluginadmin"
	"github.com/cms-personal/personal/shared/pluginmanager"
)

type pluginStatus struct {
	JSON bool `name:"json" help:"As the host sends it."`
}

// Run shows the host's report.
func (s *pluginStatus) Run(ctx context.Context, parent *commands, out output) error {
	host, err := parent.Plugin.runningHost()
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
	return writeStatus(out.stdout, report)
}

// writeStatus writes a report for people.
func writeStatus(w io.Writer, r pluginadmin.Report) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	a := r.Active
	fmt.Fprintf(table, "active\t%s\t%s\n", a.Version, describe(a.State, a.Generation, a.PID)+since(a.Started))
	if p := r.Previous; p != nil {
		fmt.Fprintf(table, "previous\t%s\t%s\n", p.Version, describe(p.State, p.Generation, p.PID))
	}
	if s := r.Swap; s != nil {
		fmt.Fprintf(table, "swap\t%s\tfrom %s, step %s%s\n", s.To, s.From, s.Step, since(s.Started))
	}
	for _, v := range r.Versions {
		fmt.Fprintf(table, "installed\t%s\t%s\n", v.Version, about(v))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if r.Swap != nil {
		writeSteps(w, r.Swap.Steps)
	}
	if a.Restarts > 0 {
		fmt.Fprintf(w, "\nprocesses that took the place of a dead one: %d\n", a.Restarts)
	}
	if a.LastError != "" {
		fmt.Fprintf(w, "\nlast error: %s\n", a.LastError)
	}
	return nil
}

func writeSteps(w io.Writer, steps []pluginmanager.SwapStep) {
	fmt.Fprint(w, "\nsteps of the swap:\n")
	for _, s := range steps {
		took := "under way"
		if s.Took > 0 {
			took = tidy(s.Took)
		}
		fmt.Fprintf(w, "  %-10s %s%s\n", s.Name, took, note(s.Detail))
	}
}

func describe(state pluginmanager.State, generation, pid int) string {
	if pid == 0 {
		return string(state)
	}
	return fmt.Sprintf("%s, generation %d, process %d", state, generation, pid)
}

func since(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return ", since " + t.Local().Format(time.DateTime)
}

// about sums a version up, with as much of its sum as tells builds apart.
func about(v pluginadmin.Version) string {
	parts := []string{"sha256 " + v.SHA256[:min(12, len(v.SHA256))]}
	if v.LastGood {
		parts = append(parts, "last good")
	}
	if v.Notes != "" {
		parts = append(parts, strings.Join(strings.Fields(v.Notes), " "))
	}
	return strings.Join(parts, ", ")
}
