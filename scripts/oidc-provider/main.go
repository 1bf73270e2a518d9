// An OpenID provider for tests: the example server of zitadel/oidc, with a public client that may use the device flow, a client of the web with a
// secret, users with groups, and ID tokens that live for LIFETIME. It listens on a free port of the loopback and prints its issuer.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// The groups of each user. Passwords are "password". The device flow of the example needs ids that are the names.
var groups = map[string][]string{
	"ann": {"staff", "platform-admins"},
	"bob": {"staff"},
	"eve": append(many(200), "staff", "platform-admins"),
}

// many makes ID tokens long.
func many(count int) []string {
	names := make([]string, count)
	for n := range names {
		names[n] = fmt.Sprintf("department-%04d-of-the-company", n)
	}
	return names
}

type users struct{}

func (users) GetUserByID(id string) *storage.User {
	if _, known := groups[id]; !known {
		return nil
	}
	return &storage.User{ID: id, Username: id, Password: "password", Email: id + "@example.com", EmailVerified: true}
}

func (u users) GetUserByUsername(name string) *storage.User { return u.GetUserByID(name) }

func (users) ExampleClientID() string { return "service" }

type provider struct {
	*storage.Storage
	lifetime time.Duration
}

func (p provider) GetClientByClientID(ctx context.Context, id string) (op.Client, error) {
	found, err := p.Storage.GetClientByClientID(ctx, id)
	if err != nil {
		return nil, err
	}
	return client{found, p.lifetime}, nil
}

// SetUserinfoFromRequest adds the groups to an ID token.
func (p provider) SetUserinfoFromRequest(ctx context.Context, info *oidc.UserInfo, request op.IDTokenRequest, scopes []string) error {
	info.AppendClaims("groups", groups[request.GetSubject()])
	return p.Storage.SetUserinfoFromRequest(ctx, info, request, scopes)
}

type client struct {
	op.Client
	lifetime time.Duration
}

func (c client) GrantTypes() []oidc.GrantType {
	return append(c.Client.GrantTypes(), oidc.GrantTypeDeviceCode)
}

func (c client) IDTokenLifetime() time.Duration { return c.lifetime }

func (c client) IDTokenUserinfoClaimsAssertion() bool { return true }

func main() {
	lifetime, err := time.ParseDuration(os.Getenv("LIFETIME"))
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	issuer := fmt.Sprintf("http://%s/", listener.Addr())
	storage.RegisterClients(
		storage.NativeClient("fleet", "http://localhost/callback", "http://localhost/ui/login/callback"),
		storage.WebClient("fleet-web", "s3cret: +/%", "https://fleet.example.com/ui/login/callback"),
	)
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	router := exampleop.SetupServer(issuer, provider{storage.NewStorage(users{}), lifetime}, quiet, false)
	fmt.Println(issuer)
	log.Fatal(http.Serve(listener, router))
}
