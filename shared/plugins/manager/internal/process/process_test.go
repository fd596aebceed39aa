package process

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cms-personal/personal/shared/plugins/rpc"
)

func TestCheckVersions_NamesBothSides(t *testing.T) {
	for handshake, want := range map[string][]string{
		"1|1|unix|/s|grpc":           nil,
		"1|1|unix|/s|grpc|cert|true": nil,
		"2|1|unix|/s|grpc":           {"version 2 of go-plugin's protocol", "this host speaks version 1", "build host and plugin"},
		"1|7|unix|/s|grpc":           {"protocols 7 to 7", "this host speaks 1", "update the host"},
		"1|0|unix|/s|grpc":           {"protocols 0 to 0", "this host speaks 1", "install a newer version of the plugin"},
		"1|x|unix|/s|grpc":           nil,
		"1|7":                        nil,
		"Hello, World!":              nil,
		"":                           nil,
	} {
		err := checkVersions(handshake)
		var permanent *rpc.PermanentError
		if errors.As(err, &permanent) != (want != nil) {
			t.Errorf("%q: got %v, want a permanent error: %v", handshake, err, want != nil)
			continue
		}
		for _, part := range want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q: got %q, want a text with %q", handshake, err, part)
			}
		}
	}
}

func TestFirstLine_KeepsNoMore(t *testing.T) {
	long := strings.Repeat("x", 3*maxFirstLine)
	for want, pieces := range map[string][]string{
		"1|7|unix":          {"1|", "7|unix\nmore", "\nmore"},
		"":                  {"\nsecond\n"},
		long[:maxFirstLine]: {long, long},
	} {
		var l firstLine
		for _, piece := range pieces {
			if _, err := io.WriteString(&l, piece); err != nil {
				t.Error(err)
			}
		}
		if l.String() != want {
			t.Errorf("%q: got %q, want %q", pieces, l.String(), want)
		}
	}
}

func TestOpenRunDir_RemovesTheRehearsalOfAKilledHost(t *testing.T) {
	dir := t.TempDir()
	left := filepath.Join(dir, "scratch", "new.db")
	for _, err := range []error{os.Chmod(dir, 0o700), os.Mkdir(filepath.Dir(left), 0o700), os.WriteFile(left, []byte("secret"), 0o600)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	r, err := OpenRunDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := os.Stat(r.Scratch); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want that nothing is left", err)
	}
}
