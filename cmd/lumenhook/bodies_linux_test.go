package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/internal/apicli"
	"github.com/lumenhook/lumenhook/internal/testkit"
)

// TestLargeBodiesStayInTheirMemory keeps 256 requests in progress for each of 16 accounts, with
// bodies of 256 KiB whose last byte never arrives. The service must stay within a cgroup of 1 GiB,
// reject what it has no room for, and still answer other requests.
func TestLargeBodiesStayInTheirMemory(t *testing.T) {
	const limitBytes, accounts, each, bodyBytes = 1 << 30, 16, 256, 256 << 10
	s := &testService{t: t, dir: t.TempDir()}
	group, err := newMemoryGroup(t, limitBytes)
	if err != nil { // the process's own peak is still checked
		t.Logf("the service runs without a cgroup, as none can be made here: %v", err)
	} else {
		s.group = filepath.Join(group.dir, group.procs)
	}
	t.Setenv("GOMEMLIMIT", strconv.Itoa(limitBytes*3/8)) // as run sets it in a container of this size
	s.start("--no-demo")
	at, err := url.Parse(s.file.APIURL)
	if err != nil {
		t.Fatal(err)
	}
	part := append([]byte(`{"url":"https://127.0.0.1:8443/nobody"`), bytes.Repeat([]byte(" "),
		bodyBytes-40)...)
	var attackers sync.WaitGroup
	var begun, refused atomic.Int64
	var keys [accounts]apicli.MadeKey
	for a := range keys {
		s.cli(&keys[a], "accounts", "create", "--email", fmt.Sprintf("a%d@example.com", a))
	}
	for a, account := range keys {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(a+1))}}
		for range each {
			attackers.Go(func() {
				conn, err := dialer.DialContext(t.Context(), "tcp", at.Host)
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close()
				_ = conn.SetDeadline(time.Now().Add(testkit.Patience(t)))
				begun.Add(1)
				_, _ = fmt.Fprintf(conn, "POST /v1/endpoints HTTP/1.1\r\nHost: localhost\r\n"+
					"Content-Type: application/json\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n",
					account.Key, bodyBytes)
				go func() { _, _ = conn.Write(part) }()
				response, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil {
					return // the server closed the connection
				}
				defer response.Body.Close()
				_, _ = io.Copy(io.Discard, response.Body)
				switch response.StatusCode {
				case http.StatusTooManyRequests, http.StatusServiceUnavailable:
					refused.Add(1)
				case http.StatusRequestTimeout:
				default:
					t.Errorf("a body that does not end was answered %s", response.Status)
				}
			})
		}
	}
	s.eventually("a request is answered during the attack", func() bool {
		body := `{"url":"https://127.0.0.1:8443/nobody"}`
		status, _, _ := s.tryCall("POST", "/v1/endpoints", []byte(body))
		return status == http.StatusCreated && refused.Load() > 0
	})
	attackers.Wait()
	t.Logf("%d requests, %d refused", begun.Load(), refused.Load())
	if status, answer, err := s.tryCall("GET", "/v1/endpoints", nil); status != http.StatusOK ||
		!strings.Contains(string(answer), "nobody") {
		t.Errorf("after that a list is answered %d, %v: %s", status, err, answer)
	}
	s.stayedWithin(limitBytes, group)
	s.interrupt()
}
