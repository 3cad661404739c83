package writer

import (
	"slices"
	"unsafe"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
)

// table returns the block's rows for a table. Column names are those of schemas/clickhouse. Topics
// are the columns' default values.
func (b *block) table(name string) table {
	switch name {
	case "payments":
		return tableOf(name, b.payments, paymentColumns)
	case "balance_moves":
		return tableOf(name, b.moves, moveColumns)
	case "endpoints":
		return tableOf(name, b.endpoints, endpointColumns)
	case "watches":
		return tableOf(name, b.watches, watchColumns)
	case "attempts":
		return tableOf(name, b.attempts, attemptColumns)
	case countsTable:
		return tableOf(name, b.attempts, countColumns)
	case logTable:
		return tableOf(name, b.leaves, leafColumns)
	case "endpoint_changes":
		return tableOf(name, b.changes, changeColumns)
	case factsTable:
		return tableOf(name, b.facts, keptColumns)
	case deliveryFactsTable:
		return tableOf(name, b.ofDelivery, deliveryFactColumns)
	case "events":
		return tableOf(name, b.events, eventColumns)
	case "deliveries":
		return tableOf(name, b.deliveries, deliveryColumns)
	}
	panic("projections: there is no table " + name)
}

func tableOf[B any](name string, l rows[B], columns func([]row[B]) []column) table {
	return table{name, len(l), func(yield func([]column) bool) {
		for piece := range slices.Chunk(l, pieceRows) {
			if !yield(columns(piece)) {
				return
			}
		}
	}}
}

func placeColumns[B any](rows []row[B]) []column {
	return []column{
		{"partition", each(rows, func(r *row[B]) int32 { return r.partition })},
		{"offset", each(rows, func(r *row[B]) int64 { return r.offset })},
	}
}

func factColumns[B any](rows []row[B]) []column {
	return append(placeColumns(rows),
		column{"version", each(rows, func(r *row[B]) uint64 { return r.version })},
		column{"endpoint_id", each(rows, func(r *row[B]) string { return r.endpointID })})
}

func eventColumns(rows []row[domain.DeliveryCreated]) []column {
	type r = row[domain.DeliveryCreated]
	payments := each(rows, func(r *r) paid {
		if r.body.Event.Type == domain.TestPing {
			return paid{} // a sample payload without a payment
		}
		return readPaid(r.body.Event.Body)
	})
	return append(factColumns(rows),
		column{"event_id", each(rows, func(r *r) string { return r.body.Event.ID })},
		column{"type", each(rows, func(r *r) string { return string(r.body.Event.Type) })},
		column{"account_id", each(rows, func(r *r) string { return r.body.AccountID })},
		column{"watch_id", each(rows, func(r *r) string { return r.body.WatchID })},
		column{"wallet_address", each(rows, func(r *r) string { return r.body.WalletAddress })},
		column{"sequence", each(rows, func(r *r) uint64 { return r.body.Sequence })},
		column{"moves", each(rows, func(r *r) uint32 { return uint32(r.body.Moved.Moves) })},
		column{"created_at", each(rows, func(r *r) int64 { return r.body.Event.CreatedAtMillis })},
		column{"body", each(rows, func(r *r) string { return text(r.body.Event.Body) })},
		column{"payment_id", each(payments, func(p *paid) string { return p.paymentID })},
		column{"tx_hash", each(payments, func(p *paid) string { return p.txHash })},
		column{"from_address", each(payments, func(p *paid) string { return p.from })},
		column{"memo", each(payments, func(p *paid) string { return p.memo })},
		column{"asset_code", each(payments, func(p *paid) string { return p.assetCode })},
		column{"asset_issuer", each(payments, func(p *paid) string { return p.assetIssuer })},
		column{"amount_stroops", each(payments, func(p *paid) int64 { return p.amountStroops })},
		column{"ledger_closed_at", optional(payments, func(p *paid) int64 { return p.closedAtSeconds })},
	)
}

