package endpoint_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/lanekeeper/lanekeeper/shared/endpoint"
	"github.com/lanekeeper/lanekeeper/shared/outbound"
)

// TestAReceiverCannotSpoilItsRecord: the error of an attempt repeats the names of a wrong certificate, which may
// have a character that no database stores.
func TestAReceiverCannotSpoilItsRecord(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"a\x00b"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewUnstartedServer(http.NotFoundHandler())
	r.Config.ErrorLog = log.New(io.Discard, "", 0)
	r.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	r.StartTLS()
	defer r.Close()
	onEach(t, func(t *testing.T, w *world) {
		client, err := outbound.New(outbound.Options{AllowPrivateHosts: []string{"localhost"}})
		if err != nil {
			t.Fatal(err)
		}
		defer client.CloseIdleConnections()
		w.to.Sender.Client = client
		e, _ := w.add(t, strings.Replace(r.URL, "127.0.0.1", "localhost", 1), endpoint.All)
		w.task(t, "x", "ASSIGNED")
		w.send(t)
		all := w.deliveries(t)
		if len(all) != 1 || all[0].Status != endpoint.Failed || !strings.Contains(all[0].Error, "a\uFFFDb") {
			t.Errorf("recorded %+v", all)
		}
		if got := w.get(t, e.ID); got.Failures != 1 {
			t.Errorf("it has %d failures", got.Failures)
		}
		if d, err := w.to.Test(t.Context(), w.Workspace, e); err != nil || d.Status != endpoint.Failed {
			t.Errorf("tested: %+v, %v", d, err)
		}
	})
}
