//go:build zz

package projections_test

import (
	"bufio"
	"fmt"
	"os"
	"testing"

	"github.com/lumenhook/lumenhook/internal/embedded/clickhouse"
	"github.com/lumenhook/lumenhook/internal/embedded/clickhouse/clickhousetest"
)

// serve the folder until stdin ends
func TestZZServe(t *testing.T) {
	e := clickhousetest.StartWith(t, clickhouse.Config{Program: clickhousetest.Program(t), DataDir: os.Getenv("ZZDIR"), NativeAddr: "127.0.0.1:39000", HTTPAddr: "127.0.0.1:38123"})
	fmt.Println(e.DSN(), e.HTTPURL(), e.PID())
	bufio.NewReader(os.Stdin).ReadString('\n')
}
