// Command install fetches the Kafka that tests run into the user's cache folder,
// unless it is there, and checks every file of it.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/lumenhook/lumenhook/internal/kafkatest"
)

func main() {
	dir, err := kafkatest.Install(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("Kafka is in", dir)
}
