package pluginmanager

import "errors"

// orderKind is what the owner is asked to do.
type orderKind int

const (
	orderSettle     orderKind = iota // end the trial that may be under way, for the version
	orderSwitchBack                  // end it against the version
	orderSwitch                      // send calls to a new process
)

// order is what a swap asks of the owner, who alone changes which process
// serves.
type order struct {
	kind    orderKind
	swap    *swap
	process *process   // to switch to
	done    chan error // takes one
}

var (
	errNotWarm = errors.New("no process is kept warm")
	errLate    = errors.New("the new process was lost before the switch")
)

// order gives an order and waits until it is carried out. Until the manager
// stops the owner is never far from taking one.
func (m *Manager) order(o *order) error {
	o.done = make(chan error, 1)
	select {
	case m.orders <- o:
		return <-o.done
	case <-m.work.Done():
		return ErrStopped
	}
}

// obeyIdle carries out an order while no process serves. It reports whether the
// order brought one.
func (o *order) obeyIdle() bool {
	switch o.kind {
	case orderSettle:
		o.done <- nil
	case orderSwitchBack:
		o.done <- errNotWarm
	case orderSwitch:
		if !o.process.lost() {
			return true
		}
		o.done <- errLate
	}
	return false
}
