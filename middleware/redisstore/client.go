package redisstore

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/redis/go-redis/v9"
)

// checkClient says what is wrong with a client.
func checkClient(client redis.UniversalClient, trusted bool) error {
	if v := reflect.ValueOf(client); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return errors.New("the client is nil")
	}
	if trusted {
		return nil
	}
	var bounded, replicas bool
	switch c := client.(type) {
	case interface{ Options() *redis.Options }:
		bounded = c.Options().ContextTimeoutEnabled
	case interface{ Options() *redis.ClusterOptions }:
		bounded, replicas = c.Options().ContextTimeoutEnabled, c.Options().ReadOnly
	case interface{ Options() *redis.RingOptions }:
		bounded = c.Options().ContextTimeoutEnabled
	default:
		return fmt.Errorf("cannot see the options of a client of type %T: WithTrustedClient vouches for it", client)
	}
	switch {
	case !bounded:
		return errors.New("the client ignores the deadlines of contexts and would hang with its server: " +
			"set ContextTimeoutEnabled in its options")
	case replicas:
		return errors.New("the client reads from replicas, which tell what was: " +
			"set none of ReadOnly, RouteByLatency and RouteRandomly in its options")
	}
	return nil
}
