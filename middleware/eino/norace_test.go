//go:build !race

package eino_test

const raceDetector = false
