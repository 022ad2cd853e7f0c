package main

import (
	"slices"
	"time"
)

// ratio runs a and b alternately, rounds times each after a warm-up. It returns the median of a/b
// over the pairs, and the median time of each in microseconds.
func ratio(rounds int, a, b func() error) (r, medianA, medianB float64, err error) {
	var ratios, as, bs []float64
	for i := range rounds + rounds/10 + 1 {
		ta, err := timed(a)
		if err != nil {
			return 0, 0, 0, err
		}
		tb, err := timed(b)
		if err != nil {
			return 0, 0, 0, err
		}
		if i <= rounds/10 {
			continue
		}
		ratios, as, bs = append(ratios, ta/tb), append(as, ta), append(bs, tb)
	}
	return median(ratios), median(as), median(bs), nil
}

func timed(f func() error) (micros float64, err error) {
	begun := time.Now()
	err = f()
	return float64(time.Since(begun).Nanoseconds()) / 1e3, err
}

func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(v))
	return s[len(s)/2]
}
