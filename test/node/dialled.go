//go:build linux

package node

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"

	"golang.org/x/net/dns/dnsmessage"
)

// A Packet is one that was meant for another host and did not get there.
type Packet struct {
	Protocol string // tcp, udp, or the number as IANA has it
	From, To netip.Addr
	Port     uint16 `json:",omitempty"` // that it was for
	Name     string `json:",omitempty"` // of the host that a name server was asked for
}

func (p Packet) String() string {
	if p.Name != "" {
		return fmt.Sprintf("%s asked for the name %s", p.From, p.Name)
	}
	return fmt.Sprintf("%s dialled %s %s", p.From, p.Protocol, netip.AddrPortFrom(p.To, p.Port))
}

// Dialled is every packet for another host so far, of the node, its pods and what
// runs by [Site.Command], in order. A site that keeps to itself has none.
func (s *Site) Dialled() ([]Packet, error) {
	file, err := os.Open(s.path("dialled"))
	if err != nil {
		return nil, fmt.Errorf("reading what was dialled: %w", err)
	}
	defer file.Close()
	var packets []Packet
	for lines := bufio.NewReader(file); ; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) { // a line without its end is being written
			return packets, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading what was dialled: %w", err)
		}
		var p Packet
		if err := json.Unmarshal(line, &p); err != nil {
			return nil, fmt.Errorf("reading what was dialled: %w", err)
		}
		packets = append(packets, p)
	}
}

// watch records every packet that comes out of the device, until reading fails.
func watch(device io.Reader, record io.Writer) error {
	data := make([]byte, 1<<16)
	for {
		n, err := device.Read(data)
		if err != nil {
			return err
		}
		p, ok := parsePacket(data[:n])
		if !ok {
			continue
		}
		if err := json.NewEncoder(record).Encode(p); err != nil {
			return err
		}
	}
}

// parsePacket reads an IP packet. What is no packet, or is for all on a link (as
// a kernel announces itself), is for no host.
func parsePacket(data []byte) (p Packet, ok bool) {
	var protocol byte
	var payload []byte
	switch {
	case len(data) >= 20 && data[0]>>4 == 4:
		header := int(data[0]&0xf) * 4
		if header < 20 || header > len(data) {
			return p, false
		}
		protocol, payload = data[9], data[header:]
		p.From, p.To = netip.AddrFrom4([4]byte(data[12:16])), netip.AddrFrom4([4]byte(data[16:20]))
	case len(data) >= 40 && data[0]>>4 == 6:
		protocol, payload = data[6], data[40:]
		p.From, p.To = netip.AddrFrom16([16]byte(data[8:24])), netip.AddrFrom16([16]byte(data[24:40]))
	default:
		return p, false
	}
	p.readPayload(protocol, payload)
	return p, !p.To.IsMulticast()
}

// readPayload reads what is in the packet: RFC 9293 and RFC 768 begin alike.
func (p *Packet) readPayload(protocol byte, payload []byte) {
	const tcp, udp, dns = 6, 17, 53
	p.Protocol = fmt.Sprint(protocol)
	if protocol != tcp && protocol != udp || len(payload) < 8 {
		return
	}
	p.Port = binary.BigEndian.Uint16(payload[2:4])
	p.Protocol = map[byte]string{tcp: "tcp", udp: "udp"}[protocol]
	if protocol != udp || p.Port != dns {
		return
	}
	var message dnsmessage.Parser
	if _, err := message.Start(payload[8:]); err != nil {
		return
	}
	if question, err := message.Question(); err == nil {
		p.Name = question.Name.String()
	}
}
