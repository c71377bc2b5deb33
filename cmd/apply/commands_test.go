package main

import (
	"testing"

	"waybill/internal/script"
)

func TestCommands(t *testing.T) {
	script.CheckCommands(t, program(), run)
}
