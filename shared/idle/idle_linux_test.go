package idle_test

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/cms-personal/personal/shared/idle"
)

// mappedCode returns how much of this program's code is mapped, in KiB.
func mappedCode(t *testing.T) (kib int) {
	t.Helper()
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	code := false
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var n int
		if fields := strings.Fields(lines.Text()); len(fields) > 4 {
			code = fields[1] == "r-xp" && strings.HasSuffix(lines.Text(), program)
		} else if _, err := fmt.Sscanf(lines.Text(), "Rss: %d kB", &n); err == nil && code {
			kib += n
		}
	}
	return kib
}

func TestRelease_UnmapsCode(t *testing.T) {
	before := mappedCode(t)
	idle.Release()
	if after := mappedCode(t); before == 0 || after >= before {
		t.Errorf("got %d KiB of mapped code, before it %d", after, before)
	}
}
