package system

import (
	"bytes"
	"strings"
	"sync"
)

// journal keeps what a process writes.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// linesWith returns the lines that hold the text.
func (j *journal) linesWith(text string) []string {
	var found []string
	for line := range strings.Lines(j.String()) {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

// tail returns the last lines.
func (j *journal) tail(n int) string {
	lines := strings.SplitAfter(j.String(), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "")
}
