//go:build race

package queue_test

func init() { raceEnabled = true }
