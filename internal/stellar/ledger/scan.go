package ledger

import (
	"encoding/binary"

	"github.com/stellar/go-stellar-sdk/xdr"
)

// Most ledgers have only plain forms, and are read here in one pass. The SDK skips parts that
// payments do not need. Anything else makes the scanner bad, without a reason: then the SDK reads
// the ledger, and decides what it is.

// Bounds that the protocol sets.
const (
	operationsOfTransactionMax = 100
	memoTextSizeBytesMax       = 28
	symbolSizeBytesMax         = 32
	pathMax                    = 5
)

// Sizes of the smallest of their kind, which bound how many there can be.
const (
	envelopeSizeBytesMin   = 4 + 32 + 4 + 8 + 4 + 4 + 4 + 4 + 4
	processingSizeBytesMin = hashSizeBytes + 8 + 4 + 4 + 4 + 4 + 4
	listed                 = 4 // anything in a list
)

// scanner steps through XDR of plain forms. When it meets anything else, or the end, it becomes bad
// and stays so. Its results are then invalid.
type scanner struct {
	raw []byte
	at  int
	bad bool
}

// take returns the next bytes; nil at the end.
func (s *scanner) take(sizeBytes int) []byte {
	if s.bad || len(s.raw)-s.at < sizeBytes {
		s.bad = true
		return nil
	}
	s.at += sizeBytes
	return s.raw[s.at-sizeBytes : s.at : s.at]
}

