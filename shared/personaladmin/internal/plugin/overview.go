package plugin

import (
	"bufio"
	"bytes"
	"context"
	"net/http"
	"regexp"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personaladmin/internal/frame"
	"github.com/cms-personal/personal/shared/personalweb/ui"
	"github.com/cms-personal/personal/shared/plugins/manager"
)

// Overview is the page with the state of everything at a glance.
type Overview struct {
	Manager        OverviewManager
	Administration Users
	Counts         *Counts

	pages Pages // for the words
}

// OverviewManager is the part of a [manager.Manager] that the overview uses.
type OverviewManager interface {
	Status() manager.Status
	Ready(ctx context.Context) error
	Metrics(ctx context.Context) []manager.Metrics
}

// Users is the part of [personal.Administration] that the overview uses.
type Users interface {
	FindUsers(context.Context, personal.FindUsersRequest) (personal.UserPage, error)
}

// Counts count what visitors did since the host started. It is safe for concurrent use.
type Counts struct {
	Since                          time.Time
	registered, signedIn, failures atomic.Int64
}

// Count is a [rpc.CallObserver].
func (c *Counts) Count(operation personal.OperationName, code personal.Code, _ time.Duration) {
	switch operation {
	case personal.OpRegister, personal.OpRegisterIdentity:
		if code == "" {
			c.registered.Add(1)
		}
	case personal.OpAuthorize, personal.OpAuthorizePasskey, personal.OpSignIn:
		switch code {
		case "":
			c.signedIn.Add(1)
		case personal.CodeInvalidCredentials, personal.CodeInvalidCode, personal.CodeCodesBlocked, personal.CodeTooManyAttempts,
			personal.CodeAccountDisabled, personal.CodeEmailUnverified:
			c.failures.Add(1)
		}
	}
}

// Name implements [frame.Section].
func (o *Overview) Name() string { return "overview" }

// Register implements [frame.Section].
func (o *Overview) Register(s *frame.Site) {
	o.pages.site = s
	const path = frame.Path + "/overview"
	s.Handle("GET "+path, func(w http.ResponseWriter, r *http.Request) error {
		return s.Render(w, r, http.StatusOK, "overview", ui.Page{Live: true, Body: frame.NewLivePart(o.read(r))})
	})
	s.Handle("GET "+path+"/now", func(w http.ResponseWriter, r *http.Request) error {
		return s.RenderPart(w, r, "overview", "overview_now", o.read(r))
	})
}

// overview is the live part of the page. URLs are empty without their section.
type overview struct {
	State, Tone, Version, Health string // health: why the plugin does not respond
	Uptime                       string
	PluginURL                    string
	Settings                     []manager.UnknownSetting

	Users    string // how many; empty if unknown
	Newest   []newUser
	UsersURL string

	Since                        time.Time
	Registered, SignedIn, Failed int64
	EventsURL                    string

	Mails   string // waiting; empty if unknown
	MailURL string
}

type newUser struct {
	Login, URL string
	Created    time.Time
}

const (
	overviewTimeout = 2 * time.Second
	newestUsers     = 5
)

func (o *Overview) read(r *http.Request) overview {
	ctx, cancel := context.WithTimeout(r.Context(), overviewTimeout)
	defer cancel()
	p, s := &o.pages, o.Manager.Status()
	now := overview{
		State: p.name(r, "plugin_state_", string(s.State)), Tone: tone(s.State), Version: s.Version, Settings: s.UnknownSettings,
		Since: o.Counts.Since, Registered: o.Counts.registered.Load(), SignedIn: o.Counts.signedIn.Load(), Failed: o.Counts.failures.Load(),
		PluginURL: p.site.LinkTo("plugin", path), UsersURL: p.site.LinkTo(frame.Users, frame.Path+"/users"),
		EventsURL: p.site.LinkTo(frame.Events, frame.Path+"/events"), MailURL: p.site.LinkTo("mail", frame.Path+"/mail"),
	}
	if !s.Started.IsZero() {
		now.Uptime = p.duration(r, time.Since(s.Started))
	}
	if err := o.Manager.Ready(ctx); err != nil {
		now.Health = err.Error()
		return now
	}
	// One page says how many there are, unless they are many: a site may have millions.
	if page, err := o.Administration.FindUsers(ctx, personal.FindUsersRequest{Limit: personal.MaxUserLimit}); err == nil {
		now.Users = strconv.Itoa(len(page.Users))
		if page.Next != 0 {
			now.Users = p.site.Text(r, "overview_more_than", len(page.Users))
		}
		for _, u := range page.Users[:min(newestUsers, len(page.Users))] {
			url := p.site.LinkTo(frame.Users, frame.Path+"/users/"+strconv.FormatInt(u.ID, 10))
			now.Newest = append(now.Newest, newUser{u.Login, url, u.Created})
		}
	}
	if waiting, ok := waitingMails(o.Manager.Metrics(ctx)); ok {
		now.Mails = strconv.Itoa(waiting)
	}
	return now
}

var waitingJobs = regexp.MustCompile(`^personal_plugin_outbox_jobs\{kind="(\w+)"\} ([0-9]+)`)

// waitingMails returns how many jobs that send mails wait, as the live process reports it. It
// reports false if the process reports nothing.
func waitingMails(all []manager.Metrics) (waiting int, ok bool) {
	var live manager.Metrics
	for _, m := range all {
		if m.Process > live.Process {
			live = m
		}
	}
	for lines := bufio.NewScanner(bytes.NewReader(live.Text)); lines.Scan(); {
		found := waitingJobs.FindSubmatch(lines.Bytes())
		if found == nil {
			continue
		}
		ok = true
		switch string(found[1]) {
		case "event", "erasure", "fill_fields", "wrap", "other": // no mails
			continue
		}
		n, _ := strconv.Atoi(string(found[2])) // digits
		waiting += n
	}
	return waiting, ok
}
