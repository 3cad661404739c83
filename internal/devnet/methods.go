package devnet

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	protocol "github.com/stellar/go-stellar-sdk/protocols/rpc"
	"github.com/stellar/go-stellar-sdk/xdr"
)

const (
	maxLedgersPerPage     = 200
	defaultLedgersPerPage = 50
	maxEntryKeys          = 200

	// maxPageBytes ends a page after at least one ledger. 200 full ledgers would take gigabytes.
	maxPageBytes = 4 << 20
)

var methods = map[string]func(*Network, json.RawMessage) (any, error){
	protocol.GetHealthMethodName:        method((*Network).getHealth),
	protocol.GetNetworkMethodName:       method((*Network).getNetwork),
	protocol.GetLatestLedgerMethodName:  method((*Network).getLatestLedger),
	protocol.GetLedgersMethodName:       method((*Network).getLedgers),
	protocol.GetLedgerEntriesMethodName: method((*Network).getLedgerEntries),
	protocol.GetTransactionMethodName:   method((*Network).getTransaction),
	protocol.SendTransactionMethodName:  method((*Network).sendTransaction),
}

// call calls a method. Errors of type *rpcError were caused by the client, others by us. Methods
// that only read use the state of a single ledger.
func (n *Network) call(name string, params json.RawMessage) (any, error) {
	f := methods[name]
	if f == nil {
		return nil, &rpcError{codeMethodNotFound, "method not found: the development network has " +
			strings.Join(slices.Sorted(maps.Keys(methods)), ", ")}
	}
	if name != protocol.SendTransactionMethodName {
		n.mu.RLock()
		defer n.mu.RUnlock()
		if errors.Is(n.broken, errClosed) {
			return nil, errClosed
		}
	}
	return f(n, params)
}

func (n *Network) getHealth(struct{}) (protocol.GetHealthResponse, error) {
	return protocol.GetHealthResponse{
		Status:                "healthy",
		LatestLedger:          n.tip.latest,
		LatestLedgerCloseTime: n.tip.latestClose,
		OldestLedger:          n.tip.oldest,
		OldestLedgerCloseTime: n.tip.oldestClose,
		LedgerRetentionWindow: n.cfg.RetentionLedgers,
	}, nil
}

func (n *Network) getNetwork(struct{}) (protocol.GetNetworkResponse, error) {
	return protocol.GetNetworkResponse{
		FriendbotURL:    n.FriendbotURL(),
		Passphrase:      n.cfg.Passphrase,
		ProtocolVersion: ProtocolVersion,
	}, nil
}

func (n *Network) getLatestLedger(struct{}) (protocol.GetLatestLedgerResponse, error) {
	l, err := n.store.ledger(n.tip.latest)
	return protocol.GetLatestLedgerResponse{
		Hash:            l.Hash,
		ProtocolVersion: ProtocolVersion,
		Sequence:        n.tip.latest,
		LedgerCloseTime: n.tip.latestClose,
		LedgerHeader:    base64XDR(n.tip.header.Header),
		LedgerMetadata:  l.LedgerMetadata,
	}, err
}

func (n *Network) available() protocol.LedgerSeqRange {
	return protocol.LedgerSeqRange{FirstLedger: n.tip.oldest, LastLedger: n.tip.latest}
}

func (n *Network) getLedgers(
	req protocol.GetLedgersRequest,
) (answer protocol.GetLedgersResponse, err error) {
	err = errors.Join(req.Validate(maxLedgersPerPage, n.available()), onlyBase64(req.Format))
	if err != nil {
		return answer, &rpcError{codeInvalidRequest, err.Error()}
	}
	start := req.StartLedger
	cursor, limit, err := page(req.Pagination, defaultLedgersPerPage)
	if err == nil && cursor >= 0 {
		start = uint32(cursor + 1)
		if cursor+1 < int64(n.tip.oldest) || cursor+1 > int64(n.tip.latest) {
			err = fmt.Errorf("cursor ('%d') must be between the oldest ledger: %d and the latest "+
				"ledger: %d for this rpc instance", cursor, n.tip.oldest, n.tip.latest)
		}
	}
	if err != nil {
		return answer, &rpcError{codeInvalidParams, err.Error()}
	}
	answer = protocol.GetLedgersResponse{
		Ledgers:               []protocol.LedgerInfo{},
		LatestLedger:          n.tip.latest,
		LatestLedgerCloseTime: n.tip.latestClose,
		OldestLedger:          n.tip.oldest,
		OldestLedgerCloseTime: n.tip.oldestClose,
	}
	size := 0
	for ; start <= n.tip.latest && len(answer.Ledgers) < limit && size < maxPageBytes; start++ {
		l, err := n.store.ledger(start)
		if err != nil {
			return answer, err
		}
		size += len(l.LedgerMetadata)
		answer.Ledgers = append(answer.Ledgers, l.LedgerInfo)
		answer.Cursor = strconv.FormatUint(uint64(start), 10)
	}
	return answer, nil
}

