package kafkatest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

// Several test binaries may use one cluster, one after another. The process that started it listens
// on a socket. The others use the socket to get the brokers' addresses, and to kill, pause and
// start brokers.

// SocketVariable is the environment variable with the path of a shared cluster's socket.
const SocketVariable = "KAFKATEST_SOCKET"

// controlTimeout bounds a request on the socket. Starting a broker doesn't wait until it is ready,
// and killing one takes only moments.
const controlTimeout = time.Minute

type brokerInfo struct {
	ID         int
	Dir        string
	ClientAddr string
}

// Serve serves processes that [Attach] to the cluster, until the listener is closed.
func (c *Cluster) Serve(l net.Listener) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /nodes", func(w http.ResponseWriter, _ *http.Request) {
		var brokers []brokerInfo
		for _, n := range c.nodes {
			brokers = append(brokers, brokerInfo{n.id, n.dir, n.clientAddr})
		}
		_ = json.NewEncoder(w).Encode(brokers) // the client has disconnected
	})
	mux.HandleFunc("POST /nodes/{id}/{what}", func(w http.ResponseWriter, req *http.Request) {
		if err := c.control(req.PathValue("id"), req.PathValue("what")); err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
		}
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: controlTimeout}
	return server.Serve(l)
}

func (c *Cluster) control(id, what string) error {
	i, err := strconv.Atoi(id)
	if err != nil || i < 1 || i > len(c.nodes) {
		return fmt.Errorf("there is no broker %q", id)
	}
	do, known := actions[what]
	if !known {
		return fmt.Errorf("unknown action %q", what)
	}
	return do(c.Node(i))
}

// Attach connects to a cluster that another process serves on a Unix socket. Close leaves its
// brokers running.
func Attach(ctx context.Context, socket string) (*Cluster, error) {
	r := &remote{http.Client{
		Timeout: controlTimeout,
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}},
	}}
	body, err := r.ask(ctx, http.MethodGet, "/nodes")
	if err != nil {
		return nil, err
	}
	var brokers []brokerInfo
	if err := json.Unmarshal(body, &brokers); err != nil {
		return nil, fmt.Errorf("decoding the description of the cluster at %s: %w", socket, err)
	}
	c := new(Cluster)
	for _, b := range brokers {
		c.nodes = append(c.nodes, &Node{
			id:         b.ID,
			dir:        b.Dir,
			clientAddr: b.ClientAddr,
			cluster:    c,
			remote:     r,
		})
	}
	return c, nil
}

// remote is a client of the process that started the brokers.
type remote struct{ client http.Client }

func (r *remote) do(n *Node, what string) error {
	ctx, cancel := context.WithTimeout(context.Background(), controlTimeout)
	defer cancel()
	_, err := r.ask(ctx, http.MethodPost, fmt.Sprintf("/nodes/%d/%s", n.id, what))
	return err
}

func (r *remote) ask(ctx context.Context, method, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://cluster"+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("sending a request to the process that started the cluster: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("the process that started the cluster: %s", body)
	}
	return body, err
}
