package accounts

import "time"

// LimitRehearsal sets how long a rehearsal may take.
func LimitRehearsal(s *Service, d time.Duration) { s.rehearsalTime = d }
