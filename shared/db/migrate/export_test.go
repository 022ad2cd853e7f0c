package migrate

// What a run with other files than this build's does.
var (
	Server = server
	File   = file
)
