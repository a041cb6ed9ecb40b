package redisstore_test

import (
	"bytes"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// proxy stands between a client and a server and loses what a test wants it to.
type proxy struct {
	listener net.Listener
	target   string
	group    sync.WaitGroup

	mu      sync.Mutex
	conns   []net.Conn
	losing  int           // so many replies to writes are still to be lost
	latency time.Duration // of what comes from the server
	between func()        // happens after a write was done whose reply is lost
	writes  int           // how many there were
}

func startProxy(t testing.TB, s *server) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{listener: listener, target: s.addr()}
	p.group.Go(p.serve)
	t.Cleanup(func() {
		_ = listener.Close()
		p.mu.Lock()
		for _, c := range p.conns {
			_ = c.Close()
		}
		p.mu.Unlock()
		p.group.Wait()
	})
	return p
}

// client returns a client that goes through the proxy.
func (p *proxy) client(t testing.TB) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: p.listener.Addr().String(), ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// lose makes the proxy break the connection in place of the replies to the next writes. A function is called before the
// client learns of it.
func (p *proxy) lose(replies int, between func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.losing, p.between, p.writes = replies, between, 0
}

// sent returns how many writes were sent since.
func (p *proxy) sent() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.writes
}

func (p *proxy) delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.latency = d
}

func (p *proxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, client, server)
		p.mu.Unlock()
		l := &link{proxy: p, client: client, server: server}
		p.group.Go(l.requests)
		p.group.Go(l.replies)
	}
}

// link is one connection.
type link struct {
	*proxy
	client, server net.Conn
	loses          bool // the next reply
}

func (l *link) requests() {
	defer l.close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := l.client.Read(buffer)
		if err != nil {
			return
		}
		if bytes.Contains(buffer[:n], []byte("evalsha")) {
			l.mu.Lock()
			l.writes++
			if l.losing > 0 {
				l.losing--
				l.loses = true
			}
			l.mu.Unlock()
		}
		if _, err := l.server.Write(buffer[:n]); err != nil {
			return
		}
	}
}

func (l *link) replies() {
	defer l.close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := l.server.Read(buffer)
		if err != nil {
			return
		}
		l.mu.Lock()
		loses, between, latency := l.loses, l.between, l.latency
		l.mu.Unlock()
		if loses {
			if between != nil {
				between()
			}
			return
		}
		time.Sleep(latency)
		if _, err := io.Copy(l.client, bytes.NewReader(buffer[:n])); err != nil {
			return
		}
	}
}

func (l *link) close() {
	_ = l.client.Close()
	_ = l.server.Close()
}
