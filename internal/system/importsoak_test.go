//go:build soak

package system

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/testkit"
)

// TestSoakImport imports a million rows into each database, in less than 200 MB
// and while others write, and 2,000 MD5 hashes at the default costs.
func TestSoakImport(t *testing.T) {
	const bcrypt, md5 = "$2y$10$32NViFI06tEIA85AKhLuI.oKKe.Pz.nndt.Dl8nJiju5UIxRBJkRy", "3cb4e732631f47e6eb961f34554b7cde"
	many := accountFile(t, asked("PERSONAL_SOAK_ROWS", 1_000_000), bcrypt)
	wrapped := accountFile(t, asked("PERSONAL_SOAK_MD5", 2000), md5)
	testkit.Databases(t, func(t *testing.T, url string) {
		importFile(t, url, accountFile(t, 1, bcrypt))
		ctx, cancel := context.WithCancel(t.Context())
		var writing sync.WaitGroup
		writing.Go(func() { writeMeanwhile(ctx, t, url) })
		importFile(t, url, many)
		cancel()
		writing.Wait()
	})
	t.Run("MD5", func(t *testing.T) { importFile(t, testkit.SQLite(t), wrapped) })
	t.Run("MD5, wrapped later", func(t *testing.T) { importFile(t, testkit.SQLite(t), wrapped, "--wrap=later") })
}

func accountFile(t *testing.T, rows int, hash string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "users.csv")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	out := bufio.NewWriter(file)
	fmt.Fprintln(out, "login,email,name,password_hash")
	for i := range rows {
		fmt.Fprintf(out, "user%d,user%d@example.com,User %d,%s\n", i, i, i, hash)
	}
	if err := out.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func importFile(t *testing.T, url, path string, flags ...string) {
	t.Helper()
	importing := exec.CommandContext(t.Context(), testkit.Binaries(t).Plugin, append([]string{"import", path}, flags...)...)
	importing.Env = append(importing.Environ(), "PERSONAL_DATABASE="+url)
	began := time.Now()
	out, err := importing.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	memory := importing.ProcessState.SysUsage().(*syscall.Rusage).Maxrss >> 10
	t.Logf("%s in %v, with %d MiB at most", out, time.Since(began), memory)
	if memory >= 200 {
		t.Errorf("it took %d MiB", memory)
	}
}

// writeMeanwhile changes an account over and over, as a plugin does that serves.
func writeMeanwhile(ctx context.Context, t *testing.T, url string) {
	db, err := store.Open(ctx, url, store.Options{})
	if err != nil {
		t.Error(err)
		return
	}
	defer db.Close()
	var took []time.Duration
	for ctx.Err() == nil {
		began := time.Now()
		_, err := db.UpdateProfile(ctx, 1, func(*accounts.Account) {})
		if err != nil && ctx.Err() == nil {
			t.Errorf("a write failed after %v: %v", time.Since(began), err)
		}
		took = append(took, time.Since(began))
		time.Sleep(10 * time.Millisecond)
	}
	t.Logf("%d writes, half of them within %v, 99 of 100 within %v, the longest %v", len(took), median(took), p99(took), slices.Max(took))
	if slices.Max(took) > 2*time.Second {
		t.Error("a write took too long")
	}
}
