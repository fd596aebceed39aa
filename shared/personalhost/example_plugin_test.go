package personalhost_test

import (
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/cms-personal/personal/internal/testkit/examples"
)

// binariesVariable is testkit.BinariesVariable. Modules that import personalhost would need the checksums of
// what testkit imports.
const binariesVariable = "PERSONAL_TEST_BINARIES"

// TestMain runs the example in a new folder with the plugin, at a free address. Other tests need
// neither, and linking the plugin takes seconds.
func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(func() int {
		if run, err := regexp.Compile(flag.Lookup("test.run").Value.String()); err != nil || !run.MatchString("Example") {
			return m.Run()
		}
		folder, err := os.MkdirTemp("", "personal-example-")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(folder)
		if err := prepare(folder); err != nil {
			panic(err)
		}
		return m.Run()
	}())
}

func prepare(folder string) error {
	bin := filepath.Join(folder, "bin")
	if given := os.Getenv(binariesVariable); given != "" {
		given, err := filepath.Abs(given)
		if err != nil {
			return err
		}
		if err := os.Symlink(given, bin); err != nil {
			return err
		}
	} else if out, err := exec.Command("go", "build", "-C", "../..", "-o", filepath.Join(bin, "personal"), "./plugin").CombinedOutput(); err != nil {
		return fmt.Errorf("building the plugin: %w\n%s", err, out)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	address = free.Addr().String()
	if err := free.Close(); err != nil {
		return err
	}
	return os.Chdir(folder)
}

// visit is the visitor of the example.
func visit(stop func()) {
	defer stop()
	boris := examples.VisitURL("http://" + address)
	boris.Get("/hello")
	boris.Post("/account/register?next=%2Fhello", "login=boris&email=boris%40example.com&password=correct+horse&confirm_password=correct+horse")
}
