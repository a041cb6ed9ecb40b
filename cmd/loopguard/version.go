package main

import (
	"runtime"
	"runtime/debug"
)

// version says which loopguard this is, as far as the build knows.
func version() string {
	of := "(unknown)"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		of = info.Main.Version
	}
	return "loopguard " + of + " " + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH + "\n"
}