func attemptColumns(rows []row[domain.AttemptMade]) []column {
	type r = row[domain.AttemptMade]
	return append(factColumns(rows),
		column{"event_id", each(rows, func(r *r) string { return r.body.EventID })},
		column{"number", each(rows, func(r *r) uint32 { return uint32(r.body.Number) })},
		column{"run", each(rows, func(r *r) uint32 { return uint32(r.body.Run) })},
		column{"event_type", each(rows, func(r *r) string { return string(r.body.EventType) })},
		column{"sent_at", each(rows, func(r *r) int64 { return r.body.Result.SentAtMillis })},
		column{
			"duration_ms",
			each(rows, func(r *r) uint32 { return uint32(r.body.Result.DurationMillis) }),
		},
		column{
			"status_code",
			optional(rows, func(r *r) uint16 { return uint16(r.body.Result.StatusCode) }),
		},
		column{"error", each(rows, func(r *r) string { return string(r.body.Result.Error) })},
		column{"error_detail", each(rows, func(r *r) string { return r.body.Result.ErrorDetail })},
		column{"response_body", each(rows, func(r *r) string {
			return text(r.body.Result.ResponseBody)
		})},
		column{"state", each(rows, func(r *r) string { return string(r.body.State) })},
		column{"next_attempt_at", optional(rows, func(r *r) int64 { return r.body.NextAttemptAtMillis })},
		column{"log_from", each(rows, func(r *r) uint64 { return r.body.Entry.From })},
		column{"leaf", each(rows, func(r *r) uint64 { return r.body.Entry.Number })},
		column{"body_sha256", each(rows, func(r *r) string { return text(r.body.Entry.BodySHA256) })},
		column{
			"signature_sha256",
			each(rows, func(r *r) string { return text(r.body.Entry.SignatureSHA256) }),
		},
	)
}

// countColumns contains each attempt twice: once in a short span and once in a long one.
func countColumns(rows []row[domain.AttemptMade]) []column {
	type r = row[domain.AttemptMade]
	columns := []column{
		{"partition", slices.Repeat(each(rows, func(r *r) int32 { return r.partition }), 2)},
		{"offset", slices.Repeat(each(rows, func(r *r) int64 { return r.offset }), 2)},
		{"endpoint_id", slices.Repeat(each(rows, func(r *r) string { return r.endpointID }), 2)},
		{"fact_version", slices.Repeat(each(rows, func(r *r) uint64 { return r.version }), 2)},
		{"fact_state", slices.Repeat(each(rows, func(r *r) string { return string(r.body.State) }), 2)},
		{"fact_sent", slices.Repeat(each(rows,
			func(r *r) int64 { return r.body.Result.SentAtMillis }), 2)},
	}
	return append(columns, column{"seconds", append(slices.Repeat([]uint32{ShortSpan}, len(rows)),
		slices.Repeat([]uint32{LongSpan}, len(rows))...)})
}

func leafColumns(rows []row[leaf]) []column {
	type r = row[leaf]
	return append(factColumns(rows),
		column{"log_from", each(rows, func(r *r) uint64 { return r.body.From })},
		column{"leaf", each(rows, func(r *r) uint64 { return r.body.Number })},
		column{"hashes", each(rows, func(r *r) string { return text(r.body.Hashes) })},
		column{"sent_at", each(rows, func(r *r) int64 { return r.body.sentAtMillis })},
	)
}

func deliveryColumns(rows []row[delivery]) []column {
	type r = row[delivery]
	return append(factColumns(rows),
		column{"event_id", each(rows, func(r *r) string { return r.body.eventID })},
		column{"account_id", each(rows, func(r *r) string { return r.body.accountID })},
		column{"sequence", each(rows, func(r *r) uint64 { return r.body.sequence })},
		column{"moves", each(rows, func(r *r) uint32 { return uint32(r.body.moves) })},
		column{"moved_to", each(rows, func(r *r) string { return r.body.movedTo })},
		column{"created_at", each(rows, func(r *r) int64 { return r.body.createdAtMillis })},
		column{"updated_at", each(rows, func(r *r) int64 { return r.atMillis })},
		column{"attempts", each(rows, func(r *r) uint32 { return uint32(r.body.attempts) })},
		column{"run", each(rows, func(r *r) uint32 { return uint32(r.body.run) })},
		column{"fact_sent", each(rows, func(r *r) int64 { return r.body.sentAtMillis })},
		column{"fact_state", each(rows, func(r *r) string { return string(r.body.state) })},
		column{"fact_due", each(rows, func(r *r) int64 { return r.body.nextAttemptAtMillis })},
	)
}

func changeColumns(rows []row[endpointChange]) []column {
	type r = row[endpointChange]
	return append(factColumns(rows),
		column{"change", each(rows, func(r *r) string { return r.body.change })},
		column{"reason", each(rows, func(r *r) string { return string(r.body.reason) })},
		column{"changed_at", each(rows, func(r *r) int64 { return r.atMillis })},
	)
}

