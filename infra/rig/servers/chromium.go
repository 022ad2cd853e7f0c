package servers

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
)

var chromium = program{name: "Chromium", apt: "chromium-headless-shell", brew: "--cask google-chrome", find: findChromium}

// Chromium finds a Chromium or a Chrome, or installs Chromium's headless shell. It returns a
// [*MissingError] when neither is possible. Like Node.js, it is no server.
func Chromium(ctx context.Context) (string, error) { return chromium.path(ctx) }

// findChromium prefers the program itself to the script on PATH that starts it: who ends a script
// does not end what it has started.
func findChromium(context.Context) (string, error) {
	for _, name := range []string{
		"/usr/lib/chromium/chromium-headless-shell", "/usr/lib/chromium/chromium",
		"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable",
		"/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
		"/Applications/Chromium.app/Contents/MacOS/Chromium",
	} {
		if path, err := exec.LookPath(name); err == nil {
			return filepath.Abs(path)
		}
	}
	return "", errors.New("no chromium found")
}
