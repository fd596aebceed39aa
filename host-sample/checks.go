package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhttp"
)

func absolute(dir string) (string, error) {
	if dir == "" {
		return "", errors.New("it names no folder")
	}
	return filepath.Abs(dir)
}

// refuseTypedPassword keeps passwords out of process listings and shell
// histories.
func refuseTypedPassword(rawURL string, typed bool) error {
	if !typed {
		return nil
	}
	u, err := url.Parse(rawURL)
	if err != nil {
		return errors.New("it cannot be read as a URL")
	}
	if _, secret := u.User.Password(); secret || u.Query().Has("password") {
		return errors.New("a URL with a password is taken from the environment only: process listings and shell histories show flags")
	}
	return nil
}

// databaseURL returns the URL to hand over: the default, or with a file that
// does not depend on the working folder.
func databaseURL(rawURL, dataDir string) (string, error) {
	if rawURL == "" {
		return "sqlite://" + filepath.Join(dataDir, "personal.db"), nil
	}
	scheme, path, _ := strings.Cut(rawURL, "://")
	switch scheme {
	case "postgres", "postgresql":
		return rawURL, nil
	case "sqlite":
		if path == "" || filepath.IsAbs(path) || strings.HasPrefix(path, ":") {
			return rawURL, nil
		}
		abs, err := filepath.Abs(path)
		return "sqlite://" + abs, err
	}
	return "", errors.New("it must begin with sqlite:// or postgres://")
}

func readable(file string) error {
	if file == "" {
		return nil
	}
	_, err := os.ReadFile(file)
	return err
}

// checkAddr also guards against mails with tokens lying about, unasked, on a
// machine that serves others.
func checkAddr(addr string, mailsSettled bool) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return err
	}
	if !mailsSettled && !isLoopback(host) {
		return errors.New("off loopback mails are not kept in the data folder unless --allow-mail-capture asks for it; or give --smtp")
	}
	return nil
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// prefixes reads networks, and single addresses as networks of one.
func prefixes(texts []string) ([]netip.Prefix, error) {
	var list []netip.Prefix
	for _, text := range texts {
		text = strings.TrimSpace(text)
		if addr, err := netip.ParseAddr(text); err == nil {
			addr = addr.Unmap().WithZone("")
			list = append(list, netip.PrefixFrom(addr, addr.BitLen()))
			continue
		}
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("%q is neither an address nor a network such as 10.0.0.0/8", text)
		}
		list = append(list, p)
	}
	return list, tryShim(personalhttp.Options{TrustedProxies: list})
}

// tryShim asks the shim itself what it makes of an option.
func tryShim(o personalhttp.Options) error {
	_, err := personalhttp.New(struct{ personal.Service }{}, o)
	return err
}

func notNegative(d time.Duration) error {
	if d < 0 {
		return errors.New("it must not be negative")
	}
	return nil
}

func positive(d time.Duration) error {
	if d <= 0 {
		return errors.New("it must be longer than 0")
	}
	return nil
}

// hostNames refuses what no request's Host can be equal to.
func hostNames(names []string) error {
	for _, name := range names {
		if name == "" || strings.ContainsAny(name, ":/[]* ") {
			return fmt.Errorf("%q is no host name: leave scheme, port and path out", name)
		}
	}
	return nil
}
