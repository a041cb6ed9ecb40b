package redisstore

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"
)

// swapScript writes an entry (ARGV[2]) that expires after so many milliseconds (ARGV[3]), if what is there has a mark
// (ARGV[1]). Else it returns what is there.
var swapScript = redis.NewScript(swapSource)

const swapSource = `
if redis.call('GETRANGE', KEYS[1], 0, 11) == ARGV[1] then
  redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
  return 1
end
return redis.call('GET', KEYS[1])
`

var errUnknownFate = errors.New("a write had no answer, and so many others came since that it cannot be found out " +
	"whether it was done")

// swap writes an entry in the place of another. If somebody else was faster it writes nothing and returns what is there now.
func (s *Store) swap(ctx context.Context, key, before string, after []byte) (now string, kept bool, err error) {
	args := []any{1, key, mark(before), after, s.idle.Milliseconds()}
	reply, sent, err := s.ask(ctx, append([]any{"evalsha", swapScript.Hash()}, args...)...)
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		again := sent - 1 // this one was not done
		reply, sent, err = s.ask(ctx, append([]any{"eval", swapSource}, args...)...)
		sent += again
	}
	if err != nil {
		return "", false, err
	}
	if _, written := reply.(int64); written {
		return "", true, nil
	}
	now, _ = reply.(string)
	if sent > 1 {
		kept, err = wasKept(now, before, after)
	}
	return now, kept, err
}

// wasKept finds out whether a write was done that had no answer, from what is there now.
func wasKept(now, before string, after []byte) (bool, error) {
	revisions, _, err := splitEntry(now)
	switch {
	case err != nil: // nothing is there, or nothing that could have come after it
		return false, nil
	case hasRevision(revisions, revisionOf(string(after))):
		return true, nil
	case hasRevision(revisions, revisionOf(before)):
		return false, nil
	case len(revisions) <= maxPast*revisionSize: // they are all that there ever were
		return false, nil
	}
	return false, errUnknownFate
}
