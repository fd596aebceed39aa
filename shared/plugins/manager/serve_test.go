package manager_test

import (
	"context"
	"crypto/tls"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/plugins/manager"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

func TestManager_StartsServesAndStopsInOrder(t *testing.T) {
	t.Parallel()
	r := newRig(t, warns, func(c *manager.Config) {
		c.AccountURL = "https://example.com/account"
		c.Settings = func() ([]byte, error) { return []byte("[session]"), nil }
	})
	r.start(t)
	s := r.Status()
	if s.State != manager.StateServing || s.Version != "1.0.0" || s.Generation != 1 || s.PID == 0 || s.Started.IsZero() ||
		s.Restarts != 0 {
		t.Errorf("got status %+v, want that the first process of 1.0.0 serves", s)
	}
	if !slices.Equal(s.Warnings, []string{healthWarning}) {
		t.Errorf("got the warnings %q, want the plugin's", s.Warnings)
	}
	if err := r.Ready(limited(t)); err != nil {
		t.Error(err)
	}
	pid := strconv.Itoa(s.PID)
	if got, err := r.servingPID(limited(t)); err != nil || got != pid {
		t.Errorf("got a response from process %q (%v), want %s", got, err, pid)
	}
	if got := r.folder.read("settings"); got != "[session]" {
		t.Errorf("got settings %q, want %q", got, "[session]")
	}
	if got := r.folder.read("account URL"); got != "https://example.com/account" {
		t.Errorf("got the account URL %q, want that of the configuration", got)
	}
	eventually(t, "background work", func() bool { return r.folder.read("active") == pid })

	if err := r.Stop(limited(t)); err != nil {
		t.Fatal(err)
	}
	if r.folder.read("quiesced") != pid || r.folder.read("closed") != pid {
		t.Error("got no orderly stop, want that the module was quiesced and closed")
	}
	if !dead(s.PID) {
		t.Error("got a living process, want that it has ended")
	}
	if got := r.Status().State; got != manager.StateStopped {
		t.Errorf("got state %s, want stopped", got)
	}
	_, err := r.servingPID(limited(t))
	wantUnavailable(t, err)
	if err := r.Ready(limited(t)); err == nil {
		t.Error("got that a stopped plugin is ready, want an error")
	}
}

func TestEnvironment_HostVariablesAreNotInherited(t *testing.T) {
	t.Setenv("PERSONAL_DATABASE", "postgres://user:hunter2@example.org/")
	t.Setenv("TZ", "Europe/Vilnius")
	r := newRig(t, listsEnvironment, nil)
	r.start(t)
	environment := "\n" + r.folder.read("environment")
	if !strings.Contains(environment, "\nTZ=Europe/Vilnius") {
		t.Error("got no TZ, want that the plugin inherits it")
	}
	for _, name := range []string{"PERSONAL_DATABASE", "PATH", "HOME"} {
		if strings.Contains(environment, "\n"+name+"=") {
			t.Errorf("got %s in the environment of the plugin, want that it stays with the host", name)
		}
	}
}

func TestSockets_PrivateFolderIsRemovedOnStop(t *testing.T) {
	t.Parallel()
	r := newRig(t, good, nil)
	r.start(t)
	sockets, err := os.Readlink(filepath.Join(r.run, "sockets"))
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(sockets); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("folder of the sockets: got %v (%v), want mode 0700", info, err)
	}
	found := 0
	_ = filepath.WalkDir(sockets, func(path string, d os.DirEntry, _ error) error {
		if d.Type()&os.ModeSocket != 0 {
			found++
			if err := callWithoutCertificate(path); err == nil || !strings.Contains(err.Error(), "certificate required") {
				t.Errorf("a call to %s without a certificate: got %v, want that one is required", path, err)
			}
		}
		return nil
	})
	if found < 2 {
		t.Errorf("got %d sockets, want at least the plugin's and the host's", found)
	}
	if err := r.Stop(limited(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(sockets); !os.IsNotExist(err) {
		t.Errorf("sockets after the stop: got %v, want that they are removed", err)
	}
}

// callWithoutCertificate returns the error of a TLS connection that shows no certificate.
func callWithoutCertificate(socket string) error {
	conn, err := tls.Dial("unix", socket, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(generous)); err != nil {
		return err
	}
	_, err = conn.Read(make([]byte, 1)) // an HTTP/2 server is the first to speak
	return err
}

func TestStart_RunFolderIsExclusive(t *testing.T) {
	t.Parallel()
	r := newRig(t, good, nil)
	r.start(t)
	second := newRig(t, good, func(c *manager.Config) { c.RunDir = r.run })
	if err := second.Start(); err == nil {
		t.Error("got a second manager in the folder of the first, want an error")
	}
	if err := r.Start(); err == nil {
		t.Error("got a manager that started twice, want an error")
	}
}

func TestInvoke_PluginErrorsPassUnchanged(t *testing.T) {
	t.Parallel()
	r := newRig(t, good, nil)
	r.start(t)
	err := r.service.Recover(limited(t), personal.RecoverRequest{Login: "unavailable"})
	if got, _ := errors.AsType[*personal.Error](err); got == nil || got.Code != personal.CodeUnavailable || got.RetryAfter != 42*time.Second {
		t.Errorf("got %v, want unavailable with the plugin's time to retry", err)
	}
	if s := r.Status(); s.State != manager.StateServing || s.Restarts != 0 {
		t.Errorf("got status %+v, want that the process serves without restart", s)
	}
}

func TestInvoke_CancelledCallIsNotALostProcess(t *testing.T) {
	t.Parallel()
	r := newRig(t, good, nil)
	r.start(t)
	ctx, cancel := context.WithCancel(limited(t))
	result := make(chan error, 1)
	go func() { result <- r.service.Recover(ctx, personal.RecoverRequest{Login: "wait"}) }()
	eventually(t, "a call under way", func() bool { return r.exists("waiting") })
	cancel()
	if err := <-result; err == nil {
		t.Error("got the success of a cancelled call, want an error")
	}
	if _, err := r.servingPID(limited(t)); err != nil {
		t.Error(err)
	}
	if s := r.Status(); s.Restarts != 0 {
		t.Errorf("got status %+v, want no restart", s)
	}
}

func TestInvoke_WaitEndsWithContext(t *testing.T) {
	t.Parallel()
	r := newRig(t, hangsBefore, func(c *manager.Config) {
		c.Limits().RestartWait, c.Limits().StartTimeout = time.Hour, time.Hour
	})
	r.begin(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond) // real time: it is to expire
	defer cancel()
	_, err := r.servingPID(ctx)
	wantUnavailable(t, err)
}

func TestDialProfiles_WithoutTheOptionThereAreNone(t *testing.T) {
	t.Parallel()
	r := newRig(t, good, nil)
	var permanent *rpc.PermanentError
	if _, err := r.DialProfiles(limited(t)); err == nil || errors.As(err, &permanent) {
		t.Errorf("before the start: got error %v, want one that passes", err)
	}
	r.start(t)
	if _, err := r.DialProfiles(limited(t)); !errors.As(err, &permanent) || permanent.Reason != "the plugin serves no profiles" {
		t.Errorf("got error %v, want that the plugin serves no profiles", err)
	}
}
