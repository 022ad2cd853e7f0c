// Command shots takes pictures of the Engine Room: of a running Lanekeeper, or else of a demo that it
// starts. It is called by `make screenshots`, at the root of the repository.
//
//	shots -url http://127.0.0.1:8080 -token "$(lanekeeper token)" -to pictures -sizes 1440,390 -themes light,dark overview traces
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/lanekeeper/lanekeeper/infra/rig/browser"
	"github.com/lanekeeper/lanekeeper/infra/rig/engineroom"
	"github.com/lanekeeper/lanekeeper/shared/workspace"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "shots:", err)
		os.Exit(1)
	}
}

func run() (err error) {
	url := flag.String("url", "", "where Lanekeeper runs; empty: a demo is started")
	token := flag.String("token", os.Getenv("LANEKEEPER_TOKEN"), "the admin's token")
	to := flag.String("to", ".", "folder of the pictures")
	sizes := flag.String("sizes", "1440,390", "widths in pixels")
	themes := flag.String("themes", "light,dark", "themes")
	in := flag.String("workspace", string(workspace.Demo), "the workspace to show; empty: the first one")
	do := flag.String("do", "", "JavaScript to run before each picture")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	if *url == "" {
		product, err := engineroom.StartDemo(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = product.Close() }() // only its pictures matter
		*url, *token = product.URL, product.Token
	}
	if err := os.MkdirAll(*to, 0o755); err != nil {
		return err
	}
	b, err := browser.Start(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	p, err := b.Open(ctx, browser.Desktop)
	if err != nil {
		return err
	}
	link := *url + "/sign-in#token=" + *token
	if *in != "" {
		link = strings.Replace(link, "#", "#workspace="+*in+"&", 1)
	}
	if err := p.Goto(ctx, link); err != nil {
		return err
	}
	if err := p.Until(ctx, `location.pathname.endsWith("/engine/overview")`); err != nil {
		return err
	}
	for _, size := range strings.Split(*sizes, ",") {
		width, err := strconv.Atoi(size)
		if err != nil {
			return err
		}
		o := browser.Options{Width: width, Height: 1080}
		if width < 600 {
			o = browser.Phone
		}
		if err := p.Resize(ctx, o); err != nil {
			return err
		}
		for _, theme := range strings.Split(*themes, ",") {
			if err := p.Prefer(ctx, map[string]string{"prefers-color-scheme": theme}); err != nil {
				return err
			}
			for _, page := range flag.Args() {
				if err := p.Goto(ctx, *url+"/engine/"+page); err != nil {
					return err
				}
				if err := p.Until(ctx, engineroom.Settled); err != nil {
					fmt.Fprintln(os.Stderr, page, err)
				}
				if *do != "" {
					if err := p.Eval(ctx, *do, nil); err != nil {
						return err
					}
				}
				name := strings.NewReplacer("/", "-", "?", "-", "=", "-", "&", "-").Replace(page)
				if err := p.Screenshot(ctx, filepath.Join(*to, name+"-"+theme+"-"+size+".png")); err != nil {
					return err
				}
			}
		}
	}
	for _, c := range p.Complaints() {
		fmt.Fprintln(os.Stderr, c)
	}
	return nil
}
