package pluginmanager

import "time"

// own is the goroutine in which every process is brought up, watched and
// retired.
func (m *Manager) own() {
	defer close(m.done)
	defer m.end()
	record := record{config: m.config}
	for m.work.Err() == nil {
		p, err := m.bringUp(m.work)
		if err != nil {
			m.pause(record.failed(err))
			continue
		}
		record.served()
		m.switchIn(p)
		err = m.watch(p)
		if m.work.Err() != nil {
			m.retire(p)
			return
		}
		m.switchOut(p, err)
		if v, crashed := record.died(err, time.Since(p.ready)); crashed {
			m.pause(v)
		}
	}
}

// end leaves nothing behind.
func (m *Manager) end() {
	m.disposal.Wait()
	m.stopHard()
	if err := m.run.close(); err != nil {
		m.config.Log.Warn("closing the plugin manager's run folder", "error", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.set(StateStopped, nil)
}

// switchIn sends calls to p from now on.
func (m *Manager) switchIn(p *process) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p.ready = time.Now()
	if m.work.Err() != nil { // Stop was first
		return
	}
	m.served++
	m.final = false
	m.set(StateServing, p)
	p.log.Info("plugin serves")
}

// switchOut sends no more calls to p, which has died or has to, and disposes of
// it. A process that is started next never meets it alive.
func (m *Manager) switchOut(p *process, cause error) {
	p.child.kill()
	m.mu.Lock()
	if m.work.Err() == nil {
		m.fault = cause
		m.set(StateRestarting, nil)
	}
	m.mu.Unlock()
	p.log.Error("plugin process lost", "error", cause)
	p.child.awaitExited(m.hard, killTime)
	m.disposal.Go(func() { p.end(m.hard, m.config.ShutdownTimeout) })
}

// pause waits after a failure, until the next attempt is due.
func (m *Manager) pause(v verdict) {
	m.mu.Lock()
	if m.work.Err() != nil { // Stop was first, and the cause of this
		m.mu.Unlock()
		return
	}
	m.fault, m.final, m.nextTry = v.fault, v.final, time.Now().Add(v.wait)
	state := m.state
	if v.refuse {
		state = StateFailed
	}
	m.set(state, nil)
	m.mu.Unlock()
	m.config.Log.Error("plugin does not run", "error", v.fault, "next_try", v.wait)

	timer := time.NewTimer(v.wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-m.work.Done():
	}
}
