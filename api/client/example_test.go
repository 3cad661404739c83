package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"strings"
	"time"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/domain"
)

// From an empty account to a payment: a receiver, an endpoint, a watch, and the webhook for a
// payment to the wallet, with its signature checked.
func Example() {
	ctx := context.Background()
	c, err := client.New(baseURL, apiKey, nil)
	if err != nil {
		log.Fatal(err)
	}

	var secret string
	events := make(chan []byte, 10)
	server, err := listen(func(w http.ResponseWriter, r *http.Request) {
		body, err := verified(w, r, domain.Secret(secret))
		if err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		events <- body // detect repeats by the body's id, as in domain.Verify's example
	})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()

	endpoint, err := c.CreateEndpoint(ctx, client.EndpointCreate{URL: server.URL})
	if err != nil {
		log.Fatal(err)
	}
	secret = endpoint.Secret // shown only once

	wallet, err := newWallet(ctx)
	if err != nil {
		log.Fatal(err)
	}
	_, err = c.CreateWatch(ctx, client.WatchCreate{
		EndpointID:    endpoint.ID,
		WalletAddress: wallet,
		Assets:        []client.Asset{{Code: "XLM"}},
		MemoRule:      &client.MemoRule{Kind: "present"},
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := pay(ctx, wallet, "12.5", "order-42"); err != nil {
		log.Fatal(err)
	}

	var event struct {
		Type string
		Data struct {
			Payment struct{ Amount, Memo string }
		}
	}
	if err := json.Unmarshal(<-events, &event); err != nil {
		log.Fatal(err)
	}
	fmt.Println(event.Type, event.Data.Payment.Amount, event.Data.Payment.Memo)
	// Output:
	// payment.received 12.5000000 order-42
}

// verified reads a webhook and checks the signature of the raw body before anything parses it. The
// example of domain.Verify is a complete receiver, which also compares the id in the header with
// that in the body.
func verified(w http.ResponseWriter, r *http.Request, secret domain.Secret) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	if err != nil {
		return nil, err
	}
	signature := strings.Join(r.Header.Values("Webhook-Signature"), ",")
	timestamp := r.Header.Get("Webhook-Timestamp")
	secrets := []domain.Secret{secret}
	return body, domain.Verify(signature, timestamp, body, secrets, time.Now().Unix())
}

// A test.ping is sent at once, and the result contains the receiver's response.
func ExampleClient_TestEndpoint() {
	ctx := context.Background()
	c, err := client.New(baseURL, apiKey, nil)
	if err != nil {
		log.Fatal(err)
	}
	server, err := listen(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusTeapot)
	})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	endpoint, err := c.CreateEndpoint(ctx, client.EndpointCreate{URL: server.URL})
	if err != nil {
		log.Fatal(err)
	}
	result, err := c.TestEndpoint(ctx, endpoint.ID, client.Test{})
	if err != nil {
		log.Fatal(err)
	}
	switch a := result.Attempt; {
	case a.Error != nil:
		fmt.Println("no answer:", *a.Error)
	default:
		fmt.Println("the receiver answered", *a.StatusCode)
	}
	// Output:
	// the receiver answered 418
}

// For 24 hours after a rotation, webhooks are signed with both secrets.
func ExampleClient_RotateSecret() {
	ctx := context.Background()
	c, err := client.New(baseURL, apiKey, nil)
	if err != nil {
		log.Fatal(err)
	}
	created, err := c.CreateEndpoint(ctx, client.EndpointCreate{URL: "https://127.0.0.1:8443/1"})
	if err != nil {
		log.Fatal(err)
	}
	rotated, err := c.RotateSecret(ctx, created.ID)
	if err != nil {
		log.Fatal(err)
	}
	read, err := c.GetEndpoint(ctx, created.ID)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("another secret:", rotated.Secret != created.Secret)
	fmt.Printf("shown later: %q\n", read.Secret)
	// Output:
	// another secret: true
	// shown later: ""
}

