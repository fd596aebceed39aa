package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/cms-personal/personal/shared/pluginadmin"
	"github.com/cms-personal/personal/shared/pluginmanager"
)

// progressPoll is the time between looks at a swap.
const progressPoll = 100 * time.Millisecond

type pluginUse struct {
	Version string `arg:"" help:"The version to swap to."`
}

// Run shows the steps while they are taken and returns when calls go to the
// version.
func (u *pluginUse) Run(ctx context.Context, parent *commands, out output) error {
	body, err := json.Marshal(map[string]string{"version": u.Version})
	if err != nil {
		return fmt.Errorf("asking the host: %w", err)
	}
	return parent.Plugin.change(ctx, out, "/use", body)
}

type pluginRollback struct{}

// Run shows the steps while they are taken and returns when calls go to the
// version before.
func (*pluginRollback) Run(ctx context.Context, parent *commands, out output) error {
	return parent.Plugin.change(ctx, out, "/rollback", nil)
}

// runningHost finds the host that runs on the command's data folder.
func (p *pluginCommand) runningHost() (*hostClient, error) {
	dir, err := absolute(p.Data)
	if err != nil {
		return nil, &settingError{key: "data", err: err}
	}
	return findHost(dir)
}

// change asks for a swap and shows its steps.
func (p *pluginCommand) change(ctx context.Context, out output, path string, body []byte) error {
	host, err := p.runningHost()
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
	report, err := host.watchSwap(ctx, path, body, shown)
	var refused *faultError
	switch {
	case errors.As(err, &refused):
		shown.refused(refused.fault.Step)
		return err
	case err != nil && ctx.Err() != nil:
		shown.end("…")
		return fmt.Errorf("no longer waiting for the swap, which goes on: %w", ctx.Err())
	case err != nil:
		shown.end("…")
		return err
	}
	shown.show(report.Swap)
	shown.end("done")
	_, err = fmt.Fprintln(out.stdout, outcome(report))
	return err
}

// outcome says what serves now.
func outcome(r pluginadmin.Report) string {
	a := r.Active
	text := fmt.Sprintf("plugin %s serves, process %d", a.Version, a.PID)
	if a.State != pluginmanager.StateBaking {
		return text
	}
	if r.Previous == nil {
		return text + "; it is baking"
	}
	return text + fmt.Sprintf("; it is baking: %s is kept warm, to go back to", r.Previous.Version)
}

// watchSwap sends the request for a swap and looks at how it gets on until the
// answer is there.
func (c *hostClient) watchSwap(ctx context.Context, path string, body []byte, shown *progress) (pluginadmin.Report, error) {
	type answer struct {
		report pluginadmin.Report
		err    error
	}
	answers := make(chan answer, 1)
	go func() {
		report, _, err := c.report(ctx, http.MethodPost, path, body)
		answers <- answer{report, err}
	}()
	tick := time.NewTicker(progressPoll)
	defer tick.Stop()
	for {
		select {
		case a := <-answers:
			return a.report, a.err
		case <-tick.C:
			if now, _, err := c.status(ctx); err == nil { // the answer will tell, if the host is away
				shown.show(now.Swap)
			}
		}
	}
}

// progress writes the steps of a swap, a line for each: its name when it
// begins, how long it took when it ends.
type progress struct {
	w     io.Writer
	other time.Time // when the swap began that was there before; its steps are not ours
	ended int       // steps written to the end
	open  string    // the step whose line is not ended
}

// lastStep is the one at which a swap has switched; what follows is the trial.
const lastStep = "workers"

func (p *progress) show(s *pluginmanager.SwapStatus) {
	if s == nil || s.Started.Equal(p.other) {
		return
	}
	for i := p.ended; i < len(s.Steps); i++ {
		step := s.Steps[i]
		if i > 0 && s.Steps[i-1].Name == lastStep {
			return
		}
		if p.open == "" {
			fmt.Fprintf(p.w, "%-10s ", step.Name)
			p.open = step.Name
		}
		if step.Took == 0 {
			return
		}
		fmt.Fprintln(p.w, tidy(step.Took)+note(step.Detail))
		p.open = ""
		p.ended++
	}
}

// refused ends the line of the step that was refused, if it is known.
func (p *progress) refused(step string) {
	if step == "" {
		p.end("…")
		return
	}
	if p.open != step {
		p.end("…")
		fmt.Fprintf(p.w, "%-10s ", step)
		p.open = step
	}
	p.end("refused")
}

// end ends the line of a step of which no more is known, if there is one.
func (p *progress) end(text string) {
	if p.open != "" {
		fmt.Fprintln(p.w, text)
		p.open = ""
	}
}

func note(detail string) string {
	if detail == "" {
		return ""
	}
	return "  " + detail
}

// tidy leaves out the digits that nobody reads.
func tidy(d time.Duration) string {
	if d < time.Millisecond {
		return "<1ms"
	}
	return d.Round(time.Millisecond).String()
}
