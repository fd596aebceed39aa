package pluginmanager

import "time"

// ExpireMetrics makes the next call of Metrics ask the processes again.
func (m *Manager) ExpireMetrics() {
	m.ledger.reading.Lock()
	defer m.ledger.reading.Unlock()
	m.ledger.read = time.Time{}
}

// ReadKernelFilesBelow makes a manager that is not started read the files of the kernel
// below a folder.
func (m *Manager) ReadKernelFilesBelow(root string) { m.root = root }
