package tarball_test

import (
	"bytes"
	"fmt"

	"waybill/internal/tarball"
)

func ExampleReadGzip() {
	var archive bytes.Buffer
	err := tarball.WriteGzip(&archive, []tarball.File{
		{Name: "shop/values.yaml", Data: []byte("replicas: 2\n")},
		{Name: "shop/Chart.yaml", Data: []byte("name: shop\n")},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	files, err := tarball.ReadGzip(&archive, tarball.Limits{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, f := range files {
		fmt.Printf("%s %d bytes\n", f.Name, len(f.Data))
	}
	// Output:
	// shop/Chart.yaml 11 bytes
	// shop/values.yaml 12 bytes
}
