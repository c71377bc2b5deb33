package registry

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/invopop/jsonschema"
)

// InventorySchema returns the JSON Schema (2020-12) of an [Inventory], made from
// the type.
func InventorySchema() ([]byte, error) {
	schema := (&jsonschema.Reflector{Anonymous: true, ExpandedStruct: true}).Reflect(Inventory{})
	schema.Title = "Waybill inventory"
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(schema); err != nil {
		return nil, fmt.Errorf("writing the schema of an inventory: %w", err)
	}
	return out.Bytes(), nil
}
