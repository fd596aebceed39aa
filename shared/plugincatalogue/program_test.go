package plugincatalogue

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

// otherTarget returns this test binary with a build information that names another
// architecture.
func otherTarget(t *testing.T) []byte {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	other := map[string]string{"amd64": "arm64", "arm64": "amd64"}[runtime.GOARCH]
	if other == "" {
		t.Skip("the test knows amd64 and arm64")
	}
	changed := bytes.ReplaceAll(data, []byte("GOARCH="+runtime.GOARCH), []byte("GOARCH="+other))
	if bytes.Equal(changed, data) {
		t.Fatal("this binary has no build information")
	}
	return changed
}

func TestInstall_RefusesWhatCannotRunHere(t *testing.T) {
	known, ok := machines[runtime.GOARCH]
	if !ok || runtime.GOOS != "linux" {
		t.Skip("the test makes programs for Linux on amd64 and arm64")
	}
	other := map[string]string{"amd64": "arm64", "arm64": "amd64"}[runtime.GOARCH]
	for name, tt := range map[string]struct {
		data []byte
		want string
	}{
		"a Go program for another architecture": {otherTarget(t), `it is for "linux/` + other + `", this is ` + thisMachine},
		"another architecture":                  {elfFile(t, known[1], ""), `it is for "` + known[1].String() + `", this is ` + thisMachine},
		"a missing loader":                      {elfFile(t, known[0], "/lib/ld-none.so.1"), "it needs /lib/ld-none.so.1 to be started"},
		"a missing interpreter":                 {[]byte("#! /usr/bin/none\t-x\n"), "it needs /usr/bin/none to be started"},
		"no program at all":                     {[]byte("\x00\x01\x02\x03 and more"), `it is for "an unknown machine", this is ` + thisMachine},
		"a missing library":                     {[]byte("#!/bin/sh\necho 'libx.so: cannot open' >&2\nexit 127\n"), `exit status 127: "libx.so: cannot open"`},
	} {
		t.Run(name, func(t *testing.T) {
			c := open(t)
			_, err := c.Install(t.Context(), program(t, tt.data))
			wantRefused(t, err, ErrInvalid)
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %q, want a text with %q", err, tt.want)
			}
			wantEmpty(t, c)
		})
	}
}

func TestRetryBusy_ExplainsWhyTheSystemDoesNotStartAFile(t *testing.T) {
	known, ok := machines[runtime.GOARCH]
	if !ok || runtime.GOOS != "linux" {
		t.Skip("the test makes programs for Linux on amd64 and arm64")
	}
	for name, tt := range map[string]struct {
		data  []byte
		errno syscall.Errno
		want  string
	}{
		"another architecture":  {elfFile(t, known[1], ""), syscall.ENOEXEC, `it is for "` + known[1].String()},
		"a missing loader":      {elfFile(t, known[0], "/lib/ld-none.so.1"), syscall.ENOENT, "it needs /lib/ld-none.so.1"},
		"a missing interpreter": {[]byte("#!/usr/bin/none\n"), syscall.ENOENT, "it needs /usr/bin/none"},
	} {
		t.Run(name, func(t *testing.T) {
			path := program(t, tt.data)
			start := func() error { return exec.Command(path).Start() }
			if err := start(); !errors.Is(err, tt.errno) {
				t.Fatalf("starting it: got %v, want %v", err, tt.errno)
			}
			err := RetryBusy(t.Context(), path, start)
			wantRefused(t, err, ErrInvalid)
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %q, want a text with %q", err, tt.want)
			}
		})
	}
}

func TestRetryBusy_ExplainsDenials(t *testing.T) {
	denied := &os.PathError{Op: "fork/exec", Path: "/x", Err: syscall.EACCES}
	path := program(t, []byte("#!/bin/sh\n"))
	err := RetryBusy(t.Context(), path, func() error { return denied })
	wantRefused(t, err, ErrNoExec)
	if !strings.Contains(err.Error(), "security policy") || !strings.Contains(err.Error(), path) {
		t.Errorf("a file that may be run: got %q, want that it names %s and the security policy", err, path)
	}

	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{"a file without the right to run it": path, "a missing file": path + "x"} {
		if err := RetryBusy(t.Context(), path, func() error { return denied }); err != error(denied) {
			t.Errorf("%s: got %v, want the error unchanged", name, err)
		}
	}
	missing := &os.PathError{Op: "fork/exec", Path: "/x", Err: syscall.ENOENT}
	if err := RetryBusy(t.Context(), path+"x", func() error { return missing }); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: got %v, want that it does not exist", err)
	}
}
