//go:build linux

package node

import (
	"net/netip"
	"os"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// ip4 is an IPv4 packet from 10.78.0.5 to 192.0.2.53.
func ip4(protocol byte, payload ...byte) []byte {
	header := make([]byte, 20)
	header[0], header[9] = 0x45, protocol
	copy(header[12:], []byte{10, 78, 0, 5})
	copy(header[16:], []byte{192, 0, 2, 53})
	return append(header, payload...)
}

// ip6 is an IPv6 packet from fd00:79::1.
func ip6(to string, protocol byte, payload ...byte) []byte {
	header := make([]byte, 40)
	header[0], header[6] = 0x60, protocol
	from, dest := netip.MustParseAddr("fd00:79::1").As16(), netip.MustParseAddr(to).As16()
	copy(header[8:], from[:])
	copy(header[24:], dest[:])
	return append(header, payload...)
}

// ports is how TCP and UDP begin, and eight bytes of header.
func ports(to uint16) []byte { return []byte{0xc0, 0, byte(to >> 8), byte(to), 0, 0, 0, 0} }

func question(t *testing.T, name string) []byte {
	t.Helper()
	message := dnsmessage.Message{Questions: []dnsmessage.Question{{
		Name: dnsmessage.MustNewName(name), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET,
	}}}
	data, err := message.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return append(ports(53), data...)
}

func TestPacketsAreRead(t *testing.T) {
	options := ip4(6, append(make([]byte, 4), ports(443)...)...)
	options[0] = 0x46 // six words of header
	for name, test := range map[string]struct {
		packet []byte
		want   string // empty: for no host
	}{
		"a connection":              {ip4(6, ports(443)...), "10.78.0.5 dialled tcp 192.0.2.53:443"},
		"one with IP options":       {options, "10.78.0.5 dialled tcp 192.0.2.53:443"},
		"one over IPv6":             {ip6("2001:db8::7", 6, ports(5000)...), "fd00:79::1 dialled tcp [2001:db8::7]:5000"},
		"a question":                {ip4(17, question(t, "registry-1.docker.io.")...), "10.78.0.5 asked for the name registry-1.docker.io."},
		"a question that is broken": {ip4(17, ports(53)...), "10.78.0.5 dialled udp 192.0.2.53:53"},
		"a ping":                    {ip4(1, 8, 0, 0, 0, 0, 0, 0, 0), "10.78.0.5 dialled 1 192.0.2.53:0"},
		"a fragment too short":      {ip4(6, 1, 2), "10.78.0.5 dialled 6 192.0.2.53:0"},
		"a kernel's announcement":   {ip6("ff02::2", 58, 133), ""},
		"a header that lies":        {append([]byte{0x4f}, make([]byte, 19)...), ""},
		"half a header":             {[]byte{0x45, 0}, ""},
		"nothing":                   {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := parsePacket(test.packet)
			if ok != (test.want != "") || ok && got.String() != test.want {
				t.Errorf("%v %s, want %s", ok, got, test.want)
			}
		})
	}
}

func TestWhatIsRecordedIsRead(t *testing.T) {
	s := &Site{dir: t.TempDir()}
	record, err := os.Create(s.path("dialled"))
	if err != nil {
		t.Fatal(err)
	}
	defer record.Close()
	if packets, err := s.Dialled(); err != nil || len(packets) > 0 {
		t.Errorf("nothing: %v, %v", packets, err)
	}
	if err := watch(strings.NewReader(string(ip4(6, ports(443)...))), record); err == nil {
		t.Error("the device ended without an error")
	}
	packets, err := s.Dialled()
	if err != nil || len(packets) != 1 || packets[0].Port != 443 || packets[0].To.String() != "192.0.2.53" {
		t.Errorf("one: %v, %v", packets, err)
	}
}
