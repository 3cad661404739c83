package api

import (
	"fmt"
	"maps"
	"slices"

	"github.com/lumenhook/lumenhook/domain"
)

// sealHeaders seals the given values before they leave the API. A value that the endpoint
// has already keeps its seal, so that setting it again changes nothing.
func (a *API) sealHeaders(
	endpointID string, wanted wantedHeaders, have []domain.Header,
) ([]domain.Header, error) {
	present := make(map[string][]byte, len(have))
	for _, h := range have {
		present[h.Name] = h.Sealed
	}
	headers := make([]domain.Header, 0, len(wanted))
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		h := domain.Header{Name: name}
		given := wanted[name]
		if sealed, has := present[name]; has && !given.unchanged {
			value, err := a.Sealer.Open(sealed, h.SealedFor(endpointID))
			given.unchanged = err == nil && string(value) == given.value // else it is replaced
		}
		if !given.unchanged {
			var err error
			if h.Sealed, err = a.Sealer.Seal([]byte(given.value), h.SealedFor(endpointID)); err != nil {
				return nil, fmt.Errorf("sealing the header %s of %s: %w", name, endpointID, err)
			}
		}
		headers = append(headers, h)
	}
	return headers, nil
}

// openHeaders returns an endpoint's own headers in the clear, and the names of those whose
// value cannot be opened.
func (a *API) openHeaders(
	e domain.Endpoint,
) (values map[string]string, lost []string, cause error) {
	values = make(map[string]string, len(e.Headers))
	for _, h := range e.Headers {
		value, err := a.Sealer.Open(h.Sealed, h.SealedFor(e.ID))
		if err != nil {
			lost, cause = append(lost, h.Name),
				fmt.Errorf("opening the header %s of %s: %w", h.Name, e.ID, err)
			continue
		}
		values[h.Name] = string(value)
	}
	return values, lost, cause
}
