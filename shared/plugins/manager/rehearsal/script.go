package rehearsal

// scene is a part of an act, and a check of the rehearsal.
type scene struct {
	name string
	do   func(*player)
}

// bystanders is the name of the check of users with whom nothing is done.
const bystanders = "bystanders"

var actOne = []scene{{"register", registerSessions}}

var actTwo = []scene{
	{"sessions", chain}, {"sign_in", signingIn}, {"sign_in", signingInAgain}, {"register", registering}, {"fields", fields}, {"sessions", devices},
	{"states", states}, {"limits", limits}, {"windows", windows}, {"sign_in", signingInAgain},
}

var actThree = []scene{{"sessions", sessionsLeft}, {"sign_in", signingInAgain}}

var actLoad = []scene{{"load", load}}
