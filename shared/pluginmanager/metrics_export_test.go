package pluginmanager

import "time"

// ExpireMetrics makes the next call of Metrics ask the processes again.
func (m *Manager) ExpireMetrics() {
	m.ledger.reading.Lock()
	defer m.ledger.reading.Unlock()
	m.ledger.read = time.Time{}
}
