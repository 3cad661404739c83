package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/internal/runfile"
)

const (
	pastEndpoints = 8
	aimPast       = 95.0 // percent of the rate on an empty history
	aimDeep       = 90.0 // percent of the rate at a small backlog
	// fillRound is how many deliveries the past grows by before that is noted.
	fillRound = 250_000
	pastFile  = "past"
	rateFresh = "with an empty history"
)

// historySteps are one: a service of its own, and just after it the one with a past.
func (l *lab) historySteps() []step {
	return []step{{
		name:  "history",
		takes: 2 * l.deliverTakes(l.opt.Deliveries),
		run: func(ctx context.Context, n int) (got record, err error) {
			fresh := deliverRun{Line: rateFresh, Endpoints: pastEndpoints, Repetition: n}
			if err := l.deliverFresh(ctx, &fresh, l.full()); err != nil {
				return got, err
			}
			behind := deliverRun{Line: "with a past", Endpoints: pastEndpoints, Repetition: n}
			past, err := l.deliverPast(ctx, &behind)
			if err != nil {
				return got, err
			}
			row := "deliver, 8 endpoints, after " + thousands(l.opt.Past) + " past deliveries"
			got.Figures = []figure{
				{
					Row:       row,
					Unit:      "1/s",
					Value:     behind.Rate,
					FloorName: rateFresh,
					Floor:     fresh.Rate,
					Aim:       atLeast(ofRatio, aimPast, "%"),
				},
				{Row: row + ": how many in fact", Value: float64(past), Aside: true},
			}
			got.Figures = append(got.Figures, processorFigures(row, &behind, rateFresh, &fresh)...)
			return got, nil
		},
	}}
}

// deliverPast measures the deployment that is kept, which has as many past deliveries as are
// asked for, or more: each run adds its own.
func (l *lab) deliverPast(ctx context.Context, r *deliverRun) (past int, err error) {
	s, past, err := l.servePast(ctx)
	if err != nil {
		return 0, err
	}
	if past < l.opt.Past {
		past, err = l.fillPast(ctx, s, past)
	}
	if err == nil {
		err = l.warm(ctx, s)
	}
	before := past
	past += s.expected
	if err == nil {
		before = past
		err = errors.Join(s.begin(ctx), l.deliverBy(ctx, s, r, l.full()))
		past += s.expected
	}
	return before, errors.Join(err, notePast(s.dir, past), s.stop())
}

// servePast starts the service on the deployment that is kept, with endpoints of its own at
// the receiver of this run.
func (l *lab) servePast(ctx context.Context) (s *service, past int, err error) {
	dir := filepath.Join(l.opt.cache, "deployment")
	text, err := os.ReadFile(filepath.Join(dir, pastFile)) // #nosec G304 G703 -- ours
	switch {
	case errors.Is(err, fs.ErrNotExist):
		// Nothing is known of what may be there.
		// #nosec G703 -- a folder in the one that is asked for
		if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o700)); err != nil {
			return nil, 0, err
		}
	case err != nil:
		return nil, 0, err
	default:
		if past, err = strconv.Atoi(string(text)); err != nil {
			return nil, 0, fmt.Errorf("%s: %w", dir, err)
		}
	}
	if s, err = l.startRun(ctx, serving{dir: dir, profiled: l.opt.profiles != ""}); err != nil {
		return nil, 0, err
	}
	err = l.adoptEndpoints(ctx, s)
	if err == nil {
		err = s.settled(ctx, l.opt.rest)
	}
	if err == nil {
		err = s.begin(ctx)
	}
	if err != nil {
		return nil, 0, errors.Join(err, s.stop())
	}
	return s, past, nil
}

// adoptEndpoints sends what goes to the endpoints that there are to the receiver of this run.
func (l *lab) adoptEndpoints(ctx context.Context, s *service) error {
	api, err := s.api()
	if err != nil {
		return err
	}
	have, err := api.ListEndpoints(ctx, client.EndpointFilter{}, client.Page{Limit: 100})
	if err != nil {
		return err
	}
	if len(have.Data) == 0 {
		return s.createEndpoints(ctx, l.receiver.URL, pastEndpoints)
	}
	s.payments = paymentsTo(s.run.AccountID)
	for n, e := range have.Data {
		to := client.Patch{"url": l.receiver.URL + "/" + strconv.Itoa(n)}
		if _, err := api.UpdateEndpoint(ctx, e.ID, to); err != nil {
			return fmt.Errorf("moving an endpoint: %w", err)
		}
		s.payments.Endpoints = append(s.payments.Endpoints, e.ID)
	}
	return nil
}

