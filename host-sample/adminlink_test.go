package main

import (
	"strings"
	"testing"
)

func TestTheRunningHostIsAskedForALink(t *testing.T) {
	dir := announceFake(t, newSwapper())
	code, stdout, stderr := runCommandToTheEnd(t, "admin-link", "--data", dir)
	if code != 0 || stdout != noLink()+"\n" {
		t.Errorf("exit code %d, standard output %q, standard error %q", code, stdout, stderr)
	}
}

func TestWithoutARunningHostThereIsNoLink(t *testing.T) {
	code, stdout, stderr := runCommandToTheEnd(t, "admin-link", "--data", t.TempDir())
	if code != 1 || stdout != "" || !strings.Contains(stderr, "no host runs on the data folder") {
		t.Errorf("exit code %d, standard output %q, standard error %q", code, stdout, stderr)
	}
}
