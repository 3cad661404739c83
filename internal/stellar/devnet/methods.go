package devnet

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"

	"github.com/cockroachdb/pebble/v2"
	protocol "github.com/stellar/go-stellar-sdk/protocols/rpc"
	"github.com/stellar/go-stellar-sdk/xdr"
)

const (
	maxLedgersPerPage     = 200
	defaultLedgersPerPage = 50
	maxEntryKeys          = 200

	// maxPageBytes ends a page of getLedgers early, after at least one ledger: two hundred full
	// ledgers would be gigabytes.
	maxPageBytes = 4 << 20
)

// call answers one method. Errors of type *rpcError are the client's, others ours.
func (n *Network) call(method string, raw []byte) (any, error) {
	switch method {
	case protocol.GetHealthMethodName:
		return n.getHealth()
	case protocol.GetNetworkMethodName:
		return n.getNetwork(), nil
	case protocol.GetLatestLedgerMethodName:
		return n.getLatestLedger()
	case protocol.GetLedgersMethodName:
		return withParams(raw, n.getLedgers)
	case protocol.GetLedgerEntriesMethodName:
		return withParams(raw, n.getLedgerEntries)
	case protocol.GetTransactionMethodName:
		return withParams(raw, n.getTransaction)
	case protocol.SendTransactionMethodName:
		return withParams(raw, n.sendTransaction)
	case protocol.GetTransactionsMethodName:
		return withParams(raw, n.getTransactions)
	case protocol.GetEventsMethodName:
		return withParams(raw, n.getEvents)
	case protocol.GetFeeStatsMethodName:
		return n.getFeeStats()
	case protocol.GetVersionInfoMethodName:
		return protocol.GetVersionInfoResponse{
			Version:         "lumenhook-devnet",
			ProtocolVersion: ProtocolVersion,
		}, nil
	case protocol.SimulateTransactionMethodName:
		return withParams(raw, n.simulateTransaction)
	default:
		return nil, &rpcError{
			codeMethodNotFound,
			"method not found: the development network has getHealth, getNetwork, " +
				"getVersionInfo, getFeeStats, getLatestLedger, getLedgers, getLedgerEntries, getTransaction, " +
				"getTransactions, " +
				"getEvents, simulateTransaction and sendTransaction",
		}
	}
}

func withParams[P, R any](raw []byte, f func(P) (R, error)) (any, error) {
	p, err := params[P](raw)
	if err != nil {
		return nil, err
	}
	return f(p)
}

func (n *Network) getHealth() (answer protocol.GetHealthResponse, err error) {
	err = n.read(func(t tip, _ pebble.Reader) error {
		answer = protocol.GetHealthResponse{
			Status:                "healthy",
			LatestLedger:          t.latest,
			LatestLedgerCloseTime: t.latestClose,
			OldestLedger:          t.oldest,
			OldestLedgerCloseTime: t.oldestClose,
			LedgerRetentionWindow: n.cfg.RetentionLedgers,
		}
		return nil
	})
	return answer, err
}

func (n *Network) getNetwork() protocol.GetNetworkResponse {
	return protocol.GetNetworkResponse{
		FriendbotURL:    n.FriendbotURL(),
		Passphrase:      n.cfg.Passphrase,
		ProtocolVersion: ProtocolVersion,
	}
}

func (n *Network) getLatestLedger() (answer protocol.GetLatestLedgerResponse, err error) {
	err = n.read(func(t tip, r pebble.Reader) error {
		meta, err := readLedger(r, t.latest)
		if err != nil {
			return err
		}
		header, err := xdr.MarshalBase64(t.header.Header)
		if err != nil {
			return fmt.Errorf("encode the latest header: %w", err)
		}
		answer = protocol.GetLatestLedgerResponse{
			Hash:            t.header.Hash.HexString(),
			ProtocolVersion: ProtocolVersion,
			Sequence:        t.latest,
			LedgerCloseTime: t.latestClose,
			LedgerHeader:    header,
			LedgerMetadata:  base64.StdEncoding.EncodeToString(meta),
		}
		return nil
	})
	return answer, err
}

func readLedger(r pebble.Reader, sequence uint32) ([]byte, error) {
	meta, ok, err := get(r, sequenceKey(keyLedger, sequence))
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fmt.Errorf("ledger %d is missing from the devnet folder", sequence)
	}
	return meta, nil
}

