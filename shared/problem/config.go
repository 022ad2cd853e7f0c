package problem

import (
	"fmt"
	"strings"
)

// A ConfigProblem is one problem of the configuration.
type ConfigProblem struct {
	Variable string `json:"variable"`
	What     string `json:"what"` // the problem, as the rest of a sentence that begins with the variable
	Do       string `json:"do"`   // the remedy, as sentences
}

// String returns the problem as one line for a person.
func (p ConfigProblem) String() string {
	return strings.TrimSpace(p.Variable+" "+p.What) + ". " + p.Do
}

// A ConfigError lists all problems of the configuration. It never repeats a secret.
type ConfigError struct {
	Problems []ConfigProblem
}

func (e *ConfigError) Error() string {
	if len(e.Problems) == 1 {
		return "configuration: " + e.Problems[0].String()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "configuration: %d problems", len(e.Problems))
	for i, p := range e.Problems {
		fmt.Fprintf(&b, "\n%d. %s", i+1, p)
	}
	return b.String()
}
