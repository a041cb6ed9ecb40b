package redisstore_test

import (
	"log"

	"github.com/redis/go-redis/v9"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/middleware/redisstore"
	"github.com/loopguard-go/loopguard/policy"
)

// Every worker makes the same guard on the same Redis. With each call comes the id of its run, for [middleware.WithRun].
func Example() {
	client := redis.NewClient(&redis.Options{
		Addr:                  "localhost:6379",
		ContextTimeoutEnabled: true, // required: else a call hangs with the server
		DialerRetries:         1,    // so that a server that is gone is noticed at once
	})
	store, err := redisstore.New(client)
	if err != nil {
		log.Fatal(err)
	}
	guard, err := middleware.New(policy.Default(), middleware.WithStore(store))
	if err != nil {
		log.Fatal(err)
	}
	_ = guard
}
