package catalogue

import (
	"bytes"
	"debug/elf"
	bytesOf "encoding/binary"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// elfFile returns the smallest file that the kernel takes for a program of that
// machine. It has a loader unless that is empty.
func elfFile(t *testing.T, machine elf.Machine, loader string) []byte {
	t.Helper()
	header := elf.Header64{
		Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_EXEC), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT),
		Entry: 0x400000, Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 2, Shentsize: 64,
	}
	name := append([]byte(loader), 0)
	at := uint64(64 + 2*56)
	parts := []elf.Prog64{
		{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_X), Vaddr: 0x400000, Filesz: at, Memsz: at, Align: 0x1000},
		{Type: uint32(elf.PT_INTERP), Flags: uint32(elf.PF_R), Off: at, Filesz: uint64(len(name)), Memsz: uint64(len(name)), Align: 1},
	}
	if loader == "" {
		parts[1] = elf.Prog64{}
	}
	var b bytes.Buffer
	for _, v := range []any{header, parts, name} {
		if err := bytesOf.Write(&b, bytesOf.LittleEndian, v); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

// machines are the ELF machines of this machine, on which tests run, and of another.
var machines = map[string][2]elf.Machine{
	"amd64": {elf.EM_X86_64, elf.EM_AARCH64},
	"arm64": {elf.EM_AARCH64, elf.EM_X86_64},
}

func program(t *testing.T, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), Name)
	if err := os.WriteFile(path, data, 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// notRunnable are files that the system does not start, with the cause that a user is told.
func notRunnable(t *testing.T) map[string]struct {
	data []byte
	want string
} {
	t.Helper()
	known, ok := machines[runtime.GOARCH]
	if !ok || runtime.GOOS != "linux" {
		t.Skip("the test makes programs for Linux on amd64 and arm64")
	}
	return map[string]struct {
		data []byte
		want string
	}{
		"another architecture":  {elfFile(t, known[1], ""), "exec format error: it is not a program for " + thisMachine},
		"no program at all":     {[]byte("\x00\x01\x02\x03 and more"), "exec format error: it is not a program for " + thisMachine},
		"a missing loader":      {elfFile(t, known[0], "/lib/ld-none.so.1"), "no such file or directory: the file exists, but the loader"},
		"a missing interpreter": {[]byte("#! /usr/bin/none\t-x\n"), "no such file or directory: the file exists, but the loader or interpreter"},
	}
}

func TestInstall_RefusesWhatCannotRunHere(t *testing.T) {
	refused := func(t *testing.T, data []byte, want string) {
		c := open(t)
		_, err := c.Install(t.Context(), program(t, data))
		wantRefused(t, err, ErrInvalid)
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %q, want a text with %q", err, want)
		}
		wantEmpty(t, c)
	}
	t.Run("a missing library", func(t *testing.T) {
		refused(t, []byte("#!/bin/sh\necho 'libx.so: cannot open' >&2\nexit 127\n"), `exit status 127: "libx.so: cannot open"`)
	})
	for name, tt := range notRunnable(t) {
		t.Run(name, func(t *testing.T) { refused(t, tt.data, tt.want) })
	}
}

// Other causes: TestInstall_RefusesWhatCannotRunHere.
func TestRetryBusy_ExplainsWhyTheSystemDoesNotStartAFile(t *testing.T) {
	t.Run("a file that is not executable", func(t *testing.T) {
		path := program(t, []byte("#!/bin/sh\n"))
		if err := os.Chmod(path, 0o600); err != nil {
			t.Fatal(err)
		}
		err := RetryBusy(t.Context(), path, func() error { return exec.Command(path).Start() })
		wantRefused(t, err, ErrNoExec)
		const want = "permission denied: the file system is mounted with noexec, the file is not executable"
		if !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %q, want a text with %s and %q", err, path, want)
		}
	})
	t.Run("a policy that forbids it", func(t *testing.T) { // as fapolicyd does
		err := RetryBusy(t.Context(), "/x", func() error { return &fs.PathError{Op: "fork/exec", Path: "/x", Err: syscall.EPERM} })
		wantRefused(t, err, ErrNoExec)
	})
}

func TestRetryBusy_MissingFileIsNotRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), Name)
	err := RetryBusy(t.Context(), path, func() error { return exec.Command(path).Start() })
	var refused *RefusedError
	if !errors.Is(err, fs.ErrNotExist) || errors.As(err, &refused) {
		t.Errorf("got %v, want the system's error that it does not exist", err)
	}
}
