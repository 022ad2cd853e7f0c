package postgres_test

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/lanekeeper/lanekeeper/shared/db/postgres"
)

// rootsOf returns the roots in the file of a region.
func rootsOf(t testing.TB, region string) (all []*x509.Certificate) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("rds", region+".pem"))
	if err != nil {
		t.Fatal(err)
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		root, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatalf("%s: %v", region, err)
		}
		all = append(all, root)
	}
	return all
}

// TestRootsOfRDS: the file of each region has the three roots that Amazon uses there.
func TestRootsOfRDS(t *testing.T) {
	files, err := filepath.Glob("rds/*.pem")
	if err != nil || len(files) < 27 {
		t.Fatalf("there are %d regions, %v", len(files), err)
	}
	for _, file := range files {
		region := strings.TrimSuffix(filepath.Base(file), ".pem")
		roots := rootsOf(t, region)
		for i, kind := range []string{"ECC384", "RSA2048", "RSA4096"} {
			if len(roots) != 3 || roots[i].Subject.CommonName != "Amazon RDS "+region+" Root CA "+kind+" G1" || !roots[i].IsCA ||
				roots[i].CheckSignatureFrom(roots[i]) != nil || roots[i].NotAfter.Year() < 2061 {
				t.Fatalf("%s has %d roots, of which number %d is not that of %s", file, len(roots), i, kind)
			}
		}
	}
}

// TestTrust: a server of RDS and of Aurora is verified with the roots of its region, which no system has, beside those of
// the system, which sign the certificates of RDS Proxy.
func TestTrust(t *testing.T) {
	steady(t)
	system, err := x509.SystemCertPool()
	if err != nil {
		t.Fatal(err)
	}
	for _, root := range rootsOf(t, "eu-central-1") {
		system.AddCert(root)
	}
	root, own := rootsOf(t, "us-east-1")[0], filepath.Join(t.TempDir(), "own.pem")
	if err := os.WriteFile(own, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	mine := x509.NewCertPool()
	mine.AddCert(root)
	for dsn, want := range map[string]*x509.CertPool{
		"postgres://u:p@db.c9akciq32.eu-central-1.rds.amazonaws.com/d":                  system,
		"postgres://u:p@DB.cluster-c9akciq32.EU-Central-1.rds.amazonaws.com:5433/d":     system,
		"postgres://u:p@db.proxy-c9akciq32.eu-central-1.rds.amazonaws.com/d":            system,
		"postgres://u:p@db.c9akciq32.xx-nowhere-1.rds.amazonaws.com/d":                  nil,
		"postgres://u:p@db.eu-central-1.rds.amazonaws.com.evil.example/d":               nil,
		"postgres://u:p@db.example.com/d":                                               nil,
		"postgres://u:p@localhost/d":                                                    nil,
		"postgres://u:p@db.x.eu-central-1.rds.amazonaws.com/d?sslrootcert=" + own:       mine,
		"postgres://u:p@db.example.com,db.x.eu-central-1.rds.amazonaws.com/d?port=1,2":  nil, // the first of the two
		"postgres://u:p@db.x.eu-central-1.rds.amazonaws.com,db.example.com:2/d?user=me": system,
		"host=db.x.eu-central-1.rds.amazonaws.com user=u password=p dbname=d port=5432": system,
	} {
		strict, err := postgres.VerifiedURL(dsn)
		if err != nil {
			t.Fatalf("%s: %v", dsn, err)
		}
		pc, err := pgconn.ParseConfig(strict)
		if err != nil {
			t.Fatal(err)
		}
		postgres.Trust(pc)
		switch {
		case pc.TLSConfig == nil:
			if want != nil {
				t.Errorf("%s: there is no TLS", dsn)
			}
		case want == nil && pc.TLSConfig.RootCAs != nil, want != nil && !want.Equal(pc.TLSConfig.RootCAs):
			t.Errorf("%s: other roots are trusted", dsn)
		}
	}
}
