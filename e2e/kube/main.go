// One program for the parts of the test that are Go packages: etcd, the Kubernetes API server, its controller manager, and
// the place that charts and artifacts come from. Each is a process of its own, started by a subcommand.
package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/google/go-containerregistry/pkg/registry"
	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

const usage = `usage:
  kube key FILE
  kube etcd DIR CLIENT-ADDRESS PEER-ADDRESS
  kube apiserver FLAGS...
  kube controller-manager FLAGS...
  kube charts DIR ADDRESS`

func main() {
	if len(os.Args) < 2 {
		fail(usage)
	}
	part, arguments := os.Args[1], os.Args[2:]
	os.Args = os.Args[1:] // the parts read their own flags
	switch {
	case part == "key" && len(arguments) == 1:
		if err := key(arguments[0]); err != nil {
			fail(err)
		}
	case part == "etcd" && len(arguments) == 3:
		fail(etcd(arguments[0], arguments[1], arguments[2]))
	case part == "apiserver":
		os.Exit(cli.Run(apiserver.NewAPIServerCommand()))
	case part == "controller-manager":
		os.Exit(cli.Run(controllermanager.NewControllerManagerCommand()))
	case part == "charts" && len(arguments) == 2:
		fail(charts(arguments[0], arguments[1]))
	default:
		fail(usage)
	}
}

// key writes what the API server signs the tokens of service accounts with.
func key(file string) error {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		return err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
	return os.WriteFile(file, text, 0o600)
}

// etcd keeps nothing that outlives the test, so it does not wait for the disk.
func etcd(dir, client, peer string) error {
	config := embed.NewConfig()
	config.Dir = dir
	config.UnsafeNoFsync = true
	config.LogLevel = "warn"
	clients := []url.URL{{Scheme: "http", Host: client}}
	peers := []url.URL{{Scheme: "http", Host: peer}}
	config.ListenClientUrls, config.AdvertiseClientUrls = clients, clients
	config.ListenPeerUrls, config.AdvertisePeerUrls = peers, peers
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	server, err := embed.StartEtcd(config)
	if err != nil {
		return err
	}
	return <-server.Err()
}

// charts is an OCI registry under /v2/ and a plain chart repository, the files of a folder, under everything else.
func charts(dir, address string) error {
	artifacts, files := registry.New(), http.FileServer(http.Dir(dir))
	return http.ListenAndServe(address, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/v2/") {
			artifacts.ServeHTTP(w, r)
			return
		}
		files.ServeHTTP(w, r)
	}))
}

func fail(reason any) {
	fmt.Fprintln(os.Stderr, reason)
	os.Exit(1)
}
