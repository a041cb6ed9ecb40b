package middleware

import (
	"context"

	"github.com/loopguard-go/loopguard/policy"
)

// Store keeps the states of runs. It only stores: all rules are elsewhere, and so is what to do when it fails.
// Implementations are safe for concurrent use. What is kept outside the process is the binary form of a state, see
// [policy.State.MarshalBinary].
type Store interface {
	// Update lets fn change the state of a run, atomically: no other Update of the run sees or loses a part of it. A run
	// that the store does not have is the zero state. If fn returns an error, Update keeps nothing of what fn did and
	// returns an error that wraps it. Update may call fn several times, each time with a fresh state, and keeps the last;
	// it must not keep the state for longer than the call, nor call fn after it has returned. The context may have no
	// deadline, as the end of a call must be kept even if its time is over; a store that can hang bounds itself.
	//
	// A state that cannot be read is replaced: fn gets the zero state, and once what it did is kept, Update returns an error
	// that matches [ErrStateLost]. A state that a newer version wrote is not, see [policy.ErrNewerState]: that is a failure.
	Update(ctx context.Context, run string, fn func(*policy.State) error) error

	// Forget removes the state of a run. To forget a run that the store does not have is no error.
	Forget(ctx context.Context, run string) error
}
