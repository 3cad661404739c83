package egress

import (
	"fmt"
	"strconv"
	"strings"
)

const maxPortRanges = 64

// PortSet is a set of TCP ports. The zero value is the empty set.
type PortSet struct {
	ranges []portRange
}

type portRange struct{ first, last uint16 }

// DefaultPorts returns the ports of the specification: 443 and 8443.
func DefaultPorts() PortSet {
	return PortSet{ranges: []portRange{{443, 443}, {8443, 8443}}}
}

// ParsePorts parses a list such as "443,8443,9000-9100". Errors contain the invalid part.
func ParsePorts(list string) (PortSet, error) {
	if strings.TrimSpace(list) == "" {
		return PortSet{}, fmt.Errorf("no ports given: write a list such as 443,8443,9000-9100")
	}
	parts := strings.Split(list, ",")
	if len(parts) > maxPortRanges {
		return PortSet{}, fmt.Errorf("%d ports and ranges given, at most %d are accepted: merge "+
			"adjacent ports into ranges", len(parts), maxPortRanges)
	}
	var set PortSet
	for _, part := range parts {
		r, err := parsePortRange(strings.TrimSpace(part))
		if err != nil {
			return PortSet{}, err
		}
		set.ranges = append(set.ranges, r)
	}
	return set, nil
}

func parsePortRange(part string) (portRange, error) {
	low, high, isRange := strings.Cut(part, "-")
	if !isRange {
		high = low
	}
	first, err := parsePort(part, strings.TrimSpace(low))
	if err != nil {
		return portRange{}, err
	}
	last, err := parsePort(part, strings.TrimSpace(high))
	if err != nil {
		return portRange{}, err
	}
	if first > last {
		return portRange{}, fmt.Errorf("port range %q is reversed: write it as %d-%d", part, last, first)
	}
	return portRange{first, last}, nil
}

func parsePort(part, digits string) (uint16, error) {
	if digits == "" {
		return 0, fmt.Errorf("port list entry %q is empty or incomplete: write a port (443) or a range "+
			"(9000-9100)", part)
	}
	n, err := strconv.ParseUint(digits, 10, 16)
	if err != nil || n == 0 || digits[0] == '+' {
		return 0, fmt.Errorf("port list entry %q: %q is not a port (1 to 65535)", part, digits)
	}
	return uint16(n), nil
}

// Contains reports whether port is in the set.
func (s PortSet) Contains(port uint16) bool {
	for _, r := range s.ranges {
		if r.first <= port && port <= r.last {
			return true
		}
	}
	return false
}

// Empty reports whether the set is empty.
func (s PortSet) Empty() bool { return len(s.ranges) == 0 }

// String returns the set in the format of ParsePorts.
func (s PortSet) String() string {
	parts := make([]string, len(s.ranges))
	for i, r := range s.ranges {
		parts[i] = strconv.Itoa(int(r.first))
		if r.first != r.last {
			parts[i] += "-" + strconv.Itoa(int(r.last))
		}
	}
	return strings.Join(parts, ",")
}
