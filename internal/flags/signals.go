package flags

import (
	"os"
	"os/signal"
	"syscall"
)

// Interrupts are the signals that end a program in good order: of the keyboard, of
// who manages processes, and of a terminal that is gone. Who started it with
// hang-ups ignored, as nohup does, wants it to outlive the terminal.
func Interrupts() []os.Signal {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signals
}
