package redisstore_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopguard-go/loopguard/middleware/redisstore"
)

// wrapped is a client whose options nobody sees, as those that measure are, and instrumented one that shows them.
type (
	wrapped      struct{ redis.UniversalClient }
	instrumented struct{ *redis.Client }
)

func TestClientsThatAreTaken(t *testing.T) {
	for name, client := range map[string]redis.UniversalClient{
		"single":    redis.NewClient(&redis.Options{ContextTimeoutEnabled: true}),
		"failover":  redis.NewFailoverClient(&redis.FailoverOptions{SentinelAddrs: []string{"localhost:1"}, ContextTimeoutEnabled: true}),
		"cluster":   redis.NewClusterClient(&redis.ClusterOptions{ContextTimeoutEnabled: true}),
		"ring":      redis.NewRing(&redis.RingOptions{ContextTimeoutEnabled: true}),
		"universal": redis.NewUniversalClient(&redis.UniversalOptions{ContextTimeoutEnabled: true}),
		"instrumented": instrumented{redis.NewClient(&redis.Options{
			ContextTimeoutEnabled: true,
		})},
	} {
		t.Run(name, func(t *testing.T) {
			store, err := redisstore.New(client)
			require.NoError(t, err, "also while there is no server")
			require.NotNil(t, store)
			require.NoError(t, client.Close())
		})
	}
	store, err := redisstore.New(wrapped{redis.NewClient(&redis.Options{})}, redisstore.WithTrustedClient())
	require.NoError(t, err)
	require.NotNil(t, store)
}

func TestNewSaysWhatIsWrong(t *testing.T) {
	good := redis.NewClient(&redis.Options{ContextTimeoutEnabled: true})
	defer func() { _ = good.Close() }()
	const hangs = "redisstore: the client ignores the deadlines of contexts and would hang with its server: " +
		"set ContextTimeoutEnabled in its options"
	const replicas = "redisstore: the client reads from replicas, which tell what was: " +
		"set none of ReadOnly, RouteByLatency and RouteRandomly in its options"
	cluster := func(change func(*redis.ClusterOptions)) redis.UniversalClient {
		o := &redis.ClusterOptions{ContextTimeoutEnabled: true}
		change(o)
		return redis.NewClusterClient(o)
	}
	for _, test := range []struct {
		name    string
		client  redis.UniversalClient
		options []redisstore.Option
		want    string
	}{
		{"no client", nil, nil, "redisstore: the client is nil"},
		{"a nil client", (*redis.Client)(nil), nil, "redisstore: the client is nil"},
		{"a trusted nil client", (*redis.Ring)(nil), []redisstore.Option{redisstore.WithTrustedClient()}, "redisstore: the client is nil"},
		{"single", redis.NewClient(&redis.Options{}), nil, hangs},
		{"instrumented", instrumented{redis.NewClient(&redis.Options{})}, nil, hangs},
		{"cluster", redis.NewClusterClient(&redis.ClusterOptions{}), nil, hangs},
		{"ring", redis.NewRing(&redis.RingOptions{}), nil, hangs},
		{"read only", cluster(func(o *redis.ClusterOptions) { o.ReadOnly = true }), nil, replicas},
		{"by latency", cluster(func(o *redis.ClusterOptions) { o.RouteByLatency = true }), nil, replicas},
		{"at random", cluster(func(o *redis.ClusterOptions) { o.RouteRandomly = true }), nil, replicas},
		{"wrapped", wrapped{good}, nil,
			"redisstore: cannot see the options of a client of type redisstore_test.wrapped: WithTrustedClient vouches for it"},
		{"no option", good, []redisstore.Option{nil}, "redisstore: an option is nil"},
		{"prefix", good, []redisstore.Option{redisstore.WithPrefix("a{b}:")},
			`redisstore: WithPrefix: "a{b}:" has braces, which are for the id of the run`},
		{"idle time", good, []redisstore.Option{redisstore.WithIdleTime(time.Microsecond)},
			"redisstore: WithIdleTime: 1µs is too short, must be at least 1ms"},
		{"timeout", good, []redisstore.Option{redisstore.WithTimeout(0)},
			"redisstore: WithTimeout: 0s is too short, must be more than 0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			store, err := redisstore.New(test.client, test.options...)
			assert.EqualError(t, err, test.want)
			assert.Nil(t, store)
		})
	}
}
