package registry

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/opencontainers/go-digest"

	"waybill/internal/ref"
)

// An inventory in a file is described in docs/format.md, "Inventory".
const (
	inventoryFormat = "application/vnd.waybill.inventory.v1+json"
	inventoryFamily = "application/vnd.waybill.inventory."
	maxInventory    = 512 << 20
)

// Inventory is the shape of the file, which is written and read a blob at a time.
type Inventory struct {
	Format    string          `json:"format" jsonschema:"enum=application/vnd.waybill.inventory.v1+json" jsonschema_description:"What this document is."`
	Reference string          `json:"reference" jsonschema_description:"The place, as a location."`
	Roots     []HeldRoot      `json:"roots" jsonschema_description:"What somebody would open there, by tag."`
	Objects   int             `json:"objects" jsonschema:"minimum=0" jsonschema_description:"How many blobs and manifests there are."`
	Bytes     int64           `json:"bytes" jsonschema:"minimum=0" jsonschema_description:"How large they are together."`
	Blobs     []InventoryBlob `json:"blobs" jsonschema_description:"Every blob and manifest, by digest."`
}

// InventoryBlob is one line of an [Inventory].
type InventoryBlob struct {
	Digest digest.Digest `json:"digest" jsonschema:"pattern=^sha(256:[0-9a-f]{64}|512:[0-9a-f]{128})$" jsonschema_description:"Its digest."`
	Size   int64         `json:"size" jsonschema:"minimum=0" jsonschema_description:"Its size in bytes."`
}

// WriteJSON writes the file that [ReadHoldings] reads.
func (h *Holdings) WriteJSON(w io.Writer) error {
	size := h.Size()
	roots := h.Roots
	if roots == nil {
		roots = []HeldRoot{}
	}
	rootData, err := json.Marshal(roots)
	if err != nil {
		return err
	}
	reference, err := json.Marshal(h.Reference)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "{\n  \"format\": %q,\n  \"reference\": %s,\n  \"roots\": %s,\n  \"objects\": %d,\n  \"bytes\": %d,\n  \"blobs\": [", inventoryFormat, reference, rootData, size.Objects, size.Bytes)
	separator := "\n"
	err = h.Each(func(d digest.Digest, size int64) error {
		_, err := fmt.Fprintf(out, "%s    {\"digest\": %q, \"size\": %d}", separator, d, size)
		separator = ",\n"
		return err
	})
	if err != nil {
		return err
	}
	if _, err := io.WriteString(out, "\n  ]\n}\n"); err != nil {
		return err
	}
	return out.Flush()
}

// ReadHoldings reads what [Holdings.WriteJSON] wrote. name is the file, for
// messages.
//
// Errors: *ContentError.
func ReadHoldings(r io.Reader, name string) (*Holdings, error) {
	h := &Holdings{Reference: name}
	limited := &io.LimitedReader{R: r, N: maxInventory}
	dec := json.NewDecoder(bufio.NewReader(limited))
	if err := h.decode(dec); err != nil {
		if limited.N <= 0 {
			err = errors.New("it is larger than any is")
		}
		return nil, &ContentError{Ref: name, Reason: "is no inventory: " + err.Error(), Err: err}
	}
	return h, nil
}

func (h *Holdings) decode(dec *json.Decoder) error {
	if err := expect(dec, json.Delim('{')); err != nil {
		return err
	}
	format := ""
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return err
		}
		switch key {
		case "format":
			err = dec.Decode(&format)
		case "reference":
			err = dec.Decode(&h.Reference)
		case "roots":
			err = h.decodeRoots(dec)
		case "blobs":
			err = h.decodeBlobs(dec)
		default:
			err = dec.Decode(new(json.RawMessage))
		}
		if err != nil {
			return err
		}
	}
	switch {
	case format != inventoryFormat && strings.HasPrefix(format, inventoryFamily):
		return fmt.Errorf("it was made by a newer waybill (%s)", printable(format))
	case format != inventoryFormat:
		return fmt.Errorf("its format is %q, not %q", printable(format), inventoryFormat)
	}
	h.Reference = printable(h.Reference)
	return expect(dec, json.Delim('}'))
}

func expect(dec *json.Decoder, want json.Delim) error {
	got, err := dec.Token()
	if err == nil && got != want {
		err = fmt.Errorf("%v where %v should be", got, want)
	}
	return err
}

func (h *Holdings) decodeRoots(dec *json.Decoder) error {
	if err := dec.Decode(&h.Roots); err != nil {
		return err
	}
	if len(h.Roots) > maxBases {
		return fmt.Errorf("it names %d roots", len(h.Roots))
	}
	for i, r := range h.Roots {
		if err := ref.CheckDigest(r.Digest.String()); err != nil {
			return err
		}
		h.Roots[i].Tag, h.Roots[i].Name, h.Roots[i].Version = printable(r.Tag), printable(r.Name), printable(r.Version)
	}
	return nil
}

func (h *Holdings) decodeBlobs(dec *json.Decoder) error {
	if err := expect(dec, json.Delim('[')); err != nil {
		return err
	}
	for dec.More() {
		var b InventoryBlob
		if err := dec.Decode(&b); err != nil {
			return err
		}
		if err := ref.CheckDigest(b.Digest.String()); err != nil {
			return err
		}
		if b.Size < 0 || h.blobs.len() >= maxCopyNodes {
			return fmt.Errorf("%s: a size below zero, or more blobs than any place has", b.Digest)
		}
		h.blobs.add(b.Digest, b.Size)
	}
	return expect(dec, json.Delim(']'))
}

// BaseAt is what the receiver of a delta has who has what is at a place: its
// inventory, and for a delta what that leaves out too.
//
// Errors: those of [Client.Inventory].
func (c *Client) BaseAt(ctx context.Context, l Location, onRead func()) (*Holdings, error) {
	h, err := c.Inventory(ctx, l, onRead)
	if err != nil || h.Delta == nil {
		return h, err
	}
	for _, desc := range h.Delta.LeftOut {
		h.blobs.add(desc.Digest, desc.Size)
	}
	return h, nil
}
