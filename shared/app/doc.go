// Package app has what every process stands on: the configuration, of which it is the only
// reader, the core, the logger and Postgres. It knows no provider and no SQLite. The parts are
// made by app/wire, what has an address by app/web, the demo content by app/seed: a function
// links only what it uses.
package app
