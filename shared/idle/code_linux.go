package idle

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// releaseCode unmaps the pages of this program's code. Without a look at /proc it does nothing. What is writable,
// or was while the program was loaded, keeps its pages: only code cannot differ from the file.
func releaseCode() {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	mappings, err := os.Open("/proc/self/maps")
	if err != nil {
		return
	}
	defer mappings.Close()
	for lines := bufio.NewScanner(mappings); lines.Scan(); {
		var from, to uintptr
		var access string
		if _, err := fmt.Sscanf(lines.Text(), "%x-%x %s", &from, &to, &access); err == nil && access == "r-xp" && strings.HasSuffix(lines.Text(), " "+program) {
			_, _, _ = syscall.RawSyscall(syscall.SYS_MADVISE, from, to-from, syscall.MADV_DONTNEED) // a failure leaves them mapped
		}
	}
}