// Lists are read page by page, newest first.
func ExampleClient_ListWatches() {
	ctx := context.Background()
	c, err := client.New(baseURL, apiKey, nil)
	if err != nil {
		log.Fatal(err)
	}
	endpoint, err := c.CreateEndpoint(ctx, client.EndpointCreate{URL: "https://127.0.0.1:8443/2"})
	if err != nil {
		log.Fatal(err)
	}
	wallet, err := newWallet(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, label := range []string{"first shop", "second shop", "third shop"} {
		watch, err := c.CreateWatch(ctx, client.WatchCreate{
			EndpointID:    endpoint.ID,
			WalletAddress: wallet,
			Label:         label,
			Assets:        []client.Asset{{Code: "XLM"}},
		})
		if err != nil {
			log.Fatal(err)
		}
		if err := listed(ctx, c, watch.ID); err != nil {
			log.Fatal(err)
		}
	}

	filter, page := client.WatchFilter{EndpointID: endpoint.ID}, client.Page{Limit: 2}
	for {
		list, err := c.ListWatches(ctx, filter, page)
		if err != nil {
			log.Fatal(err)
		}
		for _, w := range list.Data {
			fmt.Println(w.Label)
		}
		if list.NextCursor == nil {
			break
		}
		page.Cursor = *list.NextCursor
	}
	// Output:
	// third shop
	// second shop
	// first shop
}

// A refusal names all faults of the request at once.
func ExampleProblem() {
	ctx := context.Background()
	c, err := client.New(baseURL, apiKey, nil)
	if err != nil {
		log.Fatal(err)
	}
	_, err = c.CreateWatch(ctx, client.WatchCreate{WalletAddress: "S…", EndpointID: "mine"})
	var problem *client.Problem
	if !errors.As(err, &problem) {
		log.Fatal("the API did not answer: ", err)
	}
	fmt.Println(problem.Status, problem.Code)
	for _, fault := range problem.Errors {
		fmt.Println(fault.Pointer, fault.Code)
	}
	// Output:
	// 422 SECRET_KEY_REFUSED
	// /walletAddress SECRET_KEY_REFUSED
	// /endpointId INVALID_VALUE
	// /assets REQUIRED
}

// A write that is repeated with the same key takes effect once, even if another program repeats it.
// The key is the caller's own name for the write, which a restarted program still knows.
func ExampleIdempotencyKey() {
	ctx := context.Background()
	c, err := client.New(baseURL, apiKey, nil)
	if err != nil {
		log.Fatal(err)
	}
	shop := client.EndpointCreate{URL: "https://127.0.0.1:8443/3"}
	first, err := c.CreateEndpoint(ctx, shop, client.IdempotencyKey("shop-7"))
	if err != nil {
		log.Fatal(err)
	}
	again, err := c.CreateEndpoint(ctx, shop, client.IdempotencyKey("shop-7"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("one endpoint:", first.ID == again.ID)
	// Output:
	// one endpoint: true
}

// A change is refused if another client has changed the object since it was read.
func ExampleIfMatch() {
	ctx := context.Background()
	c, err := client.New(baseURL, apiKey, nil)
	if err != nil {
		log.Fatal(err)
	}
	mine, err := c.CreateEndpoint(ctx, client.EndpointCreate{URL: "https://127.0.0.1:8443/4"})
	if err != nil {
		log.Fatal(err)
	}
	theirs := client.Patch{"description": "theirs"}
	if _, err := c.UpdateEndpoint(ctx, mine.ID, theirs); err != nil {
		log.Fatal(err)
	}
	_, err = c.UpdateEndpoint(ctx, mine.ID, client.Patch{"description": "mine"},
		client.IfMatch(mine.ETag))
	var problem *client.Problem
	if errors.As(err, &problem) {
		fmt.Println(problem.Status, problem.Code)
	}
	// Output:
	// 412 PRECONDITION_FAILED
}
