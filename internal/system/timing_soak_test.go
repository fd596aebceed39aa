//go:build soak

package system

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/password"
	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/testkit"
)

// TestSoakFailuresTakeTheSameTime fails sign-ins over 12 connections: of each class of stored hashes, with
// known logins, and with unknown ones that draw the class.
func TestSoakFailuresTakeTheSameTime(t *testing.T) {
	tries := count("PERSONAL_SOAK_TRIES", 300)
	url := testkit.SQLite(t)
	hashes := map[string]string{ // of no password, by the beginnings of logins
		"bcrypt": "$2y$10$32NViFI06tEIA85AKhLuI.oKKe.Pz.nndt.Dl8nJiju5UIxRBJkRy",
		"phpass": "$P$BfEAVu23ObjBkUbr6.1RaiASnSr9u9/", // is wrapped
		"django": "pbkdf2_sha256$200000$IO7f0TkcB1bCvri2wzuPJE$1l0dhl/i3yNVeeh3NZWY1AMmbH33ahC15B9k+s/aX2s=",
		"native": "$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHRzYWx0c2FsdA$MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY",
	}
	rows := "login,password_hash\n"
	for name, hash := range hashes {
		for i := range 50 {
			rows += fmt.Sprintf("%s%d,\"%s\"\n", name, i, hash)
		}
	}
	path := filepath.Join(t.TempDir(), "users.csv")
	if err := os.WriteFile(path, []byte(rows), 0o600); err != nil {
		t.Fatal(err)
	}
	importFile(t, url, path)
	s := start(t, options{database: url, settings: unthrottled, flags: []string{"--log-level", "error"}})

	db, err := store.Open(t.Context(), url, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	key, err := db.Key(t.Context(), "draw of classes", nil)
	if err != nil {
		t.Fatal(err)
	}
	intervals, err := db.Classes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	hasher, err := password.New(password.Params{MemoryKiB: 19456, Time: 2, Threads: 1}, 1)
	if err != nil {
		t.Fatal(err)
	}
	drawn := func(login string) string { // the beginning of the logins of the class
		digest := hmac.New(sha256.New, key)
		digest.Write([]byte(login))
		n := int64(binary.BigEndian.Uint32(digest.Sum(nil)))
		for _, l := range intervals {
			if n < l.Start || n >= l.Start+l.Width {
				continue
			}
			for name, hash := range hashes {
				adopted, _ := password.Adopt(hash)
				if class, _ := hasher.Class(adopted); class == l.Class {
					return name
				}
			}
		}
		return "native"
	}
	var logins []string
	unknown := map[string]int{}
	for i := 0; len(logins) < tries*len(hashes); i++ {
		login := fmt.Sprintf("unknown%d", i)
		if name := drawn(login); unknown[name] < tries {
			unknown[name]++
			logins = append(logins, login)
		}
	}
	for name := range hashes {
		for i := range tries {
			logins = append(logins, fmt.Sprint(name, i%50))
		}
	}
	rand.Shuffle(len(logins), func(i, j int) { logins[i], logins[j] = logins[j], logins[i] })

	work := make(chan string)
	took := map[string][]time.Duration{}
	var mu sync.Mutex
	var connections sync.WaitGroup
	for range 12 {
		connections.Go(func() {
			for login := range work {
				var elapsed time.Duration
				for status := 503; status == 503; { // a machine that is too busy
					began := time.Now()
					var err error
					status, _, err = s.hostile(call{path: "auth/", params: params{"login": login, "password": "a wrong password"}})
					elapsed = time.Since(began)
					if err != nil || status != 401 && status != 503 {
						t.Errorf("%s: got status %d, error %v", login, status, err)
						break
					}
				}
				mu.Lock()
				name := strings.TrimRight(login, "0123456789")
				if name == "unknown" {
					name = "as " + drawn(login)
				}
				took[name] = append(took[name], elapsed)
				mu.Unlock()
			}
		})
	}
	for _, login := range logins {
		work <- login
	}
	close(work)
	connections.Wait()
	for name := range hashes {
		known, like := median(took[name]), median(took["as "+name])
		ratio := float64(known) / float64(like)
		t.Logf("%s: known %v, unknown %v, %.3f times", name, known, like, ratio)
		if ratio < 0.9 || ratio > 1.1 {
			t.Errorf("%s: known logins take %.3f times as long as unknown ones, want 0.9 to 1.1", name, ratio)
		}
	}
}
