package pluginmanager

// ReadKernelFilesBelow makes a manager that is not started read the files of the kernel
// below a folder.
func (m *Manager) ReadKernelFilesBelow(root string) { m.root = root }
