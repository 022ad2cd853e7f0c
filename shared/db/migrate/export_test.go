package migrate

// Server and File run with other files than this build's.
var (
	Server = server
	File   = file
)
