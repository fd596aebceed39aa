package pluginmanager_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/pluginmanager"
)

func TestAPluginIsBroughtUpServesAndIsEndedInOrder(t *testing.T) {
	r := newRig(t, warns, func(c *pluginmanager.Config) {
		c.Settings = func() ([]byte, error) { return []byte("[session]"), nil }
	})
	r.start(t)
	s := r.Status()
	if s.State != pluginmanager.StateServing || s.Version != "1.0.0" || s.Generation != 1 || s.PID == 0 || s.Started.IsZero() || s.Restarts != 0 {
		t.Errorf("status: %+v", s)
	}
	if err := r.Ready(limited(t)); err != nil {
		t.Error(err)
	}
	pid := strconv.Itoa(s.PID)
	if got, err := r.answerer(limited(t)); err != nil || got != pid {
		t.Errorf("process %q answers (%v), want %s", got, err, pid)
	}
	if got := r.folder.read("settings"); got != "[session]" {
		t.Errorf("the plugin got the settings %q", got)
	}
	eventually(t, "background work", func() bool { return r.folder.read("active") == pid })

	if err := r.Stop(limited(t)); err != nil {
		t.Fatal(err)
	}
	if r.folder.read("quiesced") != pid || r.folder.read("closed") != pid {
		t.Error("the plugin was not ended in order")
	}
	if !dead(s.PID) {
		t.Error("the process is still there")
	}
	if got := r.Status().State; got != pluginmanager.StateStopped {
		t.Errorf("state %s", got)
	}
	_, err := r.answerer(limited(t))
	wantUnavailable(t, err)
	if err := r.Ready(limited(t)); err == nil {
		t.Error("a stopped plugin is ready")
	}
}

func TestThePluginGetsNothingOfTheHostsEnvironment(t *testing.T) {
	t.Setenv("PERSONAL_DATABASE", "postgres://user:hunter2@example.org/")
	t.Setenv("TZ", "Europe/Vilnius")
	r := newRig(t, listsEnvironment, nil)
	r.start(t)
	environment := "\n" + r.folder.read("environment")
	if !strings.Contains(environment, "\nTZ=Europe/Vilnius") {
		t.Error("the time zone is missing")
	}
	for _, name := range []string{"PERSONAL_DATABASE", "PATH", "HOME"} {
		if strings.Contains(environment, "\n"+name+"=") {
			t.Errorf("the plugin got %s", name)
		}
	}
}

func TestSocketsLieInAPrivateFolderThatGoesWithTheManager(t *testing.T) {
	r := newRig(t, good, nil)
	r.start(t)
	sockets, err := os.Readlink(filepath.Join(r.run, "sockets"))
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(sockets); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder of the sockets: %v, %v", info, err)
	}
	found := 0
	_ = filepath.WalkDir(sockets, func(_ string, d os.DirEntry, _ error) error {
		if d.Type()&os.ModeSocket != 0 {
			found++
		}
		return nil
	})
	if found < 2 {
		t.Errorf("%d sockets there, want the plugin's and the host's", found)
	}
	if err := r.Stop(limited(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(sockets); !os.IsNotExist(err) {
		t.Errorf("the sockets are still there (%v)", err)
	}
}

func TestAFolderServesOneManagerAtATime(t *testing.T) {
	r := newRig(t, good, nil)
	r.start(t)
	second := newRig(t, good, func(c *pluginmanager.Config) { c.RunDir = r.run })
	if err := second.Start(); err == nil {
		t.Error("a second manager started in the folder of the first")
	}
	if err := r.Start(); err == nil {
		t.Error("a manager started twice")
	}
}

func TestAnAnswerOfThePluginPassesAsItIs(t *testing.T) {
	r := newRig(t, good, nil)
	r.start(t)
	err := r.service.Recover(limited(t), personal.RecoverRequest{Login: "unavailable"})
	wantUnavailable(t, err)
	if err != nil && !strings.Contains(err.Error(), "unavailable") {
		t.Error(err)
	}
	err = r.service.Recover(limited(t), personal.RecoverRequest{Login: "panic"})
	if personal.CodeOf(err) != personal.CodeInternal || strings.Contains(err.Error(), "secret") {
		t.Errorf("a panic in a call: %v", err)
	}
	if s := r.Status(); s.State != pluginmanager.StateServing || s.Restarts != 0 {
		t.Errorf("status after it: %+v", s)
	}
}

func TestACallsOwnEndIsNotTakenForALostProcess(t *testing.T) {
	r := newRig(t, good, nil)
	r.start(t)
	ctx, cancel := context.WithCancel(limited(t))
	result := make(chan error, 1)
	go func() { result <- r.service.Recover(ctx, personal.RecoverRequest{Login: "wait"}) }()
	eventually(t, "a call under way", func() bool {
		_, err := os.Stat(filepath.Join(string(r.folder), "waiting"))
		return err == nil
	})
	cancel()
	if err := <-result; err == nil {
		t.Error("a cancelled call succeeded")
	}
	if _, err := r.answerer(limited(t)); err != nil {
		t.Error(err)
	}
	if s := r.Status(); s.Restarts != 0 {
		t.Errorf("status after it: %+v", s)
	}
}

func TestACallThatComesBeforeThePluginIsReadyWaitsForIt(t *testing.T) {
	r := newRig(t, good, func(c *pluginmanager.Config) { c.RestartWait = generous })
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.answerer(limited(t)); err != nil {
		t.Error(err)
	}
}

func TestAWaitingCallEndsWithItsContext(t *testing.T) {
	r := newRig(t, hangsBefore, func(c *pluginmanager.Config) {
		c.RestartWait, c.StartTimeout = time.Hour, time.Hour
	})
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err := r.answerer(ctx)
	wantUnavailable(t, err)
}
