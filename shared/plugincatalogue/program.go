package plugincatalogue

import (
	"bufio"
	"bytes"
	"cmp"
	"debug/buildinfo"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

// maxShebang is the most that Linux reads of the first line of a script.
const maxShebang = 256

const thisMachine = runtime.GOOS + "/" + runtime.GOARCH

// checkProgram refuses a file that cannot run on this machine, with kind [ErrInvalid]:
// a Go program for another system or architecture, and a program whose loader is
// missing. It lets any other file pass.
func checkProgram(path string) error {
	if target := goTarget(path); target != "" && target != thisMachine {
		return refuse(ErrInvalid, "", wrongMachine(target))
	}
	loader := loaderOf(path)
	if loader == "" {
		return nil
	}
	if _, err := os.Stat(loader); errors.Is(err, fs.ErrNotExist) {
		return refuse(ErrInvalid, "", fmt.Sprintf("it needs %s to be started, which this system does not have: "+
			"install the C library or interpreter that it was built for, or use a static build (CGO_ENABLED=0)", loader))
	}
	return nil
}

func wrongMachine(target string) string {
	return fmt.Sprintf("it is for %q, this is %s: use the build for this machine", target, thisMachine)
}

// goTarget returns the system and architecture of a Go program, such as linux/arm64,
// or "".
func goTarget(path string) string {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return ""
	}
	var goos, arch string
	for _, s := range info.Settings {
		switch s.Key {
		case "GOOS":
			goos = s.Value
		case "GOARCH":
			arch = s.Value
		}
	}
	if goos == "" || arch == "" {
		return ""
	}
	return goos + "/" + arch
}

// loaderOf returns the program that the kernel runs to start a file: the loader of a
// dynamically linked ELF file, the interpreter of a script, or "".
func loaderOf(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	if line, _ := bufio.NewReader(io.LimitReader(f, maxShebang)).ReadString('\n'); strings.HasPrefix(line, "#!") {
		return cmp.Or(append(strings.Fields(line[2:]), "")...)
	}
	file, err := elf.NewFile(f)
	if err != nil {
		return ""
	}
	for _, part := range file.Progs {
		if part.Type == elf.PT_INTERP && part.Filesz <= maxSmall {
			name := make([]byte, part.Filesz)
			if _, err := part.ReadAt(name, 0); err == nil {
				return string(bytes.TrimRight(name, "\x00"))
			}
		}
	}
	return ""
}

// elfMachine returns the architecture of an ELF file in that format's terms, or "".
func elfMachine(path string) string {
	f, err := elf.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	return f.Machine.String()
}

// explainStart returns why the system did not start a binary, as a [*RefusedError]:
// of kind [ErrNoExec] if the folder allows no execution, of kind [ErrInvalid] if the
// file cannot run on this machine. Other errors it returns unchanged.
func explainStart(binary string, err error) error {
	switch {
	case errors.Is(err, syscall.EACCES):
		return explainDenied(binary, err)
	case errors.Is(err, syscall.ENOEXEC), errors.Is(err, syscall.ENOENT):
		if cause := checkProgram(binary); cause != nil {
			return cause
		}
		if errors.Is(err, syscall.ENOEXEC) {
			return refuse(ErrInvalid, "", wrongMachine(cmp.Or(elfMachine(binary), "an unknown machine")))
		}
	}
	return err
}

// explainDenied explains why the system denied the execution of a file.
func explainDenied(binary string, err error) error {
	info, statErr := os.Stat(binary)
	if statErr != nil || info.Mode().Perm()&0o111 == 0 {
		return err
	}
	if !isNoExec(binary) {
		return refuse(ErrNoExec, "", fmt.Sprintf("%s: permission denied, although its mode is %v and its file system is not mounted with noexec: "+
			"check the system's security policy (SELinux, AppArmor, fapolicyd)", binary, info.Mode()))
	}
	return refuse(ErrNoExec, "", fmt.Sprintf("%s: the file system at %s is mounted with noexec: "+
		"mount it without noexec, or use a folder on another file system", binary, noExecRoot(binary)))
}

// noExecRoot returns the folder at which a file system is mounted: the highest one on
// the same device that allows no execution either.
func noExecRoot(path string) string {
	for {
		parent := filepath.Dir(path)
		if parent == path || device(parent) != device(path) || !isNoExec(parent) {
			return path
		}
		path = parent
	}
}

func device(path string) uint64 {
	var s syscall.Stat_t
	if syscall.Stat(path, &s) != nil {
		return 0
	}
	return uint64(s.Dev)
}