func keptColumns(rows []row[schemas.Message]) []column {
	type r = row[schemas.Message]
	return append(placeColumns(rows),
		column{"aggregate_id", each(rows, func(r *r) string { return r.endpointID })},
		column{"version", each(rows, func(r *r) uint64 { return r.version })},
		column{"fact", each(rows, func(r *r) string { return r.body.Type })},
		column{"form", each(rows, func(r *r) string { return r.body.Version })},
		column{"happened_at", each(rows, func(r *r) int64 { return r.atMillis })},
		column{"value", each(rows, func(r *r) string { return text(r.body.Value) })},
	)
}

func deliveryFactColumns(rows []row[deliveryFact]) []column {
	type r = row[deliveryFact]
	return append(factColumns(rows),
		column{"event_id", each(rows, func(r *r) string { return r.body.eventID })},
		column{"fact", each(rows, func(r *r) string { return r.body.Type })},
		column{"form", each(rows, func(r *r) string { return r.body.Version })},
		column{"happened_at", each(rows, func(r *r) int64 { return r.atMillis })},
		column{"value", each(rows, func(r *r) string { return text(r.body.Value) })},
	)
}

func paymentColumns(rows []row[schemas.PaymentObserved]) []column {
	type r = row[schemas.PaymentObserved]
	return append(placeColumns(rows),
		column{"payment_id", each(rows, func(r *r) string { return r.body.Payment.ID })},
		column{"tx_hash", each(rows, func(r *r) string { return r.body.Payment.TxHash })},
		column{"ledger", each(rows, func(r *r) uint32 { return r.body.Payment.Ledger })},
		column{
			"ledger_closed_at",
			each(rows, func(r *r) int64 { return r.body.Payment.ClosedAtMillis / 1000 }),
		},
		column{"operation", each(rows, func(r *r) string { return r.body.Payment.Operation })},
		column{"from_address", each(rows, func(r *r) string { return r.body.Payment.From })},
		column{"to_address", each(rows, func(r *r) string { return r.body.Payment.To })},
		column{"to_muxed_id", optional(rows, func(r *r) string { return r.body.Payment.ToMuxedID })},
		column{"memo", each(rows, func(r *r) *string { return memoText(r.body.Payment.Memo) })},
		column{"memo_type", each(rows, func(r *r) string { return string(r.body.Payment.Memo.Type) })},
		column{"asset_code", each(rows, func(r *r) string { return r.body.Payment.Asset.Code })},
		column{"asset_issuer", each(rows, func(r *r) string { return r.body.Payment.Asset.Issuer })},
		column{"amount_stroops", each(rows, func(r *r) int64 { return r.body.Payment.AmountStroops })},
		column{"observed_at", each(rows, func(r *r) int64 { return r.body.ObservedAtMillis })},
	)
}

func moveColumns(rows []row[schemas.BalanceMoved]) []column {
	type r = row[schemas.BalanceMoved]
	return append(placeColumns(rows),
		column{"move_id", each(rows, func(r *r) string { return r.body.Move.ID })},
		column{"wallet_address", each(rows, func(r *r) string { return r.body.Move.Wallet })},
		column{"balance", each(rows, func(r *r) string { return r.body.Move.BalanceName() })},
		column{"kind", each(rows, func(r *r) string { return string(r.body.Move.Kind) })},
		column{"ledger", each(rows, func(r *r) uint32 { return r.body.Move.Ledger })},
		column{
			"ledger_closed_at",
			each(rows, func(r *r) int64 { return r.body.Move.ClosedAtMillis / 1000 }),
		},
		column{"place", each(rows, func(r *r) uint64 { return r.body.Move.Place })},
		column{"tx_hash", each(rows, func(r *r) string { return r.body.Move.TxHash })},
		column{"operation", each(rows, func(r *r) uint32 { return uint32(r.body.Move.Operation) })},
		column{"before_stroops", each(rows, func(r *r) int64 { return r.body.Move.BeforeStroops })},
		column{"after_stroops", each(rows, func(r *r) int64 { return r.body.Move.AfterStroops })},
		column{"payment_ids", each(rows, func(r *r) []string { return r.body.Move.PaymentIDs })},
		column{"observed_at", each(rows, func(r *r) int64 { return r.body.ObservedAtMillis })},
	)
}

// memoText returns the memo as shown in events. An empty text is still a memo.
func memoText(m domain.Memo) *string {
	if m.Type == domain.MemoNone {
		return nil
	}
	text := m.String()
	return &text
}

