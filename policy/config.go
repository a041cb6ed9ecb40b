package policy

import "github.com/loopguard-go/loopguard/canonical"

// Config says what a policy looks for and when it acts. The zero value of a field means that it is not set, and a field
// that is not set has the default named beside it; the zero Config is therefore "nothing configured": the detectors are
// off and only the guard after compaction works. [Default] and [Tight] are ready presets.
//
// The JSON names are those of the configuration document, see [ParseConfig]. The names shared with OpenClaw's
// tools.loopDetection keep their meaning and their defaults from there.
type Config struct {
	// Enabled switches detection: true turns on the detectors and the guard after compaction, false turns both off,
	// and nil (not set) leaves the detectors off and the guard after compaction on.
	Enabled *bool `json:"enabled,omitempty"`

	// HistorySize is the number of newest calls of a run that are remembered. Default 30.
	HistorySize int `json:"historySize,omitempty"`

	// WarningThreshold is the count from which the model is warned. Default 10.
	WarningThreshold int `json:"warningThreshold,omitempty"`

	// CriticalThreshold is the count from which calls are refused. Default 20; raised to WarningThreshold + 1 where it
	// is not above it.
	CriticalThreshold int `json:"criticalThreshold,omitempty"`

	// UnknownToolThreshold is the number of failures of a tool that does not exist from which it is refused. Default 10.
	UnknownToolThreshold int `json:"unknownToolThreshold,omitempty"`

	// GlobalCircuitBreakerThreshold is the count from which the run is stopped. Default 30; raised to
	// CriticalThreshold + 1 where it is not above it.
	GlobalCircuitBreakerThreshold int `json:"globalCircuitBreakerThreshold,omitempty"`

	// Detectors switches single detectors off. All are on by default.
	Detectors Detectors `json:"detectors,omitzero"`

	// PostCompactionGuard tunes the guard after compaction.
	PostCompactionGuard PostCompactionGuard `json:"postCompactionGuard,omitzero"`

	// Mode is [Enforce] (the default) or [Observe].
	Mode Mode `json:"mode,omitempty"`

	// Tools holds rules for single tools, by name or glob ('*' any characters, '?' one), matched on names that are
	// trimmed and lower-cased. Where several match they are laid over each other field by field: globs first, the
	// shorter first, those of one length in byte order, and an exact name last.
	Tools map[string]ToolRule `json:"tools,omitempty"`
}

// Detectors switches detectors by name; nil means on. The breaker and the detector of unknown tools have no switch.
type Detectors struct {
	GenericRepeat       *bool `json:"genericRepeat,omitempty"`
	KnownPollNoProgress *bool `json:"knownPollNoProgress,omitempty"`
	PingPong            *bool `json:"pingPong,omitempty"`
	ErrorStreak         *bool `json:"errorStreak,omitempty"`
	Stagnation          *bool `json:"stagnation,omitempty"`
}

// PostCompactionGuard tunes the guard that watches the first calls after a context compaction.
type PostCompactionGuard struct {
	// WindowSize is the number of outcomes after a compaction that must all be one and the same for the run to be
	// stopped. Default 3, at least 2.
	WindowSize int `json:"windowSize,omitempty"`
}

// ToolRule is what is special about one tool, or about the tools that a glob matches. Zero values are not set.
type ToolRule struct {
	// Kind says how results of the tool are compared. By default it follows from the tool's name.
	Kind canonical.Kind `json:"kind,omitempty"`

	// Poll says whether calls of the tool wait for something by asking again. By default command_status polls, and
	// process with the action poll or log.
	Poll *bool `json:"poll,omitempty"`

	// Exempt takes the tool out: it always runs, also in a stopped run, and leaves no trace in the history.
	Exempt *bool `json:"exempt,omitempty"`

	// IgnoreArgs names top-level arguments that play no part in the identity of a call, matched exactly.
	IgnoreArgs []string `json:"ignoreArgs,omitzero"`

	// IdentityArgs names the only top-level arguments that make the identity of a call, matched exactly.
	IdentityArgs []string `json:"identityArgs,omitzero"`

	// IgnoreResult names fields of a result's details that are dropped at any depth before results are compared. Names
	// match whatever their case and without regard to '_' and '-'.
	IgnoreResult []string `json:"ignoreResult,omitzero"`

	// WarningThreshold, CriticalThreshold and GlobalCircuitBreakerThreshold replace the thresholds of the Config for
	// this tool.
	WarningThreshold              int `json:"warningThreshold,omitempty"`
	CriticalThreshold             int `json:"criticalThreshold,omitempty"`
	GlobalCircuitBreakerThreshold int `json:"globalCircuitBreakerThreshold,omitempty"`
}

// Mode says whether verdicts take effect.
type Mode string

const (
	// Enforce lets verdicts take effect: calls are refused and runs are stopped.
	Enforce Mode = "enforce"
	// Observe reports the same verdicts and lets every call run.
	Observe Mode = "observe"
)

// The defaults of a Config.
const (
	DefaultHistorySize                   = 30
	DefaultWarningThreshold              = 10
	DefaultCriticalThreshold             = 20
	DefaultUnknownToolThreshold          = 10
	DefaultGlobalCircuitBreakerThreshold = 30
	DefaultWindowSize                    = 3
)

// Default returns a Config with detection on and every threshold at its default: a warning at 10, refusals from 20, the
// end of the run at 30.
func Default() Config {
	return Config{Enabled: new(true)}
}

// Tight returns a Config with detection on that acts twice as early: a warning at 5, refusals from 10, the end of the
// run at 15. It suits runs that are short or dear. On the recorded runs of the project it refused no call of a run that
// succeeded, but warned 15 of 501 of them; [Default] warned none.
func Tight() Config {
	return Config{
		Enabled:                       new(true),
		WarningThreshold:              5,
		CriticalThreshold:             10,
		UnknownToolThreshold:          5,
		GlobalCircuitBreakerThreshold: 15,
	}
}
