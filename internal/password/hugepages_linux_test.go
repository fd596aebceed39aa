package password

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestHugePages_UntilHashingPauses(t *testing.T) {
	if _, err := os.Stat("/sys/kernel/mm/transparent_hugepage"); err != nil {
		t.Skip("this kernel has no huge pages")
	}
	synctest.Test(t, func(t *testing.T) {
		c := newGCPacer(Params{MemoryKiB: 19 * 1024}, 2)
		want := func(flag string) { // of proc_pid_smaps(5)
			t.Helper()
			smaps, _ := os.ReadFile("/proc/self/smaps")
			var from, to uintptr
			for line := range strings.Lines(string(smaps)) {
				if strings.Contains(line, "-") {
					_, _ = fmt.Sscanf(line, "%x-%x ", &from, &to)
				}
				if strings.HasPrefix(line, "VmFlags:") && from <= c.pages.from && c.pages.from < to && !strings.Contains(line, flag) {
					t.Errorf("got %s, want %s", line, flag)
				}
			}
		}
		for range 2 {
			c.hashing()
			want(" hg ")
			time.Sleep(coolAfter)
			synctest.Wait()
			want(" nh ")
		}
	})
}
