package api

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/gorilla/mux"

	"github.com/lumenhook/lumenhook/api/decode"
	"github.com/lumenhook/lumenhook/api/problem"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/projections/readmodel"
)

// request is a request in progress.
type request struct {
	http           *http.Request
	id             string
	traceID        string // from traceparent; empty: none
	route          string // the path's template, because the path itself may contain anything
	subjectID      string // id or address in the path; empty: none
	caller         caller
	idempotencyKey string
	ifMatch        decode.Precondition
	body           []byte
	bodyHash       []byte // SHA-256
	commandID      string // of a write
	problem        *problem.Problem
	turn           turn   // kept until the response is written
	done           func() // then frees the request's other places, such as its body's

	// The object in the path, as this node last read it. missing is set if a request that may be a
	// retry names an object that is gone. Only the engine knows its first answer.
	missing  string // the missing object's kind, for users; empty: not missing
	endpoint domain.Endpoint
	watch    domain.Watch
	key      domain.Key
	event    readmodel.Event
	recalled readmodel.Recalled // of a resend
}

// handler handles a request. Its error is a *problem.Problem or an internal error.
type handler func(context.Context, *request) (reply, error)

type requestKey struct{}

func requestOf(r *http.Request) *request { return r.Context().Value(requestKey{}).(*request) }

// statusClientGone is nginx's status for requests whose client is gone before the response. A 5xx
// would blame the service.
const statusClientGone = 499

// answering returns the handler of a route. It checks the headers, then the body, and then runs the
// route's handler.
func (a *API) answering(rt route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, hr *http.Request) {
		r := requestOf(hr)
		named := mux.Vars(hr)
		r.http, r.route, r.subjectID = hr, rt.path, cmp.Or(named["id"], named["address"], named["hash"])
		defer r.turn.end()
		defer func() { r.done() }()
		answer, err := a.answer(w, r, rt)
		if err == nil {
			err = answer.encode()
		}
		if r.turn.leave != nil || len(r.body) > smallBodyBytes {
			// Only writers of tests have no deadlines.
			//nolint:forbidigo // the deadline is of this clock
			_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerMax))
		}
		out := w.(*recorder)
		if err == nil {
			err = answer.write(out)
		}
		switch {
		case err != nil && out.gone:
			out.status = statusClientGone
			panic(http.ErrAbortHandler)
		case err != nil && out.status != 0:
			r.problem, out.status = problem.Of(err), http.StatusInternalServerError
			a.Log.Error("an answer was cut off, as its rest could not be made", "route", r.route,
				"requestId", r.id, "error", redact(err.Error()))
			panic(http.ErrAbortHandler) // so that no client takes the part for the whole
		case errors.Is(err, context.Canceled) && hr.Context().Err() != nil:
			w.WriteHeader(statusClientGone) // for the log and the metrics; nobody reads it
		case err != nil:
			a.refuse(w, r, problem.Of(err))
		}
	})
}

func (a *API) answer(w http.ResponseWriter, r *request, rt route) (reply, error) {
	// Public routes serve monitoring, which matters most under overload.
	if rt.permission != "" {
		if err := a.authenticate(w.Header(), r, rt.permission); err != nil {
			return reply{}, err
		}
		leave, err := a.parallel.Take(r.caller.holder(), maxParallel)
		if err != nil {
			return reply{}, noPlace(err, problem.CodeTooManyParallel, fmt.Sprintf("%d requests of your "+
				"account are in progress at this node, which is the most. Send fewer at once.", maxParallel))
		}
		r.done = leave
	}
	if rt.accepts&keysOnly != 0 {
		if err := refuseLink(r); err != nil {
			return reply{}, err
		}
	}
	if err := a.confine(r.http.Context(), r, rt); err != nil {
		return reply{}, err
	}
	// Finding the subject has its own time limit. The time for the work starts after the body has
	// arrived and the turn has come.
	if err := a.beforeBody(r, rt); err != nil {
		return reply{}, err
	}
	if err := a.readBody(w, r, rt); err != nil {
		return reply{}, err
	}
	if rt.needsTurn() {
		_, quotas, err := a.Directory.Counts(r.caller.accountID)
		if err != nil {
			return reply{}, fmt.Errorf("looking up the quotas of an account: %w", err)
		}
		r.turn = turn{of: a.turns, by: r.caller.holder(), most: quotas.Reads}
		if err := r.turn.take(r.http.Context()); err != nil {
			return reply{}, err
		}
	}
	longest := max(workTimeout, a.TestWait+2*time.Second)
	if rt.accepts&mayWait != 0 {
		longest = waitMax + waitMargin
	}
	ctx, cancel := context.WithTimeout(r.http.Context(), longest)
	defer cancel()
	answer, err := rt.handle(ctx, r)
	if r.missing != "" && isProblem(err, problem.CodeValidationFailed) {
		err = noSuch(r.missing) // without the object, a valid change may look invalid
	}
	return answer, err
}

// beforeBody reads the headers of a write and finds the object in its path.
func (a *API) beforeBody(r *request, rt route) (err error) {
	if rt.writes() {
		if r.idempotencyKey, err = decode.IdempotencyKey(r.http.Header); err != nil {
			return err
		}
		if r.ifMatch, err = decode.IfMatch(r.http.Header); err != nil {
			return err
		}
		if r.ifMatch.Given() && rt.accepts&withIfMatch == 0 {
			return problem.New(problem.CodeInvalidHeader,
				"This operation takes no If-Match: leave the header out.")
		}
	}
	if rt.permission != "" && rt.accepts&withQuery == 0 && r.http.URL.RawQuery != "" {
		if err := decode.NewQuery(r.http.URL).Err(); err != nil {
			return err
		}
	}
	if rt.subject == nil {
		return nil
	}
	return rt.subject(r.http.Context(), r)
}

// readBody reads the body and, for a write, sets the id of its command.
func (a *API) readBody(w http.ResponseWriter, r *request, rt route) (err error) {
	if rt.body != decode.BodyIgnored {
		if err := a.placeBody(r); err != nil {
			return err
		}
	}
	if r.body, err = decode.Body(w, r.http, rt.body); err != nil {
		return err
	}
	sum := sha256.Sum256(r.body)
	r.bodyHash = sum[:]
	if rt.writes() {
		r.commandID, err = a.newCommandID(r)
	}
	return err
}
