package registry_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/invopop/jsonschema"
	compiler "github.com/santhosh-tekuri/jsonschema/v6"

	"waybill/registry"
)

const inventorySchema = "../docs/schema/inventory.json"

// The published schema is that of the type. WAYBILL_UPDATE=1 writes it anew.
func TestInventorySchema(t *testing.T) {
	schema := (&jsonschema.Reflector{Anonymous: true, ExpandedStruct: true}).Reflect(registry.Inventory{})
	schema.Title = "Waybill inventory"
	var want bytes.Buffer
	enc := json.NewEncoder(&want)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(schema); err != nil {
		t.Fatal(err)
	}
	if os.Getenv("WAYBILL_UPDATE") != "" {
		if err := os.WriteFile(inventorySchema, want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := readFile(t, filepath.FromSlash(inventorySchema)); !bytes.Equal(got, want.Bytes()) {
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
