package rehearsal

func load(p *player) {}
