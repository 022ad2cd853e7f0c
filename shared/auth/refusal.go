package auth

import (
	"errors"

	"github.com/lanekeeper/lanekeeper/shared/problem"
)

// Refusal returns the answer for an error that means that a request has no principal; nil for any
// other error.
func Refusal(err error) *problem.Problem {
	for _, known := range refusals {
		if errors.Is(err, known.err) {
			return known.answer
		}
	}
	return nil
}
