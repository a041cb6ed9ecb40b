package middleware_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/loopguard-go/loopguard/middleware"
)

// TestNamesOnTraces pins what people search and alert for. A name that changes here breaks their dashboards.
func TestNamesOnTraces(t *testing.T) {
	assert.Equal(t, "loopguard.detection", middleware.EventDetection)
	assert.Equal(t, "loopguard.store_failure", middleware.EventStoreFailure)

	assert.Equal(t, "loopguard.detector", middleware.AttrDetector)
	assert.Equal(t, "loopguard.action", middleware.AttrAction)
	assert.Equal(t, "loopguard.enforced", middleware.AttrEnforced)
	assert.Equal(t, "loopguard.count", middleware.AttrCount)
	assert.Equal(t, "loopguard.threshold", middleware.AttrThreshold)
	assert.Equal(t, "loopguard.paired_tool", middleware.AttrPairedTool)
	assert.Equal(t, "loopguard.reason", middleware.AttrReason)
	assert.Equal(t, "loopguard.run.id", middleware.AttrRunID)
	assert.Equal(t, "loopguard.call.digest", middleware.AttrCallDigest)
	assert.Equal(t, "loopguard.store.operation", middleware.AttrStoreOperation)

	assert.Equal(t, "gen_ai.tool.name", middleware.AttrToolName)
	assert.Equal(t, "gen_ai.tool.call.id", middleware.AttrToolCallID)
	assert.Equal(t, "exception.message", middleware.AttrExceptionMessage)
}
