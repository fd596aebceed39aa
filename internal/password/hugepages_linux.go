package password

import (
	"runtime"
	"syscall"
	"unsafe"
)

const hugePage = 2 << 20 // bytes; those of other processors are as large, or are not worth it

// hugePages asks the system for huge pages where hashings allocate. They read their memory in no order, so that finding
// each page takes a part of their time: 5 % more sign-ins on two processors. Where the system has no huge pages, or uses
// them for everything, it changes nothing.
type hugePages struct{ from, size uintptr }

// want asks for them in an amount of memory, in bytes.
func (h *hugePages) want(memory int) {
	if h.from == 0 {
		// Memory that is not touched takes none. Its addresses remain those of Go's heap, which uses them next.
		start := uintptr(unsafe.Pointer(unsafe.SliceData(make([]byte, memory+hugePage))))
		h.from = (start + hugePage - 1) &^ (hugePage - 1)
		h.size = uintptr(memory) &^ (hugePage - 1)
		runtime.GC() // else the next collection would come as late as if it were used
	}
	h.advise(syscall.MADV_HUGEPAGE)
}

// leave keeps the system from making huge pages of the little that stays in use.
func (h *hugePages) leave() { h.advise(syscall.MADV_NOHUGEPAGE) }

func (h *hugePages) advise(advice uintptr) {
	_, _, _ = syscall.RawSyscall(syscall.SYS_MADVISE, h.from, h.size, advice) // a failure only costs time
}