func (s *scanner) uint32() uint32 {
	if b := s.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (s *scanner) uint64() uint64 {
	if b := s.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// must asks for a number: the form that is plain.
func (s *scanner) must(want uint32) {
	if s.uint32() != want {
		s.bad = true
	}
}

// option reads whether something optional is there.
func (s *scanner) option() bool {
	there := s.uint32()
	if there > 1 {
		s.bad = true
	}
	return there == 1 && !s.bad
}

// count reads a number of elements; 0 if there cannot be that many.
func (s *scanner) count(sizeBytesMin int) int {
	n := int64(s.uint32())
	if s.bad || n > int64(len(s.raw)-s.at)/int64(sizeBytesMin) {
		s.bad = true
		return 0
	}
	return int(n)
}

// opaque reads bytes of variable length, and their padding.
func (s *scanner) opaque(sizeBytesMax uint32) []byte {
	n := s.uint32()
	if n > sizeBytesMax {
		s.bad = true
	}
	padded := s.take(int(n+3) &^ 3)
	if s.bad {
		return nil
	}
	for _, p := range padded[n:] {
		if p != 0 {
			s.bad = true
		}
	}
	return padded[:n:n]
}

// known is a type that the SDK can skip.
type known interface {
	~[]byte
	Raw() ([]byte, error)
}

// over steps over something as the SDK does, and gives it.
func over[V known](s *scanner) []byte {
	if s.bad {
		return nil
	}
	raw, err := V(s.raw[s.at:]).Raw()
	if err != nil {
		s.bad = true
		return nil
	}
	return s.take(len(raw))
}

// empty steps over an empty list or the first of several forms, which holds nothing.
func (s *scanner) empty() bool {
	if s.bad || len(s.raw)-s.at < 4 || binary.BigEndian.Uint32(s.raw[s.at:]) != 0 {
		return false
	}
	s.at += 4
	return true
}

// envelope is a transaction as it was submitted.
type envelope struct {
	view xdr.TransactionEnvelopeView
	// The hashed part, after the network and the kind; for the oldest form, the part after its kind
	// of account.
	signed []byte
	hash   xdr.Hash // once it was computed
}

// scan parses a ledger that has only plain forms. ok is false for every other one, without a
// reason.
func scan(raw []byte) (parts located, envelopes []envelope, ok bool) {
	s := &scanner{raw: raw}
	version := s.uint32()
	if version > 2 {
		return located{}, nil, false
	}
	if version > 0 && s.option() { // the extension of the ledger, or none
		s.must(0)
		s.take(8)
	}
	parts.generalized = version > 0
	parts.header = over[xdr.LedgerHeaderHistoryEntryView](s)
	from := s.at
	if version == 0 {
		s.take(hashSizeBytes)
		envelopes = s.envelopes(nil)
	} else {
		envelopes = s.phases()
	}
	parts.set = s.raw[from:s.at]
	parts.transactions = s.processed(version)
	switch version {
	case 0:
		over[xdr.LedgerCloseMetaV0UpgradesProcessingView](s)
		over[xdr.LedgerCloseMetaV0ScpInfoView](s)
	case 1:
		over[xdr.LedgerCloseMetaV1UpgradesProcessingView](s)
		over[xdr.LedgerCloseMetaV1ScpInfoView](s)
		s.take(8)
		over[xdr.LedgerCloseMetaV1EvictedKeysView](s)
		over[xdr.LedgerCloseMetaV1UnusedView](s)
	case 2:
		over[xdr.LedgerCloseMetaV2UpgradesProcessingView](s)
		over[xdr.LedgerCloseMetaV2ScpInfoView](s)
		s.take(8)
		over[xdr.LedgerCloseMetaV2EvictedKeysView](s)
	}
	return parts, envelopes, !s.bad && s.at == len(raw)
}

// phases reads a transaction set of the form since protocol 20.
func (s *scanner) phases() (all []envelope) {
	s.must(1)
	s.take(hashSizeBytes)
	for n := s.count(listed); n > 0 && !s.bad; n-- {
		switch s.uint32() {
		case 0:
			for n := s.count(listed); n > 0 && !s.bad; n-- {
				s.must(0)
				s.fee()
				all = s.envelopes(all)
			}
		case 1:
			s.fee()
			for n := s.count(listed); n > 0 && !s.bad; n-- {
				for n := s.count(listed); n > 0 && !s.bad; n-- {
					all = s.envelopes(all)
				}
			}
		default:
			s.bad = true
		}
	}
	return all
}

func (s *scanner) fee() {
	if s.option() {
		s.take(8)
	}
}

// envelopes reads a list of envelopes.
func (s *scanner) envelopes(all []envelope) []envelope {
	n := s.count(envelopeSizeBytesMin)
	if all == nil && n > 0 {
		all = make([]envelope, 0, n)
	}
	for ; n > 0 && !s.bad; n-- {
		from := s.at
		signed := s.envelope()
		all = append(all, envelope{view: s.raw[from:s.at], signed: signed})
	}
	return all
}

// envelope steps over one, and gives what its hash is of.
func (s *scanner) envelope() (signed []byte) {
	kind := xdr.EnvelopeType(s.uint32())
	from := s.at
	switch kind {
	case xdr.EnvelopeTypeEnvelopeTypeTxV0, xdr.EnvelopeTypeEnvelopeTypeTx:
		s.transaction(kind)
	case xdr.EnvelopeTypeEnvelopeTypeTxFeeBump:
		s.bump()
		s.transaction(xdr.EnvelopeTypeEnvelopeTypeTx)
		s.signatures()
		s.must(0)
	default:
		s.bad = true
	}
	signed = s.raw[from:s.at:s.at]
	s.signatures()
	return signed
}

// bump reads the part before the transaction inside a fee bump.
func (s *scanner) bump() {
	s.muxedAccount()
	s.take(8)
	s.must(uint32(xdr.EnvelopeTypeEnvelopeTypeTx))
}

// transaction skips the signed part of a transaction.
func (s *scanner) transaction(kind xdr.EnvelopeType) {
	s.transactionHead(kind)
	n := s.count(listed)
	if n > operationsOfTransactionMax {
		s.bad = true
	}
	for ; n > 0 && !s.bad; n-- {
		s.operation()
	}
	switch {
	case s.empty(): // no extension
	case kind == xdr.EnvelopeTypeEnvelopeTypeTxV0:
		s.bad = true
	default:
		over[xdr.TransactionExtView](s)
	}
}

// transactionHead reads the part before the operations.
func (s *scanner) transactionHead(kind xdr.EnvelopeType) (source party, m memo) {
	if kind == xdr.EnvelopeTypeEnvelopeTypeTxV0 {
		source.key = s.take(hashSizeBytes)
		s.take(4 + 8)
		if s.option() {
			s.take(8 + 8)
		}
		return source, s.memo()
	}
	source = s.muxedAccount()
	s.take(4 + 8) // fee, sequence
	switch {
	case s.empty(): // no preconditions
	default:
		over[xdr.PreconditionsView](s)
	}
	return source, s.memo()
}

func (s *scanner) signatures() {
	n := s.count(listed)
	if n > signaturesMax {
		s.bad = true
	}
	for ; n > 0 && !s.bad; n-- {
		s.take(4)
		s.opaque(signatureSizeBytesMax)
	}
}

// party is an account; id is set if it is muxed.
type party struct {
	key   []byte
	muxed bool
	id    uint64
}

func (s *scanner) muxedAccount() (p party) {
	switch xdr.CryptoKeyType(s.uint32()) {
	case xdr.CryptoKeyTypeKeyTypeEd25519:
	case xdr.CryptoKeyTypeKeyTypeMuxedEd25519:
		p.muxed, p.id = true, s.uint64()
	default:
		s.bad = true
	}
	p.key = s.take(hashSizeBytes)
	return p
}

func (s *scanner) account() party {
	s.must(uint32(xdr.PublicKeyTypePublicKeyTypeEd25519))
	return party{key: s.take(hashSizeBytes)}
}

// memo is one as it is in the ledger.
type memo struct {
	kind xdr.MemoType
	text []byte // or the hash
	id   uint64
}

func (s *scanner) memo() (m memo) {
	switch m.kind = xdr.MemoType(s.uint32()); m.kind {
	case xdr.MemoTypeMemoNone:
	case xdr.MemoTypeMemoText:
		m.text = s.opaque(memoTextSizeBytesMax)
	case xdr.MemoTypeMemoId:
		m.id = s.uint64()
	case xdr.MemoTypeMemoHash, xdr.MemoTypeMemoReturn:
		m.text = s.take(hashSizeBytes)
	default:
		s.bad = true
	}
	return m
}

// asset reads one, and gives it as it is in the ledger.
func (s *scanner) asset() []byte {
	from := s.at
	switch xdr.AssetType(s.uint32()) {
	case xdr.AssetTypeAssetTypeNative:
	case xdr.AssetTypeAssetTypeCreditAlphanum4:
		s.take(4)
		s.account()
	case xdr.AssetTypeAssetTypeCreditAlphanum12:
		s.take(12)
		s.account()
	default:
		s.bad = true
	}
	return s.raw[from:s.at:s.at]
}

func (s *scanner) path() {
	n := s.count(listed)
	if n > pathMax {
		s.bad = true
	}
	for ; n > 0 && !s.bad; n-- {
		s.asset()
	}
}

// operation is one, as far as payments are made of it: for others only kind is set.
type operation struct {
	kind     xdr.OperationType
	source   party // without a key: the transaction's
	to       party
	asset    []byte // nil: native
	amount   int64
	byResult bool // the amount is known from the result
}

// operation steps over one.
func (s *scanner) operation() {
	if o := s.operationHead(); isPayment(o.kind) {
		s.operationBody(&o)
	} else {
		s.stepOverBody()
	}
}

// stepOverBody skips an operation that is not a payment, after its kind.
func (s *scanner) stepOverBody() {
	if !s.bad {
		s.at -= 4
		over[xdr.OperationBodyView](s)
	}
}

// operationHead reads an operation's source and kind.
func (s *scanner) operationHead() (o operation) {
	if s.option() {
		o.source = s.muxedAccount()
	}
	o.kind = xdr.OperationType(s.uint32())
	return o
}

func isPayment(kind xdr.OperationType) bool {
	switch kind {
	case xdr.OperationTypeCreateAccount, xdr.OperationTypePayment,
		xdr.OperationTypePathPaymentStrictReceive, xdr.OperationTypePathPaymentStrictSend,
		xdr.OperationTypeAccountMerge:
		return true
	}
	return false
}

// operationBody reads the part after the kind of a payment.
func (s *scanner) operationBody(o *operation) {
	switch o.kind {
	case xdr.OperationTypeCreateAccount:
		o.to = s.account()
		o.amount = int64(s.uint64())
	case xdr.OperationTypePayment:
		o.to = s.muxedAccount()
		o.asset = s.asset()
		o.amount = int64(s.uint64())
	case xdr.OperationTypePathPaymentStrictReceive, xdr.OperationTypePathPaymentStrictSend:
		s.asset()
		s.take(8)
		o.to = s.muxedAccount()
		o.asset = s.asset()
		o.amount = int64(s.uint64())
		o.byResult = o.kind == xdr.OperationTypePathPaymentStrictSend
		s.path()
	case xdr.OperationTypeAccountMerge:
		o.to = s.muxedAccount()
		o.byResult = true
	}
}

// processed reads the applied transactions.
func (s *scanner) processed(version uint32) []transaction {
	txs := make([]transaction, s.count(processingSizeBytesMin))
	for i := range txs {
		if s.bad {
			return nil
		}
		tx := &txs[i]
		if version == 2 {
			s.must(0)
		}
		tx.pair = over[xdr.TransactionResultPairView](s)
		if s.bad {
			return nil
		}
		tx.calls = mayCall(tx.pair)
		tx.hash = xdr.Hash(tx.pair[:hashSizeBytes])
		tx.result = xdr.TransactionResultView(tx.pair[hashSizeBytes:])
		tx.fees = s.changes()
		from := s.at
		s.meta(tx)
		tx.meta = s.raw[from:s.at:s.at]
		if version == 2 {
			tx.refunds = s.changes()
		}
	}
	return txs
}

// changes skips a list of changes of entries, and returns it; nil without changes.
func (s *scanner) changes() []byte {
	if s.empty() {
		return nil
	}
	return over[xdr.LedgerEntryChangesView](s)
}

// meta steps over one, and keeps what its only operation emitted.
func (s *scanner) meta(tx *transaction) {
	from := s.at
	switch s.uint32() {
	case 3:
		s.metaV3(tx)
	case 4:
		s.metaV4(tx)
	default:
		s.at = from
		over[xdr.TransactionMetaView](s)
	}
}

func (s *scanner) metaV3(tx *transaction) {
	s.must(0)
	s.changes()
	for n := s.count(listed); n > 0 && !s.bad; n-- {
		s.changes()
	}
	s.changes()
	if !s.option() {
		return
	}
	if !s.empty() {
		over[xdr.SorobanTransactionMetaExtView](s)
	}
	if tx.calls {
		tx.emitted = s.events()
	} else {
		over[xdr.SorobanTransactionMetaEventsView](s)
	}
	returned := over[xdr.ScValView](s)
	over[xdr.SorobanTransactionMetaDiagnosticEventsView](s)
	if tx.emitted != nil {
		tx.emitted.returned = returned
	}
}

func (s *scanner) metaV4(tx *transaction) {
	s.must(0)
	s.changes()
	operations := s.count(listed)
	for n := operations; n > 0 && !s.bad; n-- {
		s.must(0)
		s.changes()
		switch {
		case operations == 1 && tx.calls:
			tx.emitted = s.events()
		case !s.empty():
			over[xdr.OperationMetaV2EventsView](s)
		}
	}
	s.changes()
	if s.option() {
		if !s.empty() {
			over[xdr.SorobanTransactionMetaExtView](s)
		}
		if s.option() {
			returned := over[xdr.ScValView](s)
			if tx.emitted != nil {
				tx.emitted.returned = returned
			}
		}
	}
	if !s.empty() {
		over[xdr.TransactionMetaV4EventsView](s)
	}
	if !s.empty() {
		over[xdr.TransactionMetaV4DiagnosticEventsView](s)
	}
}

// emitted holds the events and the return value of the only operation of a transaction.
type emitted struct {
	events   []byte // as they are hashed, with their number
	returned []byte // nil: nothing is said
	changes  []xdr.ContractEventView
}

// events reads a list of events, and gives those that may be changes of a balance.
func (s *scanner) events() *emitted {
	e, from := new(emitted), s.at
	for n := s.count(listed); n > 0 && !s.bad; n-- {
		at := s.at
		may := s.event()
		if may {
			e.changes = append(e.changes, s.raw[at:s.at:s.at])
		}
	}
	e.events = s.raw[from:s.at:s.at]
	return e
}

// event steps over one, and reports whether it may be a change of a balance: it is a contract's,
// and begins with the symbol of such.
func (s *scanner) event() bool {
	s.must(0)
	if s.option() {
		s.take(hashSizeBytes)
	}
	kind := xdr.ContractEventType(s.uint32())
	if kind < 0 || kind > xdr.ContractEventTypeDiagnostic {
		s.bad = true
	}
	s.must(0)
	may := false
	for n, first := s.count(listed), true; n > 0 && !s.bad; n, first = n-1, false {
		topic := over[xdr.ScValView](s)
		if first && kind == xdr.ContractEventTypeContract {
			may = s.namesChange(topic)
		}
	}
	over[xdr.ScValView](s)
	return may
}

// namesChange reports whether a topic is the symbol of a change.
func (s *scanner) namesChange(topic []byte) bool {
	t := scanner{raw: topic, bad: s.bad}
	if t.uint32() != uint32(xdr.ScValTypeScvSymbol) {
		return false
	}
	name := t.opaque(symbolSizeBytesMax)
	s.bad = t.bad
	switch string(name) {
	case eventTransfer, eventMint, eventClawback, eventBurn:
		return true
	}
	return false
}
