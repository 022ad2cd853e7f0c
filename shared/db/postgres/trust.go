package postgres

import (
	"crypto/tls"
	"crypto/x509"
	"embed"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/lanekeeper/lanekeeper/shared/pattern"
)

// Amazon signs the certificates of RDS and Aurora with roots of its own, three for each region, which no system has. They
// are those of https://truststore.pki.rds.amazonaws.com/global/global-bundle.pem that are valid until 2061 or later.
//
//go:embed rds/*.pem
var rdsRoots embed.FS

// rdsHost matches the host of an instance, a cluster or a proxy, and finds its region.
var rdsHost = pattern.New(`\.([a-z0-9-]+)\.rds\.amazonaws\.com$`)

// Trust makes connections to RDS and Aurora trust the roots of their region, beside those of the system. Roots that the
// connection string names (sslrootcert) stay the only ones.
func Trust(pc *pgconn.Config) {
	trust(pc.TLSConfig)
	for _, f := range pc.Fallbacks {
		trust(f.TLSConfig)
	}
}

func trust(c *tls.Config) {
	if c == nil || c.RootCAs != nil {
		return
	}
	found := rdsHost().FindStringSubmatch(strings.ToLower(c.ServerName))
	if found == nil {
		return
	}
	roots, err := rdsRoots.ReadFile("rds/" + found[1] + ".pem")
	if err != nil { // a region that is newer than this build
		return
	}
	all, err := x509.SystemCertPool()
	if err != nil {
		all = x509.NewCertPool()
	}
	all.AppendCertsFromPEM(roots)
	c.RootCAs = all
}
