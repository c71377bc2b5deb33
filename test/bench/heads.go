//go:build linux

package main

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
)

// headConcurrency is what bundle has by default.
const headConcurrency = 8

// writeHeads writes down what to ask for, for [askHeads].
func writeHeads(file string, r repository, all inventory) error {
	var lines strings.Builder
	for _, desc := range all.blobs {
		fmt.Fprintf(&lines, "%s http://%s/v2/%s/blobs/%s\n", desc.MediaType, r.registry.host, r.name, desc.Digest)
	}
	for _, desc := range all.manifests {
		fmt.Fprintf(&lines, "%s http://%s/v2/%s/manifests/%s\n", desc.MediaType, r.registry.host, r.name, desc.Digest)
	}
	return os.WriteFile(file, []byte(lines.String()), 0o600)
}

// askHeads is a program of its own: it asks a registry for everything in a file,
// and does nothing else. It is what looking at everything costs at least.
func askHeads(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: headConcurrency}}
	lines := make(chan string)
	failed := make(chan error, headConcurrency)
	var workers sync.WaitGroup
	for range headConcurrency {
		workers.Go(func() {
			for line := range lines {
				if err := ask(client, line); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	scanner := bufio.NewScanner(f)
	for scanner.Scan() {
		select {
		case lines <- scanner.Text():
		case err := <-failed:
			return err
		}
	}
	close(lines)
	workers.Wait()
	select {
	case err := <-failed:
		return err
	default:
		return scanner.Err()
	}
}

func ask(client *http.Client, line string) error {
	accept, at, _ := strings.Cut(line, " ")
	req, err := http.NewRequest(http.MethodHead, at, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", accept)
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("HEAD %s: %s", at, resp.Status)
	}
	return nil
}
