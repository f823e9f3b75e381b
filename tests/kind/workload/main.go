// What the pods of the kind suite run: stays until it is told to go, ignores being told, or ends by itself.
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
	switch {
	case len(os.Args) == 1:
		<-told
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
