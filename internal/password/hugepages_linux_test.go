package password

import (
	"bufio"
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
		for range 2 {
			c.hashing()
			if flags := memoryFlags(t, c.pages.from); !strings.Contains(flags, " hg") {
				t.Errorf("at a hashing: got %q, want hg", flags)
			}
			time.Sleep(coolAfter)
			synctest.Wait()
			if flags := memoryFlags(t, c.pages.from); !strings.Contains(flags, " nh") {
				t.Errorf("after the pause: got %q, want nh", flags)
			}
		}
	})
}

// memoryFlags returns the flags of the mapping of an address, which are in proc_pid_smaps(5).
func memoryFlags(t *testing.T, address uintptr) string {
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var from, to uintptr
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "VmFlags:") && from <= address && address < to {
			return lines.Text()
		}
		_, _ = fmt.Sscanf(lines.Text(), "%x-%x ", &from, &to)
	}
	t.Fatal("no mapping has the address")
	return ""
}
