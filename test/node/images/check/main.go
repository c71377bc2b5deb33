// Command check asks every pod of its own namespace that has a label, KEY=VALUE,
// whether it is healthy. It finds them at the API server, for there is no name
// service: its service account must be allowed to list pods. An IP address in
// place of a label is asked itself.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"

	"waybill/test/node/images/incluster"
)

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "check:", err)
		os.Exit(1)
	}
}

func run(label string) error {
	if net.ParseIP(label) != nil {
		return healthy(label)
	}
	api, err := incluster.New()
	if err != nil {
		return err
	}
	answer, err := api.Do(http.MethodGet, "pods?labelSelector="+url.QueryEscape(label), nil)
	if err != nil {
		return err
	}
	var pods struct {
		Items []struct {
			Metadata struct{ Name string }
			Status   struct{ PodIP string }
		}
	}
	if err := json.Unmarshal(answer, &pods); err != nil {
		return err
	}
	if len(pods.Items) == 0 {
		return fmt.Errorf("no pod has label %s", label)
	}
	for _, pod := range pods.Items {
		if err := healthy(pod.Status.PodIP); err != nil {
			return fmt.Errorf("pod %s: %w", pod.Metadata.Name, err)
		}
		fmt.Println("pod", pod.Metadata.Name, "is healthy")
	}
	return nil
}

func healthy(ip string) error {
	resp, err := http.Get("http://" + ip + ":8080/healthz")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("answers %s", resp.Status)
	}
	return nil
}
