// Command example is a shop that credits the payments that it receives:
//
//	PORT=8081 DATABASE=shop.db LUMENHOOK_SECRET_FILE=secret go run ./example
//
// With WORKER=off it only receives, and another process does the work.
package main

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	_ "modernc.org/sqlite"

	receiver "github.com/lumenhook/lumenhook/examples/receivers/go"
)

// If two watches match a payment, there are two events. The payment's id prevents crediting it
// twice.
const createCredits = `
CREATE TABLE IF NOT EXISTS credits (payment_id TEXT PRIMARY KEY, wallet TEXT, asset TEXT, stroops TEXT);
CREATE TABLE IF NOT EXISTS processed (event_id TEXT);`

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	secrets, err := receiver.SecretsFromFile(os.Getenv("LUMENHOOK_SECRET_FILE"))
	if err != nil {
		return fmt.Errorf("LUMENHOOK_SECRET_FILE must name the file that "+
			"lumenhook endpoints create --secret-out wrote: %w", err)
	}
	// FULL: an event that was answered with 200 survives a power loss.
	db, err := sql.Open("sqlite", "file:"+cmp.Or(os.Getenv("DATABASE"), "shop.db")+
		"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(5000)&_txlock=immediate")
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(1) // SQLite has one writer
	inbox, err := receiver.OpenInbox(ctx, db)
	if err != nil {
		return err
	}
	if _, err := db.ExecContext(ctx, createCredits); err != nil {
		return err
	}
	if os.Getenv("WORKER") != "off" {
		go func() { log.Fatal(inbox.Work(ctx, credit)) }()
	}
	mux := http.NewServeMux()
	mux.Handle("/webhooks", receiver.New(secrets, inbox))
	mux.HandleFunc("GET /processed", func(w http.ResponseWriter, r *http.Request) { processed(w, r, db) })
	server := http.Server{
		Handler:           mux,
		ReadTimeout:       10 * time.Second,
		ReadHeaderTimeout: 5 * time.Second,
		MaxHeaderBytes:    16 << 10,
	}
	address := net.JoinHostPort("127.0.0.1", cmp.Or(os.Getenv("PORT"), "8081"))
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	log.Println("listening on", listener.Addr())
	return server.Serve(listener)
}

// credit handles an event in this shop.
func credit(ctx context.Context, tx *sql.Tx, event receiver.Event) error {
	if event.Type == receiver.PaymentReceived {
		data, err := event.Payment()
		if err != nil {
			return err
		}
		if err := creditPayment(ctx, tx, data); err != nil {
			return err
		}
	}
	_, err := tx.ExecContext(ctx, "INSERT INTO processed VALUES (?)", event.ID)
	return err
}

func creditPayment(ctx context.Context, tx *sql.Tx, data receiver.PaymentData) error {
	if data.IsSample() {
		return nil // nobody paid
	}
	if _, err := data.Payment.Stroops(); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx,
		"INSERT INTO credits VALUES (?, ?, ?, ?) ON CONFLICT (payment_id) DO NOTHING",
		data.Payment.ID, data.Payment.To, data.Payment.Asset.Code, data.Payment.AmountStroops)
	return err
}

// processed shows what was done so far.
func processed(w http.ResponseWriter, r *http.Request, db *sql.DB) {
	answer := struct {
		Events  []string          `json:"events"`
		Credits map[string]string `json:"credits"` // stroops by the payment's id
	}{[]string{}, map[string]string{}}
	err := each(r.Context(), db, "SELECT event_id, '' FROM processed ORDER BY rowid",
		func(id, _ string) { answer.Events = append(answer.Events, id) })
	if err == nil {
		err = each(r.Context(), db, "SELECT payment_id, stroops FROM credits",
			func(id, stroops string) { answer.Credits[id] = stroops })
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // the client may be gone
}

func each(ctx context.Context, db *sql.DB, query string, take func(a, b string)) error {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var a, b string
		if err := rows.Scan(&a, &b); err != nil {
			return err
		}
		take(a, b)
	}
	return rows.Err()
}
