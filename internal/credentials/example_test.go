package credentials_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"oras.land/oras-go/v2/registry/remote/auth"

	"waybill/internal/credentials"
	"waybill/internal/ref"
)

func ExampleNew() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	store := credentials.New(credentials.Places{ConfigFile: filepath.Join(dir, "config.json")})
	_, plain, err := store.Put(context.Background(), "registry.example/team", auth.Credential{Username: "me", Password: "secret"})
	fmt.Println(plain, err)

	repository := ref.Reference{Host: "registry.example", Repository: "team/shop"}
	login, err := store.ForRepository(repository)(context.Background(), "registry.example")
	fmt.Println(login.Username, store.Knows(repository.Name()), err)
	// Output:
	// true <nil>
	// me true <nil>
}
