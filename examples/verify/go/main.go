// Command verify checks requests that were kept as files, as a receiver does:
//
//	verify SECRET KEYS FILE…
//
// KEYS are separated by commas. It prints a line for each file and signature.
package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
)

func main() {
	keys := strings.Split(os.Args[2], ",")
	for _, name := range os.Args[3:] {
		header, body, err := read(name)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		say(name, "v1", verify(os.Args[1], body, header))
		say(name, "v1a", verifyPublicly(keys, body, header))
	}
}

func read(name string) (http.Header, []byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	request, err := http.ReadRequest(bufio.NewReader(f))
	if err != nil {
		return nil, nil, err
	}
	body, err := io.ReadAll(request.Body)
	return request.Header, body, err
}

func say(name, version string, refused error) {
	if refused != nil {
		fmt.Println(name, version, "refused:", refused)
		return
	}
	fmt.Println(name, version, "verified")
}