func endpointColumns(rows []row[endpointRow]) []column {
	type r = row[endpointRow]
	return append(rowColumns(rows),
		column{"endpoint_id", each(rows, func(r *r) string { return r.body.ID })},
		column{"account_id", each(rows, func(r *r) string { return r.body.AccountID })},
		column{"url", each(rows, func(r *r) string { return r.body.URL })},
		column{"description", each(rows, func(r *r) string { return r.body.Description })},
		column{"status", each(rows, func(r *r) string { return string(r.body.Status) })},
		column{"disabled_reason", each(rows, func(r *r) string { return string(r.body.DisabledReason) })},
		column{"disabled_at", optional(rows, func(r *r) int64 { return r.body.DisabledAtMillis })},
		column{
			"rate_limit_per_second",
			each(rows, func(r *r) uint32 { return uint32(r.body.RateLimitPerSecond) }),
		},
		column{"signatures", each(rows, func(r *r) []string { return r.body.Signatures.Names() })},
		column{"ordering", each(rows, func(r *r) string { return string(r.body.Ordering) })},
		column{
			"consecutive_failures",
			each(rows, func(r *r) uint32 { return uint32(r.body.ConsecutiveFailures) }),
		},
		column{"created_at", each(rows, func(r *r) int64 { return r.body.CreatedAtMillis })},
		column{"updated_at", each(rows, func(r *r) int64 { return r.body.UpdatedAtMillis })},
		column{"deleted", each(rows, func(r *r) bool { return r.body.gone || r.body.Deleted() })},
		column{"version", each(rows, func(r *r) uint64 { return r.body.Version })},
	)
}

func watchColumns(rows []row[watchRow]) []column {
	type r = row[watchRow]
	return append(rowColumns(rows),
		column{"watch_id", each(rows, func(r *r) string { return r.body.ID })},
		column{"account_id", each(rows, func(r *r) string { return r.body.AccountID })},
		column{"endpoint_id", each(rows, func(r *r) string { return r.body.EndpointID })},
		column{"wallet_address", each(rows, func(r *r) string { return r.body.WalletAddress })},
		column{"label", each(rows, func(r *r) string { return r.body.Label })},
		column{"assets", each(rows, func(r *r) []string { return assetNames(r.body.Rules.Assets) })},
		column{"amount_kind", each(rows, func(r *r) string { return string(r.body.Rules.Amount.Kind) })},
		column{"memo_kind", each(rows, func(r *r) string { return string(r.body.Rules.Memo.Kind) })},
		column{
			"sender_allowlist",
			each(rows, func(r *r) []string { return r.body.Rules.SenderAllowlist }),
		},
		column{"event_types", each(rows, func(r *r) []string { return eventTypes(r.body.EventTypes) })},
		column{"created_at", each(rows, func(r *r) int64 { return r.body.CreatedAtMillis })},
		column{"updated_at", each(rows, func(r *r) int64 { return r.body.UpdatedAtMillis })},
		column{"deleted", each(rows, func(r *r) bool { return r.body.gone || r.body.Deleted() })},
		column{"version", each(rows, func(r *r) uint64 { return r.body.Version })},
	)
}

// rowColumns is placeColumns for a table topic. The offset is unsigned because it is the version in
// a ReplacingMergeTree: it orders the rows of a key.
func rowColumns[B any](rows []row[B]) []column {
	return []column{
		{"partition", each(rows, func(r *row[B]) int32 { return r.partition })},
		{"offset", each(rows, func(r *row[B]) uint64 { return uint64(r.offset) })},
	}
}

func assetNames(assets []domain.Asset) []string {
	names := make([]string, len(assets))
	for i, a := range assets {
		names[i] = a.String()
	}
	return names
}

func eventTypes(types []domain.EventType) []string {
	names := make([]string, len(types))
	for i, t := range types {
		names[i] = string(t)
	}
	return names
}

// text converts b to a string without copying it, as the client would for each value. This is safe
// because records are never modified after they were read.
func text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

type row[B any] struct {
	body       B
	endpointID string
	atMillis   int64
	version    uint64
	partition  int32
	offset     int64
}

type rows[B any] []row[B]

// Rows are sent in pieces, so that the client's buffers only grow to the size of a piece, and the
// server processes one piece while the next is sent. The server still writes all pieces as one
// part.
const pieceRows = 4096

func (l *rows[B]) add(r row[B]) { *l = append(*l, r) }

func (l *rows[B]) reset() {
	clear(*l) // release what the rows refer to
	*l = (*l)[:0]
}
