package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"waybill/internal/script"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"bundle": main})
}

func TestScripts(t *testing.T) {
	script.Run(t, script.Params("testdata/script", nil, nil))
}
