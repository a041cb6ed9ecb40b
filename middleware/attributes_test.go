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

	assert.Equal(t, "loopguard.step", middleware.AttrStep)

	assert.Equal(t, "gen_ai.operation.name", middleware.AttrOperationName)
	assert.Equal(t, "execute_tool", middleware.OperationExecuteTool)
	assert.Equal(t, "invoke_agent", middleware.OperationInvokeAgent)
	assert.Equal(t, "gen_ai.agent.name", middleware.AttrAgentName)
	assert.Equal(t, "gen_ai.tool.name", middleware.AttrToolName)
	assert.Equal(t, "gen_ai.tool.type", middleware.AttrToolType)
	assert.Equal(t, "gen_ai.tool.call.id", middleware.AttrToolCallID)
	assert.Equal(t, "error.type", middleware.AttrErrorType)
	assert.Equal(t, "exception.message", middleware.AttrExceptionMessage)

	assert.Equal(t, "loopguard.calls", middleware.MetricCalls)
	assert.Equal(t, "loopguard.calls.refused", middleware.MetricCallsRefused)
	assert.Equal(t, "loopguard.detections", middleware.MetricDetections)
	assert.Equal(t, "loopguard.runs.stopped", middleware.MetricRunsStopped)
	assert.Equal(t, "loopguard.runs.evicted", middleware.MetricRunsEvicted)
	assert.Equal(t, "loopguard.runs.live", middleware.MetricRunsLive)
	assert.Equal(t, "loopguard.store.failures", middleware.MetricStoreFailures)
	assert.Equal(t, "loopguard.guard.duration", middleware.MetricGuardDuration)

	assert.Equal(t, "github.com/loopguard-go/loopguard/middleware", middleware.ScopeName)
}
