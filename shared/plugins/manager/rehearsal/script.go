package rehearsal

import "slices"

// scene is a part of an act, and a check of the rehearsal.
type scene struct {
	name string
	do   func(*player)
}

// bystanders is the name of the check of users with whom nothing is done.
const bystanders = "bystanders"

var actOne = []scene{{"register", registerSessions}, {"register", askForOperations}, {bystanders, equipBystanders}, {"hand_over", handOver(1)}}

var actTwo = slices.Concat(
	[]scene{
		{"take_over", takeOver(1)}, {bystanders, askBystanders},
		{"sessions", chain}, {"sign_in", signingIn}, {"register", registering}, {"fields", fields}, {"sessions", devices},
		{"states", states}, {"limits", limits}, {"limits", setBack}, {"windows", windows}, {bystanders, askBystanders},
	},
	actAccount, []scene{{bystanders, askBystanders}}, actAdministration,
	[]scene{{"metrics", counters}, {"vanished_fields", vanish}, {"sign_in", signInAll(usersOfSessions...)}, {"hand_over", handOver(2)}, {bystanders, askBystandersAll}},
)

var actThree = []scene{
	{"take_over", takeOver(2)}, {"sessions", sessionsLeft}, {"sign_in", signInAll(append(hashed(), append(wrapped, "registered", "full", "юрий_ё")...)...)}, {"read", read}, {bystanders, askBystandersAll},
}
