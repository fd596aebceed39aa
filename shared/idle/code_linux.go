package idle

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// releaseCode unmaps the pages of this program's code that are as in its file: a debugger's breakpoints, for example, are
// not. Without a look at /proc it does nothing.
func releaseCode() {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	mappings, err := os.Open("/proc/self/smaps")
	if err != nil {
		return
	}
	defer mappings.Close()
	var from, to uintptr // of a mapping of code, or 0
	for lines := bufio.NewScanner(mappings); lines.Scan(); {
		line := lines.Text()
		var start, end uintptr
		var access string
		if _, err := fmt.Sscanf(line, "%x-%x %s", &start, &end, &access); err == nil {
			if from, to = 0, 0; access == "r-xp" && strings.HasSuffix(line, " "+program) {
				from, to = start, end
			}
			continue
		}
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "Anonymous:" && fields[1] == "0" && from != 0 {
			_, _, _ = syscall.RawSyscall(syscall.SYS_MADVISE, from, to-from, syscall.MADV_DONTNEED) // a failure leaves them mapped
		}
	}
}
