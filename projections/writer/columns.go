package writer

import (
	"slices"
	"unsafe"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
)

// Column names are those of schemas/clickhouse. Topics are the columns' default values.

func tableOf[B any](l rows[B], columns func([]row[B]) []column) table {
	return table{rows: len(l), pieces: func(yield func([]column) bool) {
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
	type r = domain.DeliveryCreated
	payments := of(rows, func(r *r) paid {
		if r.Event.Type == domain.TestPing {
			return paid{} // a sample payload without a payment
		}
		return readPaid(r.Event.Body)
	})
	return append(factColumns(rows),
		column{"event_id", of(rows, func(r *r) string { return r.Event.ID })},
		column{"type", of(rows, func(r *r) string { return string(r.Event.Type) })},
		column{"account_id", of(rows, func(r *r) string { return r.AccountID })},
		column{"watch_id", of(rows, func(r *r) string { return r.WatchID })},
		column{"wallet_address", of(rows, func(r *r) string { return r.WalletAddress })},
		column{"sequence", of(rows, func(r *r) uint64 { return r.Sequence })},
		column{"moves", of(rows, func(r *r) uint32 { return uint32(r.Moved.Moves) })},
		column{"created_at", of(rows, func(r *r) int64 { return r.Event.CreatedAtMillis })},
		column{"body", of(rows, func(r *r) string { return text(r.Event.Body) })},
		column{"payment_id", each(payments, func(p *paid) string { return p.paymentID })},
		column{"tx_hash", each(payments, func(p *paid) string { return p.txHash })},
		column{"from_address", each(payments, func(p *paid) string { return p.from })},
		column{"memo", each(payments, func(p *paid) string { return p.memo })},
		column{"asset_code", each(payments, func(p *paid) string { return p.assetCode })},
		column{"asset_issuer", each(payments, func(p *paid) string { return p.assetIssuer })},
		column{"amount_stroops", each(payments, func(p *paid) int64 { return p.amountStroops })},
		column{"ledger_closed_at", optional(
			each(payments, func(p *paid) int64 { return p.closedAtSeconds }))},
	)
}

func attemptColumns(rows []row[domain.AttemptMade]) []column {
	type r = domain.AttemptMade
	return append(factColumns(rows),
		column{"event_id", of(rows, func(r *r) string { return r.EventID })},
		column{"number", of(rows, func(r *r) uint32 { return uint32(r.Number) })},
		column{"run", of(rows, func(r *r) uint32 { return uint32(r.Run) })},
		column{"event_type", of(rows, func(r *r) string { return string(r.EventType) })},
		column{"sent_at", of(rows, func(r *r) int64 { return r.Result.SentAtMillis })},
		column{"duration_ms", of(rows, func(r *r) uint32 { return uint32(r.Result.DurationMillis) })},
		column{"status_code", optional(
			of(rows, func(r *r) uint16 { return uint16(r.Result.StatusCode) }))},
		column{"error", of(rows, func(r *r) string { return string(r.Result.Error) })},
		column{"error_detail", of(rows, func(r *r) string { return r.Result.ErrorDetail })},
		column{"response_body", of(rows, func(r *r) string { return text(r.Result.ResponseBody) })},
		column{"state", of(rows, func(r *r) string { return string(r.State) })},
		column{"next_attempt_at", optional(of(rows, func(r *r) int64 { return r.NextAttemptAtMillis }))},
		column{"log_from", of(rows, func(r *r) uint64 { return r.Entry.From })},
		column{"leaf", of(rows, func(r *r) uint64 { return r.Entry.Number })},
		column{"body_sha256", of(rows, func(r *r) string { return text(r.Entry.BodySHA256) })},
		column{"signature_sha256", of(rows, func(r *r) string { return text(r.Entry.SignatureSHA256) })},
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
	type r = leaf
	return append(factColumns(rows),
		column{"log_from", of(rows, func(r *r) uint64 { return r.From })},
		column{"leaf", of(rows, func(r *r) uint64 { return r.Number })},
		column{"hashes", of(rows, func(r *r) string { return text(r.Hashes) })},
		column{"sent_at", of(rows, func(r *r) int64 { return r.sentAtMillis })},
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
	type r = schemas.PaymentObserved
	return append(placeColumns(rows),
		column{"payment_id", of(rows, func(r *r) string { return r.Payment.ID })},
		column{"tx_hash", of(rows, func(r *r) string { return r.Payment.TxHash })},
		column{"ledger", of(rows, func(r *r) uint32 { return r.Payment.Ledger })},
		column{"ledger_closed_at", of(rows, func(r *r) int64 { return r.Payment.ClosedAtMillis / 1000 })},
		column{"operation", of(rows, func(r *r) string { return r.Payment.Operation })},
		column{"from_address", of(rows, func(r *r) string { return r.Payment.From })},
		column{"to_address", of(rows, func(r *r) string { return r.Payment.To })},
		column{"to_muxed_id", optional(of(rows, func(r *r) string { return r.Payment.ToMuxedID }))},
		column{"memo", of(rows, func(r *r) *string { return memoText(r.Payment.Memo) })},
		column{"memo_type", of(rows, func(r *r) string { return string(r.Payment.Memo.Type) })},
		column{"asset_code", of(rows, func(r *r) string { return r.Payment.Asset.Code })},
		column{"asset_issuer", of(rows, func(r *r) string { return r.Payment.Asset.Issuer })},
		column{"amount_stroops", of(rows, func(r *r) int64 { return r.Payment.AmountStroops })},
		column{"observed_at", of(rows, func(r *r) int64 { return r.ObservedAtMillis })},
	)
}

func moveColumns(rows []row[schemas.BalanceMoved]) []column {
	type r = schemas.BalanceMoved
	return append(placeColumns(rows),
		column{"move_id", of(rows, func(r *r) string { return r.Move.ID })},
		column{"wallet_address", of(rows, func(r *r) string { return r.Move.Wallet })},
		column{"balance", of(rows, func(r *r) string { return r.Move.BalanceName() })},
		column{"kind", of(rows, func(r *r) string { return string(r.Move.Kind) })},
		column{"ledger", of(rows, func(r *r) uint32 { return r.Move.Ledger })},
		column{"ledger_closed_at", of(rows, func(r *r) int64 { return r.Move.ClosedAtMillis / 1000 })},
		column{"place", of(rows, func(r *r) uint64 { return r.Move.Place })},
		column{"tx_hash", of(rows, func(r *r) string { return r.Move.TxHash })},
		column{"operation", of(rows, func(r *r) uint32 { return uint32(r.Move.Operation) })},
		column{"before_stroops", of(rows, func(r *r) int64 { return r.Move.BeforeStroops })},
		column{"after_stroops", of(rows, func(r *r) int64 { return r.Move.AfterStroops })},
		column{"payment_ids", of(rows, func(r *r) []string { return r.Move.PaymentIDs })},
		column{"observed_at", of(rows, func(r *r) int64 { return r.ObservedAtMillis })},
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
	type r = endpointRow
	return append(rowColumns(rows),
		column{"endpoint_id", of(rows, func(r *r) string { return r.ID })},
		column{"account_id", of(rows, func(r *r) string { return r.AccountID })},
		column{"url", of(rows, func(r *r) string { return r.URL })},
		column{"description", of(rows, func(r *r) string { return r.Description })},
		column{"status", of(rows, func(r *r) string { return string(r.Status) })},
		column{"disabled_reason", of(rows, func(r *r) string { return string(r.DisabledReason) })},
		column{"disabled_at", optional(of(rows, func(r *r) int64 { return r.DisabledAtMillis }))},
		column{"rate_limit_per_second", of(rows,
			func(r *r) uint32 { return uint32(r.RateLimitPerSecond) })},
		column{"signatures", of(rows, func(r *r) []string { return r.Signatures.Names() })},
		column{"ordering", of(rows, func(r *r) string { return string(r.Ordering) })},
		column{"consecutive_failures", of(rows,
			func(r *r) uint32 { return uint32(r.ConsecutiveFailures) })},
		column{"created_at", of(rows, func(r *r) int64 { return r.CreatedAtMillis })},
		column{"updated_at", of(rows, func(r *r) int64 { return r.UpdatedAtMillis })},
		column{"deleted", of(rows, func(r *r) bool { return r.gone || r.Deleted() })},
		column{"version", of(rows, func(r *r) uint64 { return r.Version })},
	)
}

func watchColumns(rows []row[watchRow]) []column {
	type r = watchRow
	return append(rowColumns(rows),
		column{"watch_id", of(rows, func(r *r) string { return r.ID })},
		column{"account_id", of(rows, func(r *r) string { return r.AccountID })},
		column{"endpoint_id", of(rows, func(r *r) string { return r.EndpointID })},
		column{"wallet_address", of(rows, func(r *r) string { return r.WalletAddress })},
		column{"label", of(rows, func(r *r) string { return r.Label })},
		column{"assets", of(rows, func(r *r) []string { return assetNames(r.Rules.Assets) })},
		column{"amount_kind", of(rows, func(r *r) string { return string(r.Rules.Amount.Kind) })},
		column{"memo_kind", of(rows, func(r *r) string { return string(r.Rules.Memo.Kind) })},
		column{"sender_allowlist", of(rows, func(r *r) []string { return r.Rules.SenderAllowlist })},
		column{"event_types", of(rows, func(r *r) []string { return eventTypes(r.EventTypes) })},
		column{"created_at", of(rows, func(r *r) int64 { return r.CreatedAtMillis })},
		column{"updated_at", of(rows, func(r *r) int64 { return r.UpdatedAtMillis })},
		column{"deleted", of(rows, func(r *r) bool { return r.gone || r.Deleted() })},
		column{"version", of(rows, func(r *r) uint64 { return r.Version })},
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
