package redisstore_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopguard-go/loopguard/middleware/redisstore"
)

func TestServerWithAPassword(t *testing.T) {
	server := startServer(t, "--requirepass", "correct horse")
	password := func(p string) func(*redis.Options) { return func(o *redis.Options) { o.Password = p } }

	guard := newGuard(t, newStore(t, server.client(password("correct horse"))))
	repeat(t, guard, 20)
	result, err := guard.Do(inRun(), same, mustNotRun(t))
	require.NoError(t, err)
	require.NotNil(t, result.Refusal)

	for given, says := range map[string]string{"": "NOAUTH", "wrong": "WRONGPASS"} {
		within(t, redisstore.DefaultTimeout, func() {
			err = newStore(t, server.client(password(given))).Update(context.Background(), "r", aCall)
			require.ErrorContains(t, err, says)
		})
	}
}

// TestUserWithFewRights: what is in the documentation about what a user of the store has to be allowed.
func TestUserWithFewRights(t *testing.T) {
	server := startServer(t)
	server.ask("acl", "setuser", "loopguard", "on", ">secret", "~loopguard:*",
		"+get", "+set", "+getrange", "+del", "+eval", "+evalsha")
	store := newStore(t, server.client(func(o *redis.Options) { o.Username, o.Password = "loopguard", "secret" }))
	update(t, store, "r", aCall)
	update(t, store, "r", aCall)
	assert.Len(t, history(t, store, "r"), 2)
	require.NoError(t, store.Forget(context.Background(), "r"))
	other := newStore(t, server.client(func(o *redis.Options) { o.Username, o.Password = "loopguard", "secret" }),
		redisstore.WithPrefix("other:"))
	require.ErrorContains(t, other.Update(context.Background(), "r", aCall), "NOPERM")
}

// TestUserWithFewRightsOfAClusterAndARing: what their clients do by themselves needs one right more.
func TestUserWithFewRightsOfAClusterAndARing(t *testing.T) {
	allow := func(s *server, more string) {
		s.ask("acl", "setuser", "loopguard", "on", ">secret", "~loopguard:*",
			"+get", "+set", "+getrange", "+del", "+eval", "+evalsha", more)
	}
	t.Run("cluster", func(t *testing.T) {
		servers := startCluster(t)
		o := &redis.ClusterOptions{Username: "loopguard", Password: "secret", ContextTimeoutEnabled: true}
		for _, s := range servers {
			allow(s, "+cluster|slots")
			o.Addrs = append(o.Addrs, s.addr())
		}
		client := redis.NewClusterClient(o)
		defer func() { _ = client.Close() }()
		store := newStore(t, client)
		for run := range 20 {
			update(t, store, fmt.Sprint("run ", run), aCall)
			assert.Len(t, history(t, store, fmt.Sprint("run ", run)), 1)
		}
	})
	t.Run("ring", func(t *testing.T) {
		server := startServer(t)
		allow(server, "+ping")
		ring := redis.NewRing(&redis.RingOptions{
			Addrs: map[string]string{"one": server.addr()}, Username: "loopguard", Password: "secret",
			ContextTimeoutEnabled: true, HeartbeatFrequency: 10 * time.Millisecond,
		})
		defer func() { _ = ring.Close() }()
		store := newStore(t, ring)
		for range 3 {
			time.Sleep(100 * time.Millisecond) // a ring asks its servers now and then, and gives up those that do not answer
			update(t, store, "r", aCall)
		}
		assert.Len(t, history(t, store, "r"), 3)
	})
}

// TestServerWithTLS wants a certificate of its clients, too.
func TestServerWithTLS(t *testing.T) {
	dir, port := t.TempDir(), freePort(t)
	authority := newAuthority(t, filepath.Join(dir, "ca"))
	authority.issue(t, filepath.Join(dir, "server"))
	own := authority.issue(t, filepath.Join(dir, "client"))
	server := startServerOn(t, port, "--port", "0", "--tls-port", strconv.Itoa(port),
		"--tls-cert-file", filepath.Join(dir, "server.crt"), "--tls-key-file", filepath.Join(dir, "server.key"),
		"--tls-ca-cert-file", filepath.Join(dir, "ca.crt"))
	trusted := x509.NewCertPool()
	trusted.AddCert(authority.certificate)
	secured := func(c *tls.Config) func(*redis.Options) {
		return func(o *redis.Options) { o.TLSConfig, o.DialerRetries = c, 1 }
	}

	guard := newGuard(t, newStore(t, server.client(secured(&tls.Config{
		RootCAs: trusted, Certificates: []tls.Certificate{own},
	}))))
	repeat(t, guard, 20)
	result, err := guard.Do(inRun(), same, mustNotRun(t))
	require.NoError(t, err)
	require.NotNil(t, result.Refusal)

	for name, test := range map[string]struct {
		config *tls.Config
		says   string
	}{
		"no certificate":        {&tls.Config{RootCAs: trusted}, "certificate required"},
		"an unknown server":     {&tls.Config{RootCAs: x509.NewCertPool(), Certificates: []tls.Certificate{own}}, "x509: certificate signed by unknown authority"},
		"no encryption":         {nil, "EOF"},
		"a server of that name": {&tls.Config{RootCAs: trusted, ServerName: "another"}, "wanted to match another"},
	} {
		t.Run(name, func(t *testing.T) {
			within(t, redisstore.DefaultTimeout, func() {
				err := newStore(t, server.client(secured(test.config))).Update(context.Background(), "r", aCall)
				require.ErrorContains(t, err, "redisstore: reading: ")
				require.ErrorContains(t, err, test.says)
			})
		})
	}
}

// authority issues certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	issued      int64
}

// newAuthority makes an authority and writes its certificate to a file.
func newAuthority(t *testing.T, path string) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	a := &authority{key: key}
	a.certificate = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority of a test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.certificate, _ = a.sign(t, path, a.certificate, key)
	return a
}

// issue makes a certificate for this machine and writes it and its key to files.
func (a *authority) issue(t *testing.T, path string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	a.issued++
	_, pair := a.sign(t, path, &x509.Certificate{
		SerialNumber: big.NewInt(1 + a.issued), Subject: pkix.Name{CommonName: filepath.Base(path)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, key)
	return pair
}

func (a *authority) sign(
	t *testing.T, path string, template *x509.Certificate, key *ecdsa.PrivateKey,
) (*x509.Certificate, tls.Certificate) {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &key.PublicKey, a.key)
	require.NoError(t, err)
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	private := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})
	require.NoError(t, os.WriteFile(path+".crt", certificate, 0o600))
	require.NoError(t, os.WriteFile(path+".key", private, 0o600))
	parsed, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	pair, err := tls.X509KeyPair(certificate, private)
	require.NoError(t, err)
	return parsed, pair
}
