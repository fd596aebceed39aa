package testkit

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"
)

// Fault is what happens to a request to PostgreSQL. A connection that has lost something
// is cut.
type Fault int

// The faults.
const (
	NoFault            Fault = iota
	DelayRequest             // by FaultProxy.Delay
	LoseRequest              // the server does not get it
	LoseResponse             // the server has done what it asks for
	LoseCommit               // as LoseRequest, of the next COMMIT
	LoseCommitResponse       // as LoseResponse, of the next COMMIT
	FreezeConnection         // bytes of both sides are swallowed from here on, and the sockets stay open
)

// FaultProxy is a TCP proxy between the plugin and a PostgreSQL server that injects
// faults. It understands message frames, simple queries and the end of a response, and
// connections without TLS.
type FaultProxy struct {
	Delay    time.Duration // set it before the first connection
	listener net.Listener
	running  sync.WaitGroup

	mu       sync.Mutex
	server   string // address for new connections; "": they are refused
	links    map[*link]struct{}
	next     []Fault
	random   *rand.Rand // nil: no random faults
	rate     float64
	injected map[Fault]int
	refused  int
}

// link is one connection through the proxy.
type link struct {
	client, server net.Conn

	mu      sync.Mutex
	frozen  bool
	loseOne bool // the next response is lost, and then the connection
}

// NewFaultProxy starts a proxy to the server of a URL, which stops when the test ends. It
// returns the URL that leads through the proxy.
func NewFaultProxy(t testing.TB, database string) (p *FaultProxy, through string) {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal("the URL of the database is invalid")
	}
	p = &FaultProxy{Delay: 20 * time.Millisecond, server: u.Host, links: map[*link]struct{}{}, injected: map[Fault]int{}}
	if p.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatalf("starting a proxy: %v", err)
	}
	accepted := make(chan struct{})
	go func() {
		p.accept()
		close(accepted)
	}()
	t.Cleanup(func() {
		_ = p.listener.Close()
		<-accepted
		p.Cut()
		p.running.Wait()
	})
	u.Host = p.listener.Addr().String()
	return p, u.String()
}

// Next injects faults into the next requests, one into each, before random ones.
func (p *FaultProxy) Next(faults ...Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next = append(p.next, faults...)
}

// Random injects a fault chosen by seed into each request with the given probability,
// except for FreezeConnection. A rate of 0 ends it.
func (p *FaultProxy) Random(seed uint64, rate float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.random, p.rate = rand.New(rand.NewPCG(seed, seed)), rate
}

// Injected returns how often a fault was injected.
func (p *FaultProxy) Injected(f Fault) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.injected[f]
}

// Addr returns the address of the proxy, "host:port".
func (p *FaultProxy) Addr() string { return p.listener.Addr().String() }

// Refused returns how many connections led nowhere.
func (p *FaultProxy) Refused() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refused
}

// Switch leads new connections to another server, "host:port". "" refuses them.
func (p *FaultProxy) Switch(server string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.server = server
}

// Freeze swallows all further bytes of the present connections.
func (p *FaultProxy) Freeze() {
	for _, l := range p.all() {
		l.set(func() { l.frozen = true })
	}
}

// Cut closes the present connections.
func (p *FaultProxy) Cut() {
	for _, l := range p.all() {
		l.close()
	}
}

func (p *FaultProxy) all() (all []*link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		all = append(all, l)
	}
	return all
}

func (p *FaultProxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		address := p.server
		p.mu.Unlock()
		server, err := net.Dial("tcp", address)
		if err != nil {
			_ = client.Close()
			p.mu.Lock()
			p.refused++
			p.mu.Unlock()
			continue
		}
		l := &link{client: client, server: server}
		p.mu.Lock()
		p.links[l] = struct{}{}
		p.mu.Unlock()
		p.running.Go(func() {
			var both sync.WaitGroup
			both.Go(func() { l.end(p.requests(l)) })
			both.Go(func() { l.end(l.responses()) })
			both.Wait()
			p.mu.Lock()
			delete(p.links, l)
			p.mu.Unlock()
		})
	}
}

// requests forwards what the client sends.
func (p *FaultProxy) requests(l *link) error {
	typed := 0 // the first message has no type
	for {
		message, err := readMessage(l.client, typed)
		if err != nil {
			return err
		}
		fault := NoFault
		if typed == 1 && message[0] == 'Q' {
			fault = p.choose(bytes.HasPrefix(message[5:], []byte("COMMIT")))
		}
		typed = 1
		switch fault {
		case DelayRequest:
			time.Sleep(p.Delay)
		case LoseRequest, LoseCommit:
			return errLost
		case LoseResponse, LoseCommitResponse:
			l.set(func() { l.loseOne = true })
		case FreezeConnection:
			l.set(func() { l.frozen = true })
		}
		if frozen, _ := l.state(); frozen {
			continue
		}
		if _, err := l.server.Write(message); err != nil {
			return err
		}
	}
}

// responses forwards what the server sends.
func (l *link) responses() error {
	for {
		message, err := readMessage(l.server, 1)
		if err != nil {
			return err
		}
		frozen, lose := l.state()
		switch {
		case lose && message[0] == 'Z': // ready for the next query
			return errLost
		case frozen, lose:
			continue
		}
		if _, err := l.client.Write(message); err != nil {
			return err
		}
	}
}

var errLost = errors.New("lost on purpose")

func (p *FaultProxy) choose(commit bool) (f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer func() { p.injected[f]++ }()
	switch {
	case len(p.next) > 0:
		if f = p.next[0]; isOfCommit(f) && !commit {
			return NoFault
		}
		p.next = p.next[1:]
	case p.random != nil && p.random.Float64() < p.rate:
		if f = Fault(1 + p.random.IntN(int(LoseCommitResponse))); isOfCommit(f) && !commit {
			f -= LoseCommit - LoseRequest
		}
	}
	return f
}

func isOfCommit(f Fault) bool { return f == LoseCommit || f == LoseCommitResponse }

// readMessage reads a message whose length follows after so many bytes.
func readMessage(r io.Reader, before int) ([]byte, error) {
	head := make([]byte, before+4)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	size := int(binary.BigEndian.Uint32(head[before:]))
	if size < 4 || size > 1<<28 {
		return nil, errors.New("this is not the protocol of PostgreSQL")
	}
	message := append(head, make([]byte, size-4)...)
	_, err := io.ReadFull(r, message[before+4:])
	return message, err
}

func (l *link) set(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
}

func (l *link) state() (frozen, loseOne bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.frozen, l.loseOne
}

// end ends the connection after one direction has ended, unless it is frozen: then neither
// side learns of the other's end.
func (l *link) end(error) {
	if frozen, _ := l.state(); !frozen {
		l.close()
	}
}

func (l *link) close() {
	_ = l.client.Close()
	_ = l.server.Close()
}
