// Package lint is what the checks of the work tree share.
package lint

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Main prints the findings of a check below root. The exit status is 1 if there are any, 2 after an error.
func Main(name, root string, check func(root string) (findings []string, err error)) {
	findings, err := check(root)
	for _, f := range findings {
		fmt.Println(f)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, name+":", err)
		os.Exit(2)
	}
	if len(findings) > 0 {
		os.Exit(1)
	}
}

// Files returns the contents of files that Git tracks, or would track, below root, by their paths. The patterns are Git's.
func Files(root string, patterns ...string) (map[string]string, error) {
	list := exec.Command("git", append([]string{"-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--"}, patterns...)...)
	list.Stderr = os.Stderr
	paths, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("list the files: %w", err)
	}
	files := map[string]string{}
	for path := range strings.SplitSeq(strings.TrimRight(string(paths), "\x00"), "\x00") {
		content, err := os.ReadFile(filepath.Join(root, path))
		if os.IsNotExist(err) { // deleted, and not yet committed
			continue
		}
		if err != nil {
			return nil, err
		}
		files[path] = string(content)
	}
	return files, nil
}
