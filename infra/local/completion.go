package main

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
)

// completion prints a script with which a shell completes the verbs and their words.
func completion(*flag.FlagSet) action {
	return func(_ context.Context, c *console, args []string) error {
		if len(args) != 1 || args[0] != "bash" && args[0] != "zsh" {
			return misused("completion takes the name of a shell, bash or zsh, such as in: source <(%s completion bash)", c.name)
		}
		if args[0] == "zsh" {
			fmt.Fprint(c.out, "autoload -Uz compinit bashcompinit && compinit -u && bashcompinit\n")
		}
		fmt.Fprint(c.out, completionScript())
		return nil
	}
}

// completionScript returns the script for bash, which also works in zsh.
func completionScript() string {
	var names []string
	var cases strings.Builder
	for _, v := range verbs() {
		names = append(names, v.name)
	}
	for _, r := range resources() {
		fmt.Fprintf(&cases, "      %s) words=%q ;;\n", r.name, strings.Join(slices.Concat(r.does, r.actions), " "))
	}
	for _, of := range [][2]string{
		{"locks", "release"}, {"trigger", "heartbeat coordinator"}, {"completion", "bash zsh"}, {"help", strings.Join(names, " ")},
	} {
		fmt.Fprintf(&cases, "      %s) words=%q ;;\n", of[0], of[1])
	}
	return fmt.Sprintf(`_lanekeeper() {
  local words=""
  if [ "$COMP_CWORD" -eq 1 ]; then
    words=%q
  elif [ "$COMP_CWORD" -eq 2 ]; then
    case "${COMP_WORDS[1]}" in
%s    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -F _lanekeeper lanekeeper
`, strings.Join(names, " "), cases.String())
}