func (n *Network) getLedgers(
	req protocol.GetLedgersRequest,
) (answer protocol.GetLedgersResponse, err error) {
	err = n.read(func(t tip, r pebble.Reader) error {
		available := protocol.LedgerSeqRange{FirstLedger: t.oldest, LastLedger: t.latest}
		err := errors.Join(req.Validate(maxLedgersPerPage, available), onlyBase64(req.Format))
		if err != nil {
			return &rpcError{codeInvalidRequest, err.Error()}
		}
		start, limit, err := pageOf(req, available)
		if err != nil {
			return &rpcError{codeInvalidParams, err.Error()}
		}
		answer = protocol.GetLedgersResponse{
			Ledgers:               []protocol.LedgerInfo{},
			LatestLedger:          t.latest,
			LatestLedgerCloseTime: t.latestClose,
			OldestLedger:          t.oldest,
			OldestLedgerCloseTime: t.oldestClose,
		}
		sizeBytes := 0
		for s := start; s <= t.latest && len(answer.Ledgers) < limit && sizeBytes < maxPageBytes; s++ {
			info, err := ledgerInfo(r, s)
			if err != nil {
				return err
			}
			sizeBytes += len(info.LedgerMetadata)
			answer.Ledgers = append(answer.Ledgers, info)
			answer.Cursor = strconv.FormatUint(uint64(s), 10)
		}
		return nil
	})
	return answer, err
}

// pageOf finds the first ledger of a page: the one asked for, or the one after the cursor.
func pageOf(
	req protocol.GetLedgersRequest, available protocol.LedgerSeqRange,
) (start uint32, limit int, err error) {
	start, limit = req.StartLedger, defaultLedgersPerPage
	if req.Pagination == nil {
		return start, limit, nil
	}
	if req.Pagination.Limit > 0 {
		limit = int(req.Pagination.Limit)
	}
	if req.Pagination.Cursor == "" {
		return start, limit, nil
	}
	cursor, err := strconv.ParseUint(req.Pagination.Cursor, 10, 32)
	if err != nil {
		return 0, 0, err
	}
	start = uint32(cursor) + 1
	if !protocol.IsLedgerWithinRange(start, available) {
		return 0, 0, fmt.Errorf("cursor ('%s') must be between the oldest ledger: %d and the latest "+
			"ledger: %d for this rpc instance",
			req.Pagination.Cursor, available.FirstLedger, available.LastLedger)
	}
	return start, limit, nil
}

func ledgerInfo(r pebble.Reader, sequence uint32) (protocol.LedgerInfo, error) {
	header, err := readHeader(r, sequence)
	if err != nil {
		return protocol.LedgerInfo{}, err
	}
	rawHeader, err := xdr.MarshalBase64(header)
	if err != nil {
		return protocol.LedgerInfo{}, fmt.Errorf("encode the header of ledger %d: %w", sequence, err)
	}
	meta, err := readLedger(r, sequence)
	if err != nil {
		return protocol.LedgerInfo{}, err
	}
	return protocol.LedgerInfo{
		Hash:            header.Hash.HexString(),
		Sequence:        sequence,
		LedgerCloseTime: int64(header.Header.ScpValue.CloseTime),
		LedgerHeader:    rawHeader,
		LedgerMetadata:  base64.StdEncoding.EncodeToString(meta),
	}, nil
}

func (n *Network) getLedgerEntries(
	req protocol.GetLedgerEntriesRequest,
) (answer protocol.GetLedgerEntriesResponse, err error) {
	if err := checkFormat(req.Format); err != nil {
		return answer, err
	}
	if len(req.Keys) > maxEntryKeys {
		return answer, &rpcError{
			codeInvalidParams,
			fmt.Sprintf("key count (%d) exceeds maximum supported (%d)", len(req.Keys), maxEntryKeys),
		}
	}
	err = n.read(func(t tip, r pebble.Reader) error {
		answer = protocol.GetLedgerEntriesResponse{
			Entries:      []protocol.LedgerEntryResult{},
			LatestLedger: t.latest,
		}
		for i, text := range req.Keys {
			var key xdr.LedgerKey
			if err := xdr.SafeUnmarshalBase64(text, &key); err != nil {
				return &rpcError{
					codeInvalidParams,
					fmt.Sprintf("cannot unmarshal key value %s at index %d", text, i),
				}
			}
			if key.Type == xdr.LedgerEntryTypeTtl {
				return &rpcError{codeInvalidParams, "ledger ttl entries cannot be queried directly"}
			}
			row, err := servedEntry(r, key)
			if err != nil {
				return err
			}
			if row == nil {
				continue
			}
			result, err := entryResult(text, row)
			if err != nil {
				return err
			}
			answer.Entries = append(answer.Entries, result)
		}
		return nil
	})
	return answer, err
}

