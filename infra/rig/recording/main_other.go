//go:build !linux

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "recording: it needs the pseudo terminals of Linux")
	os.Exit(1)
}
