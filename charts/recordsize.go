package charts

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/release"
	helmtime "helm.sh/helm/v3/pkg/time"
)

// RecordLimit is how many bytes a Secret may hold (MaxSecretSize of the
// Kubernetes API), and so how large the record of a Helm release may be.
const RecordLimit = 1 << 20

// recordWarnAt is the share of the limit from which the record is called large:
// what values, cluster and Helm add later must still fit.
const recordWarnAt = RecordLimit * 7 / 10

// A RecordSize says how large the Secret is in which Helm keeps a release.
type RecordSize struct {
	Bytes int // as Helm's Secret driver encodes it
	Limit int // [RecordLimit]
	// Largest are the parts that weigh most, the heaviest first.
	Largest []RecordPart
}

// A RecordPart is one part of a record.
type RecordPart struct {
	Name  string // a file of the chart, or "rendered manifest", "values"
	Bytes int    // about what it adds to the record
	// Ignorable is whether .helmignore can leave it out without changing what
	// is rendered: no template, and no template names it.
	Ignorable bool
}

// TooLarge is whether the API server would refuse the record.
func (s RecordSize) TooLarge() bool { return s.Bytes > s.Limit }

// Large is whether the record is beyond 70 % of what the API server takes.
func (s RecordSize) Large() bool { return s.Bytes >= recordWarnAt }

// Advice is what to do about a record that is too large, in one line; it is
// empty when there is nothing to do.
func (s RecordSize) Advice() string {
	if !s.Large() {
		return ""
	}
	var files, all []string
	for _, p := range s.Largest {
		text := fmt.Sprintf("%s (%d KiB)", p.Name, (p.Bytes+1023)/1024)
		all = append(all, text)
		if p.Ignorable {
			files = append(files, text)
		}
	}
	if len(files) > 0 {
		return "the chart does not need these to render, list them in its .helmignore: " + strings.Join(files, ", ")
	}
	return "largest parts: " + strings.Join(all, ", ")
}

// RecordSize says how large Helm's record of the rendered chart will be. The
// rendering must be this chart's; nil is for one that does not render yet: then
// the chart alone is measured, which every record holds.
func (c *Chart) RecordSize(rendered *Rendered) (RecordSize, error) {
	if rendered == nil {
		loaded, err := c.load()
		if err != nil {
			return RecordSize{}, &InvalidError{Chart: c.title(), Err: err}
		}
		rendered = &Rendered{record: &release.Release{Name: c.Name(), Chart: loaded}}
	}
	n, err := recordBytes(rendered.record)
	if err != nil {
		return RecordSize{}, fmt.Errorf("measuring the record of chart %s: %w", c.title(), err)
	}
	size := RecordSize{Bytes: n, Limit: RecordLimit}
	if size.Large() {
		size.Largest = largestParts(rendered.record)
	}
	return size, nil
}

// recordBytes encodes a record as Helm's Secret driver does (JSON, gzip, base64).
func recordBytes(record *release.Release) (int, error) {
	data, err := json.Marshal(timeless(record))
	if err != nil {
		return 0, err
	}
	return packedBytes(data)
}

// timeless is the record at a fixed hour: how well the digits of the clock
// compress would otherwise move its size by a few bytes.
func timeless(record *release.Release) *release.Release {
	at := *record
	if record.Info != nil {
		info, hour := *record.Info, helmtime.Unix(1_700_000_000, 123_456_789).UTC()
		info.FirstDeployed, info.LastDeployed = hour, hour
		at.Info = &info
	}
	return &at
}

func packedBytes(data []byte) (int, error) {
	var packed bytes.Buffer
	zw, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return 0, err
	}
	if _, err := zw.Write(data); err != nil {
		return 0, err
	}
	if err := zw.Close(); err != nil {
		return 0, err
	}
	return base64.StdEncoding.EncodedLen(packed.Len()), nil
}

func largestParts(record *release.Release) []RecordPart {
	const most = 5
	var parts []RecordPart
	add := func(name string, data []byte, ignorable bool) {
		const least = 8 << 10
		if len(data) < least {
			return
		}
		if n, err := packedBytes(data); err == nil {
			parts = append(parts, RecordPart{Name: name, Bytes: n, Ignorable: ignorable})
		}
	}
	templates := &strings.Builder{}
	for _, f := range record.Chart.Templates {
		templates.Write(f.Data)
		add(f.Name, inJSON(f.Data), false)
	}
	for _, f := range record.Chart.Files {
		add(f.Name, inJSON(f.Data), ignorable(f.Name, templates.String()))
	}
	add("values.schema.json", inJSON(record.Chart.Schema), false)
	add("rendered manifest", []byte(record.Manifest), false)
	var hooks bytes.Buffer
	for _, h := range record.Hooks {
		hooks.WriteString(h.Manifest)
	}
	add("rendered hooks", hooks.Bytes(), false)
	if config, err := json.Marshal(record.Config); err == nil {
		add("values", config, false)
	}
	slices.SortStableFunc(parts, func(a, b RecordPart) int { return b.Bytes - a.Bytes })
	return parts[:min(len(parts), most)]
}

// inJSON is how a file's bytes stand in the record.
func inJSON(data []byte) []byte {
	return []byte(base64.StdEncoding.EncodeToString(data))
}

// ignorable is whether leaving the file out changes nothing that is rendered,
// as far as the text of the templates tells: nobody reads it by name, by
// folder or by its ending.
func ignorable(name, templates string) bool {
	if strings.HasPrefix(name, "crds/") {
		return false
	}
	if !strings.Contains(templates, ".Files") {
		return true
	}
	if strings.Contains(templates, path.Base(name)) {
		return false
	}
	dir, _, below := strings.Cut(name, "/")
	if below && strings.Contains(templates, dir) {
		return false
	}
	return !strings.Contains(templates, "*"+path.Ext(name))
}
