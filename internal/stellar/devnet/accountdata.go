package devnet

import (
	"github.com/stellar/go-stellar-sdk/xdr"
)

// Data entries of accounts, and the options that say something about an account and do nothing:
// its home domain and its inflation destination. Keys, thresholds and flags stay as they are made.

func dataKey(id xdr.AccountId, name xdr.String64) entryKey {
	return keyOf(
		xdr.LedgerKey{
			Type: xdr.LedgerEntryTypeData,
			Data: &xdr.LedgerKeyData{AccountId: id, DataName: name},
		},
	)
}

func checkManageData(_ xdr.AccountId, body xdr.OperationBody) (xdr.OperationResult, bool) {
	if name := string(body.ManageDataOp.DataName); name == "" || !printable(name) {
		return manageDataResult(xdr.ManageDataResultCodeManageDataInvalidName)
	}
	return manageDataResult(xdr.ManageDataResultCodeManageDataSuccess)
}

func applyManageData(
	l *layer, source xdr.AccountId, body xdr.OperationBody,
) (xdr.OperationResult, bool) {
	op := body.ManageDataOp
	key := dataKey(source, op.DataName)
	exists := l.load(key) != nil
	switch {
	case op.DataValue == nil && !exists:
		return manageDataResult(xdr.ManageDataResultCodeManageDataNameNotFound)
	case op.DataValue == nil:
		l.set(key, nil)
		l.editAccount(source).NumSubEntries--
		return manageDataResult(xdr.ManageDataResultCodeManageDataSuccess)
	case !exists && account(l, source).NumSubEntries >= maxSubEntries:
		return xdr.OperationResult{Code: xdr.OperationResultCodeOpTooManySubentries}, false
	case !exists && available(account(l, source)) < BaseReserveStroops:
		return manageDataResult(xdr.ManageDataResultCodeManageDataLowReserve)
	}
	if !exists {
		l.editAccount(source).NumSubEntries++
	}
	l.set(
		key,
		&xdr.LedgerEntry{
			Data: xdr.LedgerEntryData{Type: xdr.LedgerEntryTypeData, Data: &xdr.DataEntry{
				AccountId: source,
				DataName:  op.DataName,
				DataValue: *op.DataValue,
			}},
		},
	)
	return manageDataResult(xdr.ManageDataResultCodeManageDataSuccess)
}

func manageDataResult(code xdr.ManageDataResultCode) (xdr.OperationResult, bool) {
	result := xdr.ManageDataResult{Code: code}
	return inner(
			xdr.OperationResultTr{Type: xdr.OperationTypeManageData, ManageDataResult: &result},
		),
		code == xdr.ManageDataResultCodeManageDataSuccess
}

// changesKeys refuses options that this network does not have.
func changesKeys(body xdr.OperationBody) bool {
	op := body.SetOptionsOp
	return op.ClearFlags != nil || op.SetFlags != nil || op.MasterWeight != nil ||
		op.LowThreshold != nil ||
		op.MedThreshold != nil ||
		op.HighThreshold != nil ||
		op.Signer != nil
}

func checkSetOptions(_ xdr.AccountId, body xdr.OperationBody) (xdr.OperationResult, bool) {
	if domain := body.SetOptionsOp.HomeDomain; domain != nil && !printable(string(*domain)) {
		return setOptionsResult(xdr.SetOptionsResultCodeSetOptionsInvalidHomeDomain)
	}
	return setOptionsResult(xdr.SetOptionsResultCodeSetOptionsSuccess)
}

func applySetOptions(
	l *layer, source xdr.AccountId, body xdr.OperationBody,
) (xdr.OperationResult, bool) {
	op := body.SetOptionsOp
	if op.InflationDest != nil && account(l, *op.InflationDest) == nil {
		return setOptionsResult(xdr.SetOptionsResultCodeSetOptionsInvalidInflation)
	}
	a := l.editAccount(source)
	if op.InflationDest != nil {
		destination := *op.InflationDest
		a.InflationDest = &destination
	}
	if op.HomeDomain != nil {
		a.HomeDomain = *op.HomeDomain
	}
	return setOptionsResult(xdr.SetOptionsResultCodeSetOptionsSuccess)
}

func setOptionsResult(code xdr.SetOptionsResultCode) (xdr.OperationResult, bool) {
	result := xdr.SetOptionsResult{Code: code}
	return inner(
			xdr.OperationResultTr{Type: xdr.OperationTypeSetOptions, SetOptionsResult: &result},
		),
		code == xdr.SetOptionsResultCodeSetOptionsSuccess
}

// printable reports whether a text is ASCII without control characters, as the network wants
// names.
func printable(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}
