package main

import (
	"slices"
	"strconv"
)

const (
	aimDeliver   = 45.0 // percent of the bare net/http client
	aimSync      = 90.0 // percent of the same without --broker-sync
	aimP50       = 1.0  // milliseconds above the bare client's own
	aimP99       = 3.0
	aimSyncP50   = 5.0
	aimSyncP99   = 15.0
	aimHalfP99   = 25.0 // milliseconds
	namedNetHTTP = "net/http client"
	namedEgress  = "egress client"
	namedRelay   = "Kafka, consume-transact-produce"
	namedWithout = "without --broker-sync"
	namedOwn     = "the embedded broker"
	namedCommits = "Kafka, one transaction"
	realBrokers  = "three real brokers"
)

// rows are the table.
func (r *results) rows() []row { return rowsOf(r.figures()) }

// figures are those of all records, in the order of the lines.
func (r *results) figures() (all []figure) {
	for _, one := range lines() {
		for _, rec := range r.ofLine(one.name) {
			for _, d := range rec.Deliver {
				all = append(all, r.deliverFigures(d)...)
			}
			for _, l := range rec.Latency {
				all = append(all, r.latencyFigures(l)...)
			}
			all = append(all, rec.Figures...)
		}
	}
	return all
}

// deliverFigures are those of one run: beside the bare client first, and then what explains
// that one.
func (r *results) deliverFigures(d deliverRun) (all []figure) {
	to := func(name string, floor floorRun) figure {
		return figure{
			Row:       d.Line,
			Unit:      "1/s",
			Value:     d.Rate,
			FloorName: name,
			Floor:     floor.Rate,
			Aside:     true,
		}
	}
	bare := to(namedNetHTTP, d.NetHTTP)
	bare.Aside = false
	if !d.RealKafka {
		bare.Aim = atLeast(ofRatio, aimDeliver, "%")
	}
	all = append(all, bare, figure{
		Row:       d.Line + ", processor time of all",
		Unit:      "µs",
		Value:     sum(d.Processor),
		FloorName: namedNetHTTP,
		Floor:     sum(d.NetHTTP.Processor),
		Aside:     true,
	})
	if d.Egress.N > 0 {
		all = append(all, to(namedEgress, d.Egress))
	}
	if d.Kafka.N > 0 {
		all = append(all, to(namedRelay, d.Kafka))
	}
	return append(all, r.beside(d)...)
}

// beside compares a run with one of the same repetition, if there is one.
func (r *results) beside(d deliverRun) (all []figure) {
	if !d.Sync && !d.RealKafka {
		return nil
	}
	for _, o := range r.deliver() {
		if o.Repetition != d.Repetition || o.Endpoints != d.Endpoints || o.Sync || o.RealKafka {
			continue
		}
		f := figure{Row: d.Line, Unit: "1/s", Value: d.Rate, Floor: o.Rate, FloorName: namedOwn}
		if d.Sync {
			f.FloorName, f.Aim = namedWithout, atLeast(ofRatio, aimSync, "%")
		}
		all = append(all, f)
	}
	return all
}

func (r *results) latencyFigures(l latencyRun) []figure {
	part := func(name string, of func(times) float64) figure {
		return figure{
			Row:       l.Line + ", " + name,
			Unit:      "ms",
			Value:     of(l.Service),
			FloorName: namedNetHTTP,
			Floor:     of(l.Bare),
		}
	}
	p50 := part("p50", func(t times) float64 { return t.P50 })
	p99 := part("p99", func(t times) float64 { return t.P99 })
	switch {
	case l.RealKafka:
		return slices.Concat([]figure{p50, p99}, besideCommits(l), r.besideOwn(l))
	case l.Half:
		p50.Aside = true
		p99.Aim = atMost(ofFigure, aimHalfP99, "ms")
	case l.Sync:
		p50.Aim, p99.Aim = atMost(ofAbove, aimSyncP50, "ms"), atMost(ofAbove, aimSyncP99, "ms")
	default:
		p50.Aim, p99.Aim = atMost(ofAbove, aimP50, "ms"), atMost(ofAbove, aimP99, "ms")
	}
	return []figure{p50, p99}
}

// besideCommits compares times on real brokers with those of transactions alone.
func besideCommits(l latencyRun) []figure {
	return l.beside(namedCommits, l.Commits)
}

// besideOwn compares times on real brokers with those on the embedded one.
func (r *results) besideOwn(l latencyRun) (all []figure) {
	for _, o := range r.latency() {
		if o.Repetition != l.Repetition || o.PerSecond != l.PerSecond || o.Half || o.Sync || o.RealKafka {
			continue
		}
		all = append(all, l.beside(namedOwn, o.Service)...)
	}
	return all
}

// beside compares p50 and p99 of the service with those of something else.
func (l latencyRun) beside(name string, floor times) []figure {
	row := func(of string, value, floor float64) figure {
		return figure{
			Row:       l.Line + ", " + of,
			Unit:      "ms",
			Value:     value,
			FloorName: name,
			Floor:     floor,
		}
	}
	return []figure{row("p50", l.Service.P50, floor.P50), row("p99", l.Service.P99, floor.P99)}
}

// short prints a figure with its unit.
func short(v float64, unit string) string {
	if unit == "%" {
		return strconv.FormatFloat(v, 'f', 2, 64) + unit
	}
	return withUnit(plain(v), unit)
}
