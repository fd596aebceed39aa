package main

import (
	"os"
	"syscall"
	"testing"
)

// A supervisor may give a program a socket as its standard input, which cannot be opened again by its name.
func TestReadContent_StandardInputIsASocket(t *testing.T) {
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	here, there := os.NewFile(uintptr(pair[0]), "here"), os.NewFile(uintptr(pair[1]), "there")
	defer there.Close()
	if _, err := here.WriteString("\ufeff[]"); err != nil {
		t.Fatal(err)
	}
	here.Close()
	former := os.Stdin
	os.Stdin = there
	defer func() { os.Stdin = former }()
	data, err := readFile("-")
	if string(data) != "[]" || err != nil {
		t.Errorf("got %q, %v, want the text without its mark", data, err)
	}
}
