package dbconn_test

import (
	"net"
	"reflect"
	"testing"

	"github.com/uptrace/bun/driver/pgdriver"
	"golang.org/x/sys/unix"

	"github.com/cms-personal/personal/internal/store/dbconn"
	"github.com/cms-personal/personal/internal/testkit"
)

func TestPostgres_SystemGivesUpSilentConnections(t *testing.T) {
	url := testkit.Postgres(t)
	for name, c := range map[string]struct {
		limits dbconn.Limits
		want   int
	}{
		"requests":   {dbconn.RequestLimits, 2000},
		"migrations": {dbconn.MigrationLimits, 0}, // a lost keep-alive must not end the work of minutes
	} {
		conn, err := open(t, url, c.limits).Write.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		got := -1
		err = conn.Raw(func(driver any) error {
			socket := reflect.ValueOf(driver).Elem().FieldByName("Conn").Interface().(*pgdriver.Conn).Conn()
			raw, err := reflect.ValueOf(socket).Elem().FieldByName("Conn").Interface().(*net.TCPConn).SyscallConn()
			if err != nil {
				return err
			}
			return raw.Control(func(fd uintptr) { got, _ = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT) })
		})
		if err != nil || got != c.want {
			t.Errorf("%s: got a time-out of %d ms, %v, want %d", name, got, err, c.want)
		}
	}
}
