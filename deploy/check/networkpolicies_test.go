package check

import (
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chartutil"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

func reaches(t *testing.T, p *networkingv1.NetworkPolicy, address string, port int) bool {
	t.Helper()
	addr := netip.MustParseAddr(address)
	within := func(prefix string) bool { return netip.MustParsePrefix(prefix).Contains(addr) }
	for _, rule := range p.Spec.Egress {
		if !slices.ContainsFunc(rule.Ports, func(p networkingv1.NetworkPolicyPort) bool {
			return p.Port.IntValue() == port
		}) {
			continue
		}
		if len(rule.To) == 0 {
			return true
		}
		for _, peer := range rule.To {
			if b := peer.IPBlock; b != nil && within(b.CIDR) && !slices.ContainsFunc(b.Except, within) {
				return true
			}
		}
	}
	return false
}

// Each pod in the chart must have exactly one policy, which enforces the values: engines reach no
// private address, named peers are the only ones, and name servers are those of the cluster.
func TestNetworkPoliciesLimitWhatTheySay(t *testing.T) {
	given, err := chartutil.ReadValuesFile(filepath.Join(chartDir, "ci", "everything-values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	objects, err := render(given)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range workloads(objects) {
		selecting := 0
		for _, o := range objects {
			p, is := o.(*networkingv1.NetworkPolicy)
			if !is {
				continue
			}
			s, err := metav1.LabelSelectorAsSelector(&p.Spec.PodSelector)
			if err != nil {
				t.Fatal(err)
			}
			if s.Matches(labels.Set(w.labels)) {
				selecting++
				if len(p.Spec.PolicyTypes) != 2 {
					t.Errorf("%s limits only %v", p.Name, p.Spec.PolicyTypes)
				}
			}
		}
		if selecting != 1 {
			t.Errorf("%s has %d policies, not one", w.name, selecting)
		}
	}
	for _, c := range []struct {
		role, address string
		port          int
		reached       bool
	}{
		{"engine", "93.184.216.34", 443, true},
		{"engine", "2606:2800:220:1::1", 443, true},
		{"engine", "10.0.0.1", 443, false},
		{"engine", "127.0.0.1", 443, false},
		{"engine", "169.254.169.254", 443, false},
		{"engine", "168.63.129.16", 443, false},
		{"engine", "fd00::1", 443, false},
		{"engine", "2002:a00:1::1", 443, false},
		{"engine", "64:ff9b::a00:1", 443, false},
		{"engine", "93.184.216.34", 9092, false}, // kafkaTo names a namespace
		{"engine", "93.184.216.34", 9440, false},
		{"engine", "93.184.216.34", 53, false},
		{"engine", "169.254.20.10", 53, true},
		{"mailer", "192.0.2.25", 587, true},
		{"mailer", "192.0.2.26", 587, false},
		{"mailer", "93.184.216.34", 443, false},
		{"projector", "93.184.216.34", 9440, false},
		{"projector", "93.184.216.34", 443, false},
		{"follower", "93.184.216.34", 443, true},
		{"topics", "93.184.216.34", 443, false},
		{"topics", "169.254.20.10", 53, true},
	} {
		p := named[networkingv1.NetworkPolicy](objects, "shop-lumenhook-"+c.role)
		if p == nil {
			t.Fatalf("there is no policy of %s", c.role)
		}
		if got := reaches(t, p, c.address, c.port); got != c.reached {
			t.Errorf("%s reaches %s, port %d: %t", c.role, c.address, c.port, got)
		}
	}
	defaults, err := render(values{})
	if err != nil {
		t.Fatal(err)
	}
	engine := named[networkingv1.NetworkPolicy](defaults, "shop-lumenhook-engine")
	if reaches(t, engine, "93.184.216.34", 4318) {
		t.Error("an engine without traces reaches their port")
	}
}

// The private ranges in the chart must be those that the program refuses to connect to.
func TestTheChartsPrivateRangesAreTheProgramsOwn(t *testing.T) {
	source, err := os.ReadFile(filepath.Join(root, "internal", "egress", "policy.go"))
	if err != nil {
		t.Fatal(err)
	}
	defaults, err := chartutil.ReadValuesFile(filepath.Join(chartDir, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	policy := defaults["networkPolicy"].(values)
	for key, name := range map[string]string{
		"privateRanges": "forbidden4", "privateRanges6": "forbidden6",
	} {
		_, after, _ := strings.Cut(string(source), name+" = mustPrefixes(")
		list, _, _ := strings.Cut(after, ")")
		var want []string
		for _, found := range regexp.MustCompile(`"([0-9a-f:.]+/\d+)"`).FindAllStringSubmatch(list, -1) {
			want = append(want, found[1])
		}
		var got []string
		for _, one := range policy[key].([]any) {
			got = append(got, one.(string))
		}
		if len(want) == 0 || !slices.Equal(got, want) {
			t.Errorf("%s is %q, the program's is %q", key, got, want)
		}
	}
}
