package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// generous is longer than a build takes on a busy machine.
const generous = time.Minute

// The programs of a small module. The plugin prints its version. The host prints what it
// is asked to do, refuses to swap to a version that contains "bad", and serves until
// SIGTERM or until the file "crash" exists.
const (
	pluginSource = `package main

func main() { println("0.0.0-dev+%s") }
`
	hostSource = `package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	switch command := strings.Join(os.Args[1:], " "); {
	case strings.HasPrefix(command, "plugin install"):
		version, _ := exec.Command(os.Args[len(os.Args)-1]).CombinedOutput()
		fmt.Print(string(version))
	case command == "plugin list":
		fmt.Println("1.0.0 SHA\n0.0.0-dev+old SHA\n0.0.0-dev+used SHA last good")
	case strings.HasPrefix(command, "plugin remove"):
		f, _ := os.OpenFile("removed", os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		fmt.Fprintln(f, os.Args[3])
	case strings.Contains(command, "bad"):
		fmt.Println("check refused")
		os.Exit(1)
	case strings.HasPrefix(command, "plugin use"):
		fmt.Printf("start 1ms\nplugin %%s serves", os.Args[3])
	case command == "serve":
		fmt.Println("host %[1]s serves")
		stop := make(chan os.Signal, 1)
		signal.Notify(stop, syscall.SIGTERM)
		for len(stop) == 0 {
			if os.Remove("crash") == nil {
				os.Exit(7)
			}
			time.Sleep(time.Millisecond)
		}
		fmt.Println("host %[1]s stops")
	}
}
`
)

func TestUntilSignal_ClosedTerminalEndsIt(t *testing.T) {
	ctx, stop := untilSignal()
	defer stop()
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	<-ctx.Done()
}

func TestRun_KeepsHostUpToDate(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "go.mod", "module example.com/module\n")
	write(t, "plugin/main.go", fmt.Sprintf(pluginSource, "1"))
	write(t, "host-sample/go.mod", "module example.com/module/host-sample\n")
	write(t, "host-sample/main.go", fmt.Sprintf(hostSource, "one"))
	ctx, cancel := context.WithCancel(t.Context())
	out := &output{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		(&development{out: out, errs: out}).run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	out.await(t, "host one serves")

	for _, step := range []struct {
		name, file, text string
		want             []string // in the order of output
	}{
		{"broken plugin", "plugin/main.go", "package main\n\nfunc main() { wrong }\n", []string{"dev: the build has failed", "undefined: wrong", "dev: the old version serves on"}},
		{"other plugin", "plugin/main.go", fmt.Sprintf(pluginSource, "2"), []string{"dev: swapping to plugin 0.0.0-dev+2", "dev: plugin 0.0.0-dev+2 serves"}},
		{"refused plugin", "plugin/main.go", fmt.Sprintf(pluginSource, "bad"), []string{"dev: the swap has failed", "check refused", "dev: the old version serves on"}},
		{"same plugin", "plugin/main.go", fmt.Sprintf(pluginSource, "2"), []string{"dev: the programs have not changed"}},
		{"other host", "host-sample/main.go", fmt.Sprintf(hostSource, "two"), []string{"dev: the host has changed, it restarts", "host one stops", "host two serves"}},
		{"host that ends", "crash", "", []string{"dev: the host has ended (exit status 7), it starts again after the next change"}},
		{"next change", "plugin/main.go", fmt.Sprintf(pluginSource, "3"), []string{"host two serves"}},
	} {
		write(t, step.file, step.text)
		for _, want := range step.want {
			out.await(t, want)
		}
	}
	cancel()
	<-done
	if !strings.HasSuffix(out.text, "host two stops\n") {
		t.Errorf("got output %q, want that the host has stopped", out.text)
	}

	removed, err := os.ReadFile("removed")
	if got := slices.Compact(strings.Fields(string(removed))); err != nil || !slices.Equal(got, []string{"0.0.0-dev+old"}) {
		t.Errorf("got removed versions %v (%v), want only the old build that is not in use", got, err)
	}
}

func TestScan_IgnoresTestsNestedModulesAndFilesOfEditors(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, path := range []string{
		"plugin/main.go", "plugin/settings.toml", "plugin/main_test.go", "plugin/.main.go.swp", "plugin/main.go~",
		"plugin/testdata/x.go", "host-sample/go.mod", "host-sample/e2e/go.mod", "host-sample/e2e/x.go", "data/personal.db", "go.mod",
	} {
		write(t, path, "")
	}
	want := []string{"go.mod", "host-sample/go.mod", "plugin/main.go", "plugin/settings.toml"}
	if got := slices.Sorted(maps.Keys(scan())); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// output collects what the tool and its programs print.
type output struct {
	mu   sync.Mutex
	text string
	read int // how much of the text await has passed
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text += string(p)
	return len(p), nil
}

// await waits for text that follows what was awaited before.
func (o *output) await(t *testing.T, text string) {
	t.Helper()
	for deadline := time.Now().Add(generous); ; time.Sleep(5 * time.Millisecond) {
		o.mu.Lock()
		at := strings.Index(o.text[o.read:], text)
		if at >= 0 {
			o.read += at + len(text)
			o.mu.Unlock()
			return
		}
		all := o.text
		o.mu.Unlock()
		if time.Now().After(deadline) {
			t.Fatalf("got output %q, want %q", all, text)
		}
	}
}
