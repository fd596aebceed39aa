package personaladmin_test

import (
	"html"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cms-personal/personal/internal/testkit/mounttest"
)

// The administrator mends it, so the page says how, whatever form was sent.
func TestFields_FileThatCannotBeReplaced(t *testing.T) {
	if !mounttest.Isolated(t) {
		return
	}
	for name, test := range map[string]struct {
		mount func(folder, file string) error
		want  string
	}{
		"the file is mounted alone": {func(_, file string) error { return syscall.Mount(file, file, "", syscall.MS_BIND, "") },
			"the file is mounted alone and cannot be replaced: mount the folder "},
		"a read-only folder": {func(folder, _ string) error {
			return syscall.Mount(folder, folder, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, "")
		}, "so that it can be written to"},
		"a full disk": {func(folder, _ string) error {
			err := os.WriteFile(filepath.Join(folder, "fill"), make([]byte, 1<<21), 0o600)
			if err == nil {
				return os.ErrInvalid
			}
			return nil
		}, "the disk is full: free space"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := mounttest.Tmpfs(t, 0, "size=1m")
			b := openAt(t, filepath.Join(folder, "user-fields.json"))
			before := b.fields.Get()
			if err := test.mount(folder, filepath.Join(folder, "user-fields.json")); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = syscall.Unmount(filepath.Join(folder, "user-fields.json"), syscall.MNT_DETACH) })
			revision := url.Values{"revision": {before.Schema.Revision}}
			with := func(more url.Values) url.Values { more["revision"] = revision["revision"]; return more }
			for path, values := range map[string]url.Values{
				"move":       with(url.Values{"down": {before.Schema.Fields[0].Name}}),
				"remove":     with(url.Values{"name": {before.Schema.Fields[0].Name}}),
				"new":        fieldValues(b, url.Values{"do": {"save"}}),
				"edit/phone": shownValues(t, b.page(t, "/admin/fields/edit/phone")),
				"json":       with(url.Values{"source": {"[]"}}),
				"choose":     with(url.Values{"source": {"[]"}, "violations": {"ask"}}),
			} {
				w := b.post("/admin/fields/"+path, values)
				if page := html.UnescapeString(w.Body.String()); w.Code != http.StatusInternalServerError || !strings.Contains(page, test.want) ||
					!strings.Contains(page, folder) {
					t.Errorf("%s: got status %d and\n%s\nwant 500 and %q with the folder %s", path, w.Code, page, test.want, folder)
				}
			}
			if b.fields.Get() != before {
				t.Error("a schema was saved")
			}
		})
	}
}