// settled waits until nothing is written to the history any more: a run that was interrupted
// may have left what is delivered now.
func (s *service) settled(ctx context.Context, every time.Duration) error {
	for latest := -1; ; {
		rows, err := s.history.rows(ctx)
		if err != nil || rows == latest {
			return err
		}
		latest = rows
		if err := rest(ctx, every); err != nil {
			return err
		}
	}
}

func notePast(dir string, past int) error {
	return runfile.WriteFile(filepath.Join(dir, pastFile), []byte(strconv.Itoa(past)))
}

// fillPast delivers until there is as much past as is asked for. What was made is kept when
// that is interrupted.
func (l *lab) fillPast(ctx context.Context, s *service, past int) (int, error) {
	began, from := time.Now(), past
	for past < l.opt.Past {
		n := min(fillRound, l.opt.Past-past)
		d, err := l.deliverAll(ctx, s,
			task{Run: l.ownRun("past"), AtLeast: n, Backlog: l.opt.Backlog})
		if err != nil {
			return past, err
		}
		past += d.n
		if err := s.begin(ctx); err != nil {
			return past, err
		}
		if err := notePast(s.dir, past); err != nil {
			return past, err
		}
		each := time.Since(began) / time.Duration(past-from)
		l.say(fmt.Sprintf("%s of %s past deliveries; %s left", thousands(past), thousands(l.opt.Past),
			inWords(each*time.Duration(l.opt.Past-past))))
	}
	return past, nil
}

// fillTakes is about how long that takes from the beginning.
func (l *lab) fillTakes() time.Duration {
	return time.Duration(l.opt.Past/usualRate) * time.Second
}

// backlogSteps are one: a service that has few matches before it at any time, and one that
// has all of many.
func (l *lab) backlogSteps() []step {
	return []step{{
		name: "backlog",
		takes: l.deliverTakes(l.opt.Deliveries) +
			time.Duration(float64(l.opt.Deep)/usualRate*float64(time.Second)) + 10*time.Second,
		run: func(ctx context.Context, n int) (got record, err error) {
			shallow := deliverRun{Line: "shallow", Endpoints: pastEndpoints, Repetition: n}
			t := l.full()
			t.Backlog = l.opt.shallow
			if err := l.deliverFresh(ctx, &shallow, t); err != nil {
				return got, err
			}
			deep := deliverRun{Line: "deep", Endpoints: pastEndpoints, Repetition: n}
			t = task{AtLeast: l.opt.Deep, Backlog: l.opt.Deep}
			if err := l.deliverFresh(ctx, &deep, t); err != nil {
				return got, err
			}
			floor := "at a backlog of " + thousands(l.opt.shallow)
			row := "deliver, 8 endpoints, at a backlog of " + thousands(l.opt.Deep)
			got.Figures = []figure{
				{
					Row:       row,
					Unit:      "1/s",
					Value:     deep.Rate,
					FloorName: floor,
					Floor:     shallow.Rate,
					Aim:       atLeast(ofRatio, aimDeep, "%"),
				},
			}
			got.Figures = append(got.Figures, processorFigures(row, &deep, floor, &shallow)...)
			return got, nil
		},
	}}
}

// processorFigures are what a delivery took of all processes and of each, beside another run.
func processorFigures(row string, r *deliverRun, name string, beside *deliverRun) []figure {
	of := func(process string, value, floor float64) figure {
		return figure{
			Row:       row + ", processor time of " + process,
			Unit:      "µs",
			Value:     value,
			FloorName: name,
			Floor:     floor,
			Aside:     true,
		}
	}
	list := []figure{of("all", sum(r.Processor), sum(beside.Processor))}
	for _, process := range slices.Sorted(maps.Keys(r.Processor)) {
		list = append(list, of(process, r.Processor[process], beside.Processor[process]))
	}
	return list
}

// api opens a client of the service's API.
func (s *service) api() (*client.Client, error) {
	return client.New(s.run.APIURL, s.run.APIKey, nil)
}
