package registry_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	compiler "github.com/santhosh-tekuri/jsonschema/v6"

	"waybill/registry"
)

const inventorySchema = "../docs/schema/inventory.json"

// The published schema is that of the type. WAYBILL_UPDATE=1 writes it anew.
func TestInventorySchema(t *testing.T) {
	want, err := registry.InventorySchema()
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("WAYBILL_UPDATE") != "" {
		if err := os.WriteFile(inventorySchema, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := readFile(t, filepath.FromSlash(inventorySchema)); !bytes.Equal(got, want) {
		t.Errorf("%s is not that of the type", inventorySchema)
	}
}

// What is written fits it.
func TestInventoryFitsItsSchema(t *testing.T) {
	c, path := client(t, quick()), filepath.Join(t.TempDir(), "layout")
	store(t, c, path, "shop-1.0.0", newSample(t, "one"))
	held, err := c.Inventory(t.Context(), location(t, path), nil)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := held.WriteJSON(&out); err != nil {
		t.Fatal(err)
	}
	compiled, err := compiler.NewCompiler().Compile(filepath.FromSlash(inventorySchema))
	if err != nil {
		t.Fatal(err)
	}
	document, err := compiler.UnmarshalJSON(&out)
	if err != nil {
		t.Fatal(err)
	}
	if err := compiled.Validate(document); err != nil {
		t.Error(err)
	}
}
