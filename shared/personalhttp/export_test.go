package personalhttp

// Routes returns the methods of every route by its name, as the header Allow has them.
func Routes() map[string]string {
	routes := map[string]string{}
	for name, r := range newRoutes() {
		routes[name] = r.allow
	}
	return routes
}

// Statuses are the HTTP statuses of codes.
var Statuses = statuses
