package accounts

import (
	"net/netip"
	"testing"

	"github.com/cms-personal/personal/internal/password"
	"github.com/cms-personal/personal/shared/personal"
)

func TestHashSource_Addresses(t *testing.T) {
	for name, test := range map[string]struct {
		call personal.Call
		want password.Source
	}{
		"IPv4 is its address":             {call("192.0.2.1"), password.Source{Network: "192.0.2.1"}},
		"mapped IPv4 is the IPv4 address": {call("::ffff:192.0.2.1"), password.Source{Network: "192.0.2.1"}},
		"NAT64 is the IPv4 address":       {call("64:ff9b::192.0.2.1"), password.Source{Network: "192.0.2.1"}},
		"only 64:ff9b::/96 is NAT64":      {call("64:ff9b:1::192.0.2.1"), password.Source{Network: "64:ff9b:1::/48", Subnet: "64:ff9b:1::/64"}},
		"IPv6 is its /48 and its /64":     {call("2001:db8:1:2:3::4"), password.Source{Network: "2001:db8:1::/48", Subnet: "2001:db8:1:2::/64"}},
		"the zone does not count":         {call("fe80::1%eth0"), password.Source{Network: "fe80::/48", Subnet: "fe80::/64"}},
		"a shared address is marked":      {personal.Call{Address: netip.MustParseAddr("192.0.2.1"), Shared: true}, password.Source{Network: "192.0.2.1", Shared: true}},
		"an unknown address is shared":    {personal.Call{}, password.Source{Shared: true}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := hashSource(personal.WithCall(t.Context(), test.call)); got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

func call(address string) personal.Call { return personal.Call{Address: netip.MustParseAddr(address)} }
