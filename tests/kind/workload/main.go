// What the pods of the kind suite run: stays until it is told to go, ignores being told, or ends by itself. Run once more
// in the same container with `end` it lets the first one end well, with `fail` badly.
package main

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM, syscall.SIGINT)
	done, broken := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(done, syscall.SIGUSR1)
	signal.Notify(broken, syscall.SIGUSR2)
	go func() {
		select {
		case <-done:
			os.Exit(0)
		case <-broken:
			os.Exit(1)
		}
	}()
	switch {
	case len(os.Args) == 1:
		<-told
	case os.Args[1] == "end":
		tellFirst(syscall.SIGUSR1)
	case os.Args[1] == "fail":
		tellFirst(syscall.SIGUSR2)
	case os.Args[1] == "ignore":
		for range told {
		}
	default:
		wait, err := time.ParseDuration(os.Args[1])
		if err != nil {
			panic(err)
		}
		select {
		case <-told:
			os.Exit(143)
		case <-time.After(wait):
		}
	}
}

func tellFirst(what syscall.Signal) {
	if err := syscall.Kill(1, what); err != nil {
		panic(err)
	}
}
