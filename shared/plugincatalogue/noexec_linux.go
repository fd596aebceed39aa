package plugincatalogue

import "golang.org/x/sys/unix"

// isNoExec reports whether the file system of a path is mounted with noexec.
func isNoExec(path string) bool {
	var s unix.Statfs_t
	return unix.Statfs(path, &s) == nil && s.Flags&unix.ST_NOEXEC != 0
}
