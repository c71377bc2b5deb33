package rollout_test

import (
	"context"
	"fmt"

	"k8s.io/client-go/kubernetes/fake"

	"waybill/rollout"
)

func ExampleRunner_Status() {
	runner := rollout.NewRunner(rollout.Config{Client: fake.NewClientset()})
	_, err := runner.Status(context.Background(), "shop")
	fmt.Println(err)
	// Output: no instance "shop" is recorded; none is known
}
