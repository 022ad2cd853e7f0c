// Package servers runs the servers the tests are proven on: a private
// PostgreSQL, a PgBouncer in front of it and a Redis, each on a free loopback
// port, with its files in a directory of its own.
//
//	set, err := servers.Start(ctx, servers.Options{Postgres: servers.PostgresOptions{Fast: true}})
//	defer set.Close()
//	cmd.Env = append(os.Environ(), set.Env()...)
//
// A test that must disturb a server, or count what it does, starts one for
// itself:
//
//	pg, err := servers.StartPostgres(ctx, "", servers.PostgresOptions{Quiet: true})
//	defer pg.Close()
//	err = pg.Restart(ctx, servers.Immediate) // a crash, and the recovery from it
//
// Programs come from the machine's own packages. What is missing is installed
// with apt-get when we are root on Debian or Ubuntu; elsewhere a
// [MissingError] says what to install, or which variable to set instead: a
// part whose TEST_* variable is set is used as it is, and nothing is started
// for it.
//
// Three things are done on purpose. Ports lie below the range from which the
// kernel takes ports for outgoing connections, so that no client can sit on a
// server's port while the server restarts. Servers run in process groups of
// their own, so that Ctrl-C in a terminal reaches the tests first and the
// servers only through Close. And on Linux the kernel is asked to end the
// servers when we die, even by kill -9; a temporary directory that stays behind
// is removed by a later start.
package servers
