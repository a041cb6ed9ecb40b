// Package redisstore keeps the histories of runs in Redis, or in what speaks its protocol, so that several processes can
// work on one run: workers behind a queue, a workflow engine, functions without a server of their own.
//
//	client := redis.NewClient(&redis.Options{Addr: "localhost:6379", ContextTimeoutEnabled: true})
//	store, err := redisstore.New(client)
//	guard, err := middleware.New(policy.Default(), middleware.WithStore(store))
//
// There is one key for each run, and in it are names of tools and digests, never arguments or results. A step reads it and
// writes it back if nobody was faster, in two round trips; so no record is lost, and no call is judged by a history that is
// not the newest. No step takes longer than the timeout, whatever becomes of Redis; what the guard then does is its own to
// say, see [middleware.WithFailClosed].
//
// All processes that share runs take the same configuration and the same functions for the identity of calls, and their
// versions of loopguard are alike. A call ends in the process in which it began.
package redisstore
