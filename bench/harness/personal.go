package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// API is the path of the module's API on the sample host.
const API = "/api/v1/personal/"

// Personal is a build of the sample host and the plugin.
type Personal struct {
	Host, Plugin string // paths
}

// Program returns the host with a data folder. The first start installs the plugin.
// database is a URL, or empty for SQLite in the folder.
func (b Personal) Program(folder, settings, database string) Program {
	return Program{Ready: "/readyz", Log: folder + ".log", Command: func(addr string) *exec.Cmd {
		args := []string{"serve", "--addr", addr, "--data", folder, "--settings", settings}
		if _, err := os.Stat(filepath.Join(folder, "plugins")); err != nil {
			args = append(args, "--plugin", b.Plugin)
		}
		cmd := exec.Command(b.Host, args...)
		for _, v := range os.Environ() {
			if !strings.HasPrefix(v, "PERSONAL_") {
				cmd.Env = append(cmd.Env, v)
			}
		}
		if database != "" {
			cmd.Env = append(cmd.Env, "PERSONAL_DATABASE="+database)
		}
		return cmd
	}}
}

// Memory returns the memory of the host and its plugin in MB.
func (s *Process) Memory(ctx context.Context) (float64, error) {
	pids := []int{s.cmd.Process.Pid}
	body, err := s.Get(ctx, s.ready)
	if err != nil {
		return 0, err
	}
	var readiness struct{ PID int }
	if err := json.Unmarshal(body, &readiness); err != nil {
		return 0, err
	}
	if readiness.PID != 0 {
		pids = append(pids, readiness.PID)
	}
	return pss(pids...)
}

// Session holds the credentials of a signed-in user.
type Session struct {
	ID   int64  `json:"user_id"`
	Hash string `json:"user_hash"`
}

// Header returns the header lines with the credentials.
func (s Session) Header() string {
	return fmt.Sprintf("User-Id: %d\r\nUser-Hash: %s\r\n", s.ID, s.Hash)
}

// Read sets the session from a response.
func (s *Session) Read(body []byte) error {
	var envelope struct{ Data Session }
	if err := json.Unmarshal(body, &envelope); err != nil {
		return err
	}
	*s = envelope.Data
	return nil
}