// page returns the cursor of a page, or -1 if there is none, and the page's size.
func page(p *protocol.LedgerPaginationOptions, limit int) (cursor int64, _ int, err error) {
	if p != nil && p.Limit > 0 {
		limit = int(p.Limit)
	}
	if p == nil || p.Cursor == "" {
		return -1, limit, nil
	}
	parsed, err := strconv.ParseUint(p.Cursor, 10, 63)
	return int64(parsed), limit, err // has at most 63 bits
}

func (n *Network) getLedgerEntries(
	req protocol.GetLedgerEntriesRequest,
) (answer protocol.GetLedgerEntriesResponse, err error) {
	if err := checkFormat(req.Format); err != nil {
		return answer, err
	}
	if len(req.Keys) > maxEntryKeys {
		return answer, &rpcError{codeInvalidParams, fmt.Sprintf(
			"key count (%d) exceeds maximum supported (%d)", len(req.Keys), maxEntryKeys)}
	}
	answer.Entries, answer.LatestLedger = []protocol.LedgerEntryResult{}, n.tip.latest
	for i, text := range req.Keys {
		var key xdr.LedgerKey
		if err := xdr.SafeUnmarshalBase64(text, &key); err != nil {
			return answer, &rpcError{codeInvalidParams,
				fmt.Sprintf("cannot unmarshal key value %s at index %d", text, i)}
		}
		if key.Type == xdr.LedgerEntryTypeTtl {
			return answer, &rpcError{codeInvalidParams, "ledger ttl entries cannot be queried directly"}
		}
		if row := n.state.load(keyOf(key)); row != nil {
			answer.Entries = append(answer.Entries, protocol.LedgerEntryResult{
				KeyXDR:             text,
				DataXDR:            base64XDR(row.Data),
				ExtensionXDR:       base64XDR(row.Ext),
				LastModifiedLedger: uint32(row.LastModifiedLedgerSeq),
			})
		}
	}
	return answer, nil
}

func (n *Network) getTransaction(
	req protocol.GetTransactionRequest,
) (answer protocol.GetTransactionResponse, err error) {
	if err := checkFormat(req.Format); err != nil {
		return answer, err
	}
	if hex.DecodedLen(len(req.Hash)) != len(xdr.Hash{}) {
		return answer, &rpcError{codeInvalidParams,
			fmt.Sprintf("unexpected hash length (%d)", len(req.Hash))}
	}
	if _, err := hex.DecodeString(req.Hash); err != nil {
		return answer, &rpcError{codeInvalidParams, fmt.Sprintf("incorrect hash: %v", err)}
	}
	tx, ok, err := n.store.transaction(req.Hash)
	if !ok {
		tx.Status, tx.TransactionHash = protocol.TransactionStatusNotFound, req.Hash
	}
	return protocol.GetTransactionResponse{
		LatestLedger:          n.tip.latest,
		LatestLedgerCloseTime: n.tip.latestClose,
		OldestLedger:          n.tip.oldest,
		OldestLedgerCloseTime: n.tip.oldestClose,
		TransactionDetails:    tx.TransactionDetails,
		LedgerCloseTime:       tx.LedgerCloseTime,
	}, err
}

func (n *Network) sendTransaction(
	req protocol.SendTransactionRequest,
) (answer protocol.SendTransactionResponse, err error) {
	if err := checkFormat(req.Format); err != nil {
		return answer, err
	}
	tx, err := decodeTransaction(req.Transaction, n.cfg.Passphrase)
	if err != nil {
		return answer, &rpcError{codeInvalidParams, err.Error()}
	}
	sent, err := n.submit(tx)
	if err != nil {
		return answer, err
	}
	answer = protocol.SendTransactionResponse{
		Status:                sent.status,
		Hash:                  tx.hash.HexString(),
		LatestLedger:          sent.tip.latest,
		LatestLedgerCloseTime: sent.tip.latestClose,
	}
	if sent.result != nil {
		answer.ErrorResultXDR = base64XDR(sent.result)
	}
	return answer, nil
}

func checkFormat(format string) error {
	if err := errors.Join(protocol.IsValidFormat(format), onlyBase64(format)); err != nil {
		return &rpcError{codeInvalidParams, err.Error()}
	}
	return nil
}

func onlyBase64(format string) error {
	if format == protocol.FormatJSON {
		return errors.New("xdrFormat 'json' is not supported by the development network: use 'base64', " +
			"or leave it out")
	}
	return nil
}
