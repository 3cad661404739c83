package domain

// TestEventID derives the identifier of the event of a test command: a repeated command
// finds its delivery, and sends no second ping.
func TestEventID(commandID string) string {
	return DeriveID(EventPrefix, "test", commandID)
}

// DecideTest decides a request to send a test.ping, or a sample, which differs only in its body.
// Delivery is the delivery of [TestEventID], if it exists: then the command is a repeat, and waits
// for the first attempt (no fact). The command itself is answered when that attempt has ended:
// [TestAnswered].
func DecideTest(
	endpoint Endpoint, delivery Delivery, c Command, nowMillis int64,
) ([]FactBody, *Rejection) {
	switch {
	case delivery.awaitsTest():
		// even if the endpoint was deleted since: the first answer is still to come
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

// TestAnswered returns the answer to the command that requested a test, given the delivery
// before the attempt. It returns false for every attempt but the first of a test.ping.
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

// awaitsTest reports whether a command waits for the delivery's first attempt. A
// cancelled one was answered when it was cancelled.
func (d Delivery) awaitsTest() bool {
	return d.TestCommandID != "" && d.Attempts == 0 && d.State.Pending()
}
