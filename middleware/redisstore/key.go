package redisstore

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

const (
	maxID    = 128 // length in bytes up to which the id of a run stands in its key
	digested = "sha256:"
)

// key returns the key of a run: the prefix, and in braces the id, which is so what a cluster goes by. An id that is long, or
// that a cluster or a person could take for something else, is replaced by its digest.
func (s *Store) key(run string) string {
	if run == "" || len(run) > maxID || strings.ContainsAny(run, "{}") || strings.HasPrefix(run, digested) {
		sum := sha256.Sum256([]byte(run))
		run = digested + hex.EncodeToString(sum[:16])
	}
	return s.prefix + "{" + run + "}"
}
