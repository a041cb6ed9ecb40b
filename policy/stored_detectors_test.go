package policy

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// States that were stored name detectors by these numbers, so that none of them may ever change. Whoever adds a detector
// gives it the next number, here too, and raises stateVersion.
func TestStoredDetectors(t *testing.T) {
	numbers := []string{
		"",
		UnknownToolRepeat,
		GlobalCircuitBreaker,
		KnownPollNoProgress,
		PingPong,
		GenericRepeat,
		ErrorStreak,
		Stagnation,
		CompactionLoopPersisted,
	}
	var stored []string
	for _, id := range storedDetectors {
		stored = append(stored, id.name())
	}
	assert.Equal(t, numbers, stored)
	assert.Len(t, storedDetectors, len(detectors), "every detector has a number")
	assert.Equal(t, 1, stateVersion, "the version that these numbers belong to")
	for id := range detectors {
		assert.Equal(t, detectorID(id), storedDetectors[detectorID(id).stored()])
	}
}
