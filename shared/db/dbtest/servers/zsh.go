package servers

import "context"

var zsh = program{name: "zsh", apt: "zsh", brew: "zsh", find: findAny("zsh")}

// Zsh finds zsh, the shell of macOS, or installs it. The error is a [*MissingError] where it
// can't be had. It is no server, and comes the way they come.
func Zsh(ctx context.Context) (path string, err error) { return zsh.path(ctx) }
