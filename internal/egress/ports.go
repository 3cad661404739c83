package egress

import (
	"fmt"
	"strconv"
	"strings"
)

// maxPortRanges bounds what ParsePorts accepts; a list longer than this is a
// mistake, not a policy.
const maxPortRanges = 64

// PortSet is a set of TCP ports. The zero value is empty and permits none.
type PortSet struct {
	ranges []portRange
}

type portRange struct{ first, last uint16 }

// DefaultPorts are the specification's: 443 and 8443.
func DefaultPorts() PortSet {
	return PortSet{ranges: []portRange{{443, 443}, {8443, 8443}}}
}

// ParsePorts parses a comma-separated list of ports and ranges, such as
// "443,8443,9000-9100". An error names the wrong part.
func ParsePorts(list string) (PortSet, error) {
	if strings.TrimSpace(list) == "" {
		return PortSet{}, fmt.Errorf("no ports given: write a list such as 443,8443,9000-9100")
	}
	parts := strings.Split(list, ",")
	if len(parts) > maxPortRanges {
		return PortSet{}, fmt.Errorf("%d ports and ranges given, at most %d are accepted: join "+
			"neighbours into ranges", len(parts), maxPortRanges)
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
		return portRange{}, fmt.Errorf("port range %q runs backwards: write it as %d-%d", part, last,
			first)
	}
	return portRange{first, last}, nil
}

func parsePort(part, digits string) (uint16, error) {
	if digits == "" {
		return 0, fmt.Errorf("port list part %q is empty or unfinished: write a port (443) or a range "+
			"(9000-9100)", part)
	}
	n, err := strconv.ParseUint(digits, 10, 16)
	if err != nil || n == 0 || digits[0] == '+' {
		return 0, fmt.Errorf("port list part %q: %q is not a port, ports are 1 to 65535", part, digits)
	}
	return uint16(n), nil
}

// Contains reports whether the set permits the port.
func (s PortSet) Contains(port uint16) bool {
	for _, r := range s.ranges {
		if r.first <= port && port <= r.last {
			return true
		}
	}
	return false
}

// Empty reports whether the set permits no port at all.
func (s PortSet) Empty() bool { return len(s.ranges) == 0 }

// String formats the set as ParsePorts reads it.
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
