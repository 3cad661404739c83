package domain

// TestEventID derives the ID of a test's event from its command, so that a repeated command finds
// the delivery and doesn't send another test.
func TestEventID(commandID string) string {
	return DeriveID(EventPrefix, "test", commandID)
}

// DecideTest decides a request to send a test.ping, or a sample, which only has a different body.
// delivery is the delivery of [TestEventID]. If it exists, the command is a repeat and waits for
// the result of the first attempt, without a new fact. [TestAnswered] then answers the command.
func DecideTest(
	endpoint Endpoint, delivery Delivery, c Command, nowMillis int64,
) ([]FactBody, *Rejection) {
	switch {
	case delivery.awaitsTest():
		// The first answer is still pending, even if the endpoint has been deleted since.
		return nil, nil
	case !endpoint.visibleTo(c.AccountID):
		return nil, noEndpoint()
	case delivery.Exists():
		return nil, &Rejection{
			Code:   CodeAlreadyExists,
			Detail: "the test was sent and answered before, and that answer is forgotten",
		}
	case !endpoint.Sends():
		return nil, &Rejection{
			Code:   CodeEndpointDisabled,
			Detail: "the endpoint is disabled and nothing is sent to it; enable it first",
		}
	}
	event := NewTestEvent(endpoint, TestEventID(c.ID), nowMillis)
	if asked, _ := c.Body.(TestEndpoint); asked.Sample == PaymentReceived {
		event = NewSampleEvent(TestEventID(c.ID), nowMillis)
	}
	return []FactBody{DeliveryCreated{
		AccountID:    endpoint.AccountID,
		EndpointID:   endpoint.ID,
		Event:        event,
		TestBodyHash: c.BodyHash,
		Sequence:     endpoint.Sequence + 1,
	}}, nil
}

// TestAnswered returns the answer to the command that requested a test. delivery is the state
// before the attempt. It returns false unless this is the first attempt of a test.
func TestAnswered(delivery Delivery, made AttemptMade) (CommandHandled, bool) {
	if !delivery.awaitsTest() {
		return CommandHandled{}, false
	}
	return CommandHandled{
		CommandID: delivery.TestCommandID,
		BodyHash:  delivery.TestBodyHash,
		Answer:    Answer{Test: &TestResult{EventID: delivery.EventID, Result: made.Result}},
	}, true
}

// awaitsTest reports whether a command waits for the delivery's first attempt. If the delivery was
// cancelled, the command was answered then.
func (d Delivery) awaitsTest() bool {
	return d.TestCommandID != "" && d.Attempts == 0 && d.State.Pending()
}
