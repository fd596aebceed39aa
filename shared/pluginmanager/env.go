package pluginmanager

import "os"

// inherited names the variables of the host that its plugin gets: where
// temporary files go, the time zone, the certificates to trust, and the limits
// of Go's run time. Everything else, secrets among it, stays with the host.
var inherited = []string{"TMPDIR", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR", "GOMAXPROCS", "GOMEMLIMIT", "GOTRACEBACK"}

// environment returns the plugin's environment: what it inherits and what was
// given, of which the latter wins.
func environment(given []string) []string {
	var env []string
	for _, name := range inherited {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return append(env, given...)
}
