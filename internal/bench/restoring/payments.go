package main

import (
	"strconv"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/bench/measuring"
	"github.com/lumenhook/lumenhook/streams"
)

const (
	account   = "acc_1"
	endpoints = 64
)

var payments = measuring.Payments{Account: account, Endpoints: endpointIDs()}

func endpointIDs() (list []string) {
	for n := range endpoints {
		list = append(list, domain.DeriveID(domain.EndpointPrefix, "restoring", strconv.Itoa(n)))
	}
	return list
}

// match is the match of the n-th delivery of a run.
func match(run string, n int) streams.Record { return payments.Match(run, n) }
