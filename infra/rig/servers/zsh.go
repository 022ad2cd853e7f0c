package servers

import "context"

var zsh = program{name: "zsh", apt: "zsh", brew: "zsh", find: findAny("zsh")}

// Zsh finds zsh, the shell of macOS, or installs it. It returns a [*MissingError] when neither is
// possible. zsh is no server, but it is found and installed in the same way.
func Zsh(ctx context.Context) (path string, err error) { return zsh.path(ctx) }
