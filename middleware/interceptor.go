package middleware

import "context"

// Handler runs a tool call.
type Handler func(context.Context, Call) (Result, error)

// Interceptor wraps a handler into another one that does something before or after, or instead.
type Interceptor func(next Handler) Handler

// Chain makes one interceptor of several. The first is the outermost: it sees the call first and the result last.
func Chain(interceptors ...Interceptor) Interceptor {
	return func(next Handler) Handler {
		for i := len(interceptors) - 1; i >= 0; i-- {
			next = interceptors[i](next)
		}
		return next
	}
}

// Interceptor returns the guard as an interceptor: each call goes through [Guard.Do].
func (g *Guard) Interceptor() Interceptor {
	return func(next Handler) Handler {
		return func(ctx context.Context, call Call) (Result, error) { return g.Do(ctx, call, next) }
	}
}
