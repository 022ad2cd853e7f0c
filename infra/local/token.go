package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/app"
	"github.com/lanekeeper/lanekeeper/shared/app/door"
	"github.com/lanekeeper/lanekeeper/shared/app/wire"
	"github.com/lanekeeper/lanekeeper/shared/auth"
)

// token prints the admin token for a shell; on a terminal it also prints how to use it. With a
// person's e-mail address it prints a link that signs the person in.
func token(flags *flag.FlagSet) action {
	email := flags.String("user", "", "print a link that signs the person with this `EMAIL` in, once, within ten minutes")
	at := flags.String("url", "", "the `URL` of the pages, such as https://agents.example.com; left out, at ADDR")
	return func(ctx context.Context, c *console, args []string) error {
		if len(args) > 0 {
			return misused("token takes no arguments but --user and --url")
		}
		cfg, err := c.load()
		if err != nil {
			return err
		}
		origin := urlOf(cfg.Addr)
		if *at != "" {
			u, err := url.Parse(*at)
			if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "" {
				return misused("--url takes a URL such as https://agents.example.com")
			}
			origin = strings.TrimSuffix(*at, "/")
		}
		t, err := adminToken(cfg)
		if errors.Is(err, fs.ErrNotExist) && (*email == "" || cfg.JWTSecret == "") {
			return &hinted{err, "`lanekeeper dev` makes one when it starts; ADMIN_TOKEN sets one."}
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if *email != "" {
			return c.userLink(ctx, cfg, t, origin, *email)
		}
		return c.answer(struct {
			Token  string `json:"token"`
			Header string `json:"header"`
			URL    string `json:"url"`
			Link   string `json:"link"`
		}{t, "Authorization: Bearer " + t, origin, signInLink(origin, t)}, func(w io.Writer) {
			fmt.Fprintln(w, t)
			if isTerminal(w) {
				fmt.Fprintf(w, "\n  export LANEKEEPER_TOKEN=$(%s token)\n  curl -s -H \"Authorization: Bearer $LANEKEEPER_TOKEN\" "+
					"%s/api/v1/lanes\n\nIn a browser:\n\n  %s\n",
					c.name, origin, signInLink(origin, t))
			}
		})
	}
}

// userLink prints a sign-in link for a person. The link works on servers that use the same database
// and the same key of secrets, because links are signed with a key that is stored there.
func (c *console) userLink(ctx context.Context, cfg app.Config, adminToken, origin, email string) error {
	d, err := connect(ctx, cfg)
	if err != nil {
		return err
	}
	defer d.Close()
	agent, err := wire.New(app.NewCore(d, cfg, c.logger(c.err, cfg, cfg.LogLevel), awsConfig), instance())
	if err != nil {
		return err
	}
	in, err := door.New(agent, adminToken, false)
	if err != nil {
		return err
	}
	minted, err := in.Sessions.MintLink(ctx, email)
	if wrong, ok := errors.AsType[*auth.FieldError](err); ok {
		return misused("--user: %s", wrong)
	}
	if errors.Is(err, auth.ErrForbidden) {
		return &hinted{fmt.Errorf("nobody has the e-mail address %s, or they may not sign in", clean(email)), fmt.Sprintf(
			"`%s migrate --owner EMAIL` makes the first owner, `%s members create '{\"email\":\"…\",\"role\":\"MEMBER\"}'` "+
				"further members.", c.name, c.name)}
	}
	if err != nil {
		return err
	}
	link := signInLink(origin, minted.Reveal())
	return c.answer(struct {
		Link string `json:"link"`
	}{link}, func(w io.Writer) {
		fmt.Fprintln(w, link)
		if isTerminal(w) {
			fmt.Fprintln(w, "\nIt signs in once, within ten minutes.")
		}
	})
}

// signInLink returns the URL of the page that exchanges a token for a session. The token is in the
// fragment, which browsers never send.
func signInLink(origin, token string) string {
	return origin + "/sign-in#token=" + url.QueryEscape(token)
}