// servedEntry reads an entry. Asked for an account's trustline for lumens, which is no entry of the
// ledger, it returns one that says what the account holds: Stellar's JavaScript SDK asks
// for it to tell a balance of lumens.
func servedEntry(r pebble.Reader, key xdr.LedgerKey) (*xdr.LedgerEntry, error) {
	line := key.TrustLine
	if line == nil || line.Asset.Type != xdr.AssetTypeAssetTypeNative {
		return readEntry(r, keyOf(key))
	}
	row, err := readEntry(r, accountKey(line.AccountId))
	if err != nil || row == nil {
		return nil, err
	}
	return &xdr.LedgerEntry{
		LastModifiedLedgerSeq: row.LastModifiedLedgerSeq,
		Data: xdr.LedgerEntryData{
			Type: xdr.LedgerEntryTypeTrustline,
			TrustLine: &xdr.TrustLineEntry{
				AccountId: line.AccountId,
				Asset:     line.Asset,
				Balance:   row.Data.Account.Balance,
				Limit:     unlimited,
				Flags:     xdr.Uint32(xdr.TrustLineFlagsAuthorizedFlag),
			}},
	}, nil
}

func entryResult(key string, row *xdr.LedgerEntry) (protocol.LedgerEntryResult, error) {
	data, dataErr := xdr.MarshalBase64(row.Data)
	ext, extErr := xdr.MarshalBase64(row.Ext)
	if err := errors.Join(dataErr, extErr); err != nil {
		return protocol.LedgerEntryResult{}, fmt.Errorf("encode a ledger entry: %w", err)
	}
	return protocol.LedgerEntryResult{
		KeyXDR:             key,
		DataXDR:            data,
		ExtensionXDR:       ext,
		LastModifiedLedger: uint32(row.LastModifiedLedgerSeq),
	}, nil
}

func (n *Network) getTransaction(
	req protocol.GetTransactionRequest,
) (answer protocol.GetTransactionResponse, err error) {
	if err := checkFormat(req.Format); err != nil {
		return answer, err
	}
	var hash xdr.Hash
	if hex.DecodedLen(len(req.Hash)) != len(hash) {
		return answer, &rpcError{
			codeInvalidParams, fmt.Sprintf("unexpected hash length (%d)", len(req.Hash)),
		}
	}
	if _, err := hex.Decode(hash[:], []byte(req.Hash)); err != nil {
		return answer, &rpcError{codeInvalidParams, fmt.Sprintf("incorrect hash: %v", err)}
	}
	err = n.read(func(t tip, r pebble.Reader) error {
		answer = protocol.GetTransactionResponse{
			LatestLedger:          t.latest,
			LatestLedgerCloseTime: t.latestClose,
			OldestLedger:          t.oldest,
			OldestLedgerCloseTime: t.oldestClose,
			TransactionDetails: protocol.TransactionDetails{
				Status:          protocol.TransactionStatusNotFound,
				TransactionHash: req.Hash,
			},
		}
		tx, err := readTx(r, hash)
		if err != nil || tx == nil {
			return err
		}
		answer.LedgerCloseTime = tx.closeTime
		answer.TransactionDetails, err = tx.details()
		return err
	})
	return answer, err
}

func (n *Network) sendTransaction(
	req protocol.SendTransactionRequest,
) (answer protocol.SendTransactionResponse, err error) {
	if err := checkFormat(req.Format); err != nil {
		return answer, err
	}
	tx, err := decodeTransaction(req.Transaction, n.cfg.Passphrase)
	if errors.Is(err, errInvalidXDR) || errors.Is(err, errInvalidHash) {
		return answer, &rpcError{codeInvalidParams, err.Error()}
	} else if err != nil {
		return answer, err
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
		if answer.ErrorResultXDR, err = xdr.MarshalBase64(sent.result); err != nil {
			return answer, fmt.Errorf("encode the result of a refused transaction: %w", err)
		}
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
