package ops

import (
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/keys"
)

// RewrapReport is the result of a rewrap, for people and as JSON.
type RewrapReport struct {
	NewestKey string       `json:"newestKey"`
	Endpoints int          `json:"endpoints"`
	Secrets   RewrapCounts `json:"secrets"`
	Headers   RewrapCounts `json:"headers"`
	Keys      []KeyUse     `json:"keys"`
	// SigningKeysResealed counts the keys of signatures by Ed25519.
	SigningKeysResealed int `json:"signingKeysResealed"`
}

// KeyUse is the use of one key of the master key.
type KeyUse struct {
	ID        string `json:"id"`
	Use       string `json:"use"` // seals, staged, opens, or missing: not in the file
	Values    int    `json:"values"`
	Removable bool   `json:"removable"`
}

// KeyName formats the id of a key.
func KeyName(id uint32) string { return fmt.Sprintf("%010d", id) }

func rewrapReportOf(found rewrapTally, newest uint32, list []keys.MasterKey) RewrapReport {
	report := RewrapReport{
		NewestKey: KeyName(newest),
		Endpoints: found.endpoints,
		Secrets:   found.secrets,
		Headers:   found.headers,
	}
	left := maps.Clone(found.byKey)
	for _, k := range list {
		one := KeyUse{ID: KeyName(k.ID), Use: "opens", Values: left[k.ID]}
		switch {
		case k.Seals:
			one.Use = "seals"
		case k.Staged:
			one.Use = "staged"
		default:
			one.Removable = one.Values == 0
		}
		delete(left, k.ID)
		report.Keys = append(report.Keys, one)
	}
	for _, id := range slices.Sorted(maps.Keys(left)) {
		missing := KeyUse{ID: KeyName(id), Use: "missing", Values: left[id]}
		report.Keys = append(report.Keys, missing)
	}
	return report
}

// Show prints it in columns.
func (r RewrapReport) Show(w io.Writer) {
	cli.Row(w, fmt.Sprintf("OF %d ENDPOINTS", r.Endpoints), "RESEALED", "ALREADY NEW", "UNOPENED")
	cli.Row(w, "signing secrets", r.Secrets.Resealed, r.Secrets.AlreadyNew, r.Secrets.Unopened)
	cli.Row(w, "header values", r.Headers.Resealed, r.Headers.AlreadyNew, r.Headers.Unopened)
	if r.SigningKeysResealed > 0 {
		cli.Row(w, "signing keys", r.SigningKeysResealed)
	}
	_, _ = io.WriteString(w, "\n")
	cli.Row(w, "KEY", "USE", "SEALED VALUES")
	removable := false
	for _, k := range r.Keys {
		cells := []any{k.ID, k.Use, k.Values}
		if k.Removable {
			removable, cells = true, append(cells, "can go: lumenhook secrets drop "+k.ID)
		}
		cli.Row(w, cells...)
	}
	if removable {
		_, _ = io.WriteString(w, "\n"+WhatDroppingMeans)
	}
}

// Err returns an error that names the values that no key opens, or nil.
func (r RewrapReport) Err() error {
	n := r.Secrets.Unopened + r.Headers.Unopened
	if n == 0 {
		return nil
	}
	return fmt.Errorf("%d values open with no key of this master key: nothing is sent to their "+
		"endpoints until the key that sealed them is put back, "+
		"or the secret is rotated and the header set again", n)
}

// WhatDroppingMeans is printed with every key that can be dropped.
const WhatDroppingMeans = "" +
	"Facts in the journal stay as they were sealed, and nothing opens them: state is\n" +
	"folded from them unopened, and the resealed values come later. So a key that can go\n" +
	"is not needed to restore or rebuild from the topics. Keep a copy of it, offline, for\n" +
	"backups of the topics from before, and drop it two days from now if repeats of\n" +
	"requests (Idempotency-Key) from before are to get their answer until then.\n"
