package redisstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"

	"github.com/loopguard-go/loopguard/policy"
)

// What is kept under a key: a magic word and the version of this form, a revision of eight random bytes, the earlier revisions
// with their number before them, newest first; the binary form of the state; and a checksum of all that.
const (
	entryMagic   = "lgr"
	entryVersion = 1 // raise it with any change of this form; that of the state has a version of its own

	markSize     = len(entryMagic) + 1 + revisionSize
	revisionSize = 8
	checksumSize = 4

	// maxPast is how many earlier revisions are kept. They are there for the worker who had no answer and asks whether its
	// write was done, while others go on.
	maxPast = 16
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// mark returns the beginning of an entry, with its revision, by which a write finds out whether the entry is still there.
func mark[T string | []byte](entry T) T { return entry[:min(len(entry), markSize)] }

// newEntry makes the entry of a state that comes after others.
func newEntry(past string, s *policy.State) ([]byte, error) {
	past = past[:min(len(past), maxPast*revisionSize)]
	b := append(make([]byte, 0, 2048), entryMagic...)
	b = append(b, entryVersion)
	b = binary.LittleEndian.AppendUint64(b, rand.Uint64())
	b = append(b, byte(len(past)/revisionSize))
	b = append(b, past...)
	b, err := s.AppendBinary(b)
	if err != nil {
		return nil, err
	}
	return sealed(b), nil
}

// sealed appends its checksum to an entry.
func sealed(b []byte) []byte {
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// readEntry reads an entry, or nothing. It returns its revisions one after the other, newest first. The error says why it
// cannot be read; it is [policy.ErrNewerState] if that is for a newer version.
func readEntry(entry string, s *policy.State) (revisions string, err error) {
	if entry == "" {
		return "", nil
	}
	revisions, state, err := splitEntry(entry)
	if err != nil {
		return "", err
	}
	if err := s.UnmarshalBinary([]byte(state)); err != nil {
		return "", err
	}
	return revisions, nil
}

// splitEntry takes an entry apart.
func splitEntry(entry string) (revisions, state string, err error) {
	const header = markSize + 1
	if len(entry) < header+checksumSize {
		return "", "", fmt.Errorf("%d bytes are too few for an entry", len(entry))
	}
	switch magic, version := entry[:len(entryMagic)], entry[len(entryMagic)]; {
	case magic != entryMagic:
		return "", "", fmt.Errorf("the entry does not begin with %q", entryMagic)
	case version > entryVersion:
		return "", "", fmt.Errorf("entry of form %d, this version reads up to %d: %w", version, entryVersion, policy.ErrNewerState)
	case version < entryVersion:
		return "", "", fmt.Errorf("entry of form %d, which never was one", version)
	}
	body, sum := entry[:len(entry)-checksumSize], entry[len(entry)-checksumSize:]
	if crc32.Checksum([]byte(body), castagnoli) != binary.LittleEndian.Uint32([]byte(sum)) {
		return "", "", errors.New("the checksum of the entry is wrong")
	}
	revision, past := body[markSize-revisionSize:markSize], int(body[header-1])*revisionSize
	if past > len(body)-header {
		return "", "", errors.New("the entry has fewer revisions than it says")
	}
	return revision + body[header:header+past], body[header+past:], nil
}

// revisionOf returns the revision of an entry.
func revisionOf(entry string) string { return mark(entry)[min(len(entry), markSize-revisionSize):] }

// hasRevision reports whether a revision is one of several.
func hasRevision(revisions, revision string) bool {
	for ; len(revisions) >= revisionSize; revisions = revisions[revisionSize:] {
		if revisions[:revisionSize] == revision {
			return true
		}
	}
	return false
}
