// Command loopguard judges recorded transcripts of AI agents: it shows where they went round in circles, and what a guard
// would have done about it. "loopguard --help" says more.
package main

import "os"

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
