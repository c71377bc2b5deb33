// Command operator does what operators do: it starts a pod from an image that its
// arguments name (--workload-image=IMAGE) and is healthy once that pod runs.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"

	"waybill/test/node/images/incluster"
)

// workload is the name of the pod that is started.
const workload = "workload"

func main() {
	image := flag.String("workload-image", "", "image of the pod to start")
	flag.Parse()
	if err := run(*image); err != nil {
		fmt.Fprintln(os.Stderr, "operator:", err)
		os.Exit(1)
	}
}

func run(image string) error {
	api, err := incluster.New()
	if err != nil {
		return err
	}
	pod, err := json.Marshal(podOf(image))
	if err != nil {
		return err
	}
	if _, err := api.Do(http.MethodPost, "pods", pod); err != nil && !errors.Is(err, incluster.ErrExists) {
		return err
	}
	http.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if phase, err := phaseOf(api); err != nil || phase != "Running" {
			http.Error(w, fmt.Sprint(phase, err), http.StatusServiceUnavailable)
		}
	})
	return http.ListenAndServe(":8080", nil)
}

func podOf(image string) map[string]any {
	return map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"name": workload, "labels": map[string]any{"app": workload}},
		"spec": map[string]any{
			"terminationGracePeriodSeconds": 1,
			"containers":                    []any{map[string]any{"name": workload, "image": image}},
		},
	}
}

func phaseOf(api *incluster.API) (string, error) {
	answer, err := api.Do(http.MethodGet, "pods/"+workload, nil)
	if err != nil {
		return "", err
	}
	var pod struct{ Status struct{ Phase string } }
	err = json.Unmarshal(answer, &pod)
	return pod.Status.Phase, err
}
