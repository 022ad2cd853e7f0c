package servers

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// account is the user that the servers run as, because PostgreSQL and PgBouncer refuse root. Nil is
// the current user.
type account struct {
	name     string
	uid, gid uint32
}

// serverAccount returns nil for an ordinary user, and for root the account that replaces it.
func serverAccount() (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, errU := strconv.ParseInt(u.Uid, 10, 64)
		gid, errG := strconv.ParseInt(u.Gid, 10, 64)
		if err := errors.Join(errU, errG); err != nil {
			return nil, fmt.Errorf("account %s: %w", name, err)
		}
		return &account{name: name, uid: uint32(uid), gid: uint32(gid)}, nil
	}
	return nil, errors.New("PostgreSQL does not run as root, and there is no account postgres or nobody to run it as")
}

// reach returns an error that names the directory on the way to dir that is closed to the account,
// such as a test's TempDir made by root.
func (a *account) reach(dir string) error {
	if a == nil {
		return nil
	}
	for ; ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil {
			return err
		}
		owner := info.Sys().(*syscall.Stat_t).Uid == a.uid
		if info.Mode()&0o001 == 0 && (!owner || info.Mode()&0o100 == 0) {
			return fmt.Errorf("%s (mode %04o) is closed to the account %q: %w; use a directory below /tmp",
				dir, info.Mode().Perm(), a.name, fs.ErrPermission)
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
	}
}
