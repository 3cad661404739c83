package schemas_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/lumenhook/lumenhook/domain"
)

const vectorsFile = "vectors/signature.json"

// signatureVectors contains the published test vectors (specification, "Signature").
type signatureVectors struct {
	Vectors []struct {
		Name      string
		Secrets   []domain.Secret
		Timestamp string
		Body      string
		Signature string
	}
	Checks []struct {
		Name      string
		Secret    domain.Secret
		Signature string
		Timestamp string
		Body      string
		Clock     int64
		Accepted  bool
	}
}

func readVectors(t *testing.T) signatureVectors {
	t.Helper()
	text, err := os.ReadFile(vectorsFile)
	if err != nil {
		t.Fatal(err)
	}
	var v signatureVectors
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	beyondASCII, rotation := false, false
	for _, each := range v.Vectors {
		beyondASCII = beyondASCII || utf8.RuneCountInString(each.Body) < len(each.Body)
		rotation = rotation || len(each.Secrets) > 2
	}
	if !beyondASCII || !rotation || len(v.Checks) < 10 {
		t.Fatalf("the vector lacks text beyond ASCII (%v), a rotation (%v) or checks (%d)", beyondASCII,
			rotation, len(v.Checks))
	}
	return v
}

func TestTheSignatureVectorInGo(t *testing.T) {
	v := readVectors(t)
	for _, each := range v.Vectors {
		seconds, err := strconv.ParseInt(each.Timestamp, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		got := domain.SignatureHeader(each.Secrets, seconds, []byte(each.Body))
		if got != each.Signature {
			t.Errorf("%s: %s", each.Name, got)
		}
	}
	for _, c := range v.Checks {
		err := domain.Verify(c.Signature, c.Timestamp, []byte(c.Body), []domain.Secret{c.Secret}, c.Clock)
		if (err == nil) != c.Accepted {
			t.Errorf("%s: %v", c.Name, err)
		}
	}
}

func TestTheSignatureVectorInNode(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), tool(t,
		"node"), "vectors/verify.mjs", vectorsFile).CombinedOutput()
	if err != nil {
		t.Fatalf("node: %v\n%s", err, out)
	}
	if v := readVectors(t); !strings.HasPrefix(string(out),
		fmt.Sprintf("%d vectors, %d checks, 0 wrong", len(v.Vectors), len(v.Checks))) {
		t.Errorf("node says %q", out)
	}
}

func TestTheSignatureVectorInOpenSSL(t *testing.T) {
	openssl := tool(t, "openssl")
	for _, each := range readVectors(t).Vectors {
		var values []string
		for _, secret := range each.Secrets {
			c := exec.CommandContext(t.Context(), openssl, "dgst", "-sha256", "-mac", "HMAC", "-macopt",
				"key:"+string(secret), "-r")
			c.Stdin = strings.NewReader(each.Timestamp + "." + each.Body)
			out, err := c.Output()
			if err != nil {
				t.Fatalf("openssl: %v", err)
			}
			hex, _, _ := strings.Cut(string(out), " ")
			values = append(values, "v1="+hex)
		}
		if want := strings.Split(each.Signature, ","); !slices.Equal(values, want) {
			t.Errorf("%s: %v, not %v", each.Name, values, want)
		}
	}
}

// tool finds an independent program. The test fails without it, because a signature that only our
// own code has checked proves nothing.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%v: install it; the signature is checked with code that is not ours", err)
	}
	return path
}
