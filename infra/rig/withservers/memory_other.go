//go:build !linux

package main

// memory returns "": only Linux has a directory in memory.
func memory() string { return "" }
