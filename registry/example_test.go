package registry_test

import (
	"context"
	"errors"
	"fmt"

	"waybill/registry"
)

func ExampleParseLocation() {
	l, err := registry.ParseLocation("oci://registry.example/shop:1.0.0")
	fmt.Println(l.Kind, l.Ref.Tag, err)

	_, err = registry.ParseLocation("registry.example/shop:1.0.0")
	fmt.Println(err)
	// Output:
	// registry 1.0.0 <nil>
	// location "registry.example/shop:1.0.0" is neither a registry location nor something that exists; did you mean oci://registry.example/shop:1.0.0?
}

func ExampleClient_Open() {
	client, err := registry.NewClient(registry.Settings{})
	if err != nil {
		fmt.Println(err)
		return
	}
	l, err := registry.ParseLocation("./nowhere.tar")
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = client.Open(context.Background(), l)
	var wrong *registry.LocationError
	fmt.Println(errors.As(err, &wrong), err)
	// Output: true location "./nowhere.tar" does not exist
}
