package bundle

// ParseRelease reads a release file. name is used in errors only. All that does
// not parse or does not fit the schema comes back in one [FileError]; what
// [Release.Check] finds is not looked for. Values are read as Helm reads them
// (YAML 1.1), numbers kept digit for digit as json.Number.
func ParseRelease(name string, data []byte) (*Release, error) {
	rel := new(Release)
	doc, err := parse("release", name, data, rel)
	if err != nil {
		return nil, err
	}
	rel.doc = doc
	return rel, nil
}

// ParseLock reads a lock. It accepts any YAML that fits the schema; compare
// with [Lock.Encode] to know whether the bytes are the one encoding. Errors as
// in [ParseRelease].
func ParseLock(name string, data []byte) (*Lock, error) {
	lock := new(Lock)
	if _, err := parse("lock", name, data, lock); err != nil {
		return nil, err
	}
	return lock, nil
}

// ParseSite reads a site file. Errors as in [ParseRelease]; whether it fits a
// release is asked with [Site.Check].
func ParseSite(name string, data []byte) (*Site, error) {
	site := new(Site)
	doc, err := parse("site", name, data, site)
	if err != nil {
		return nil, err
	}
	site.doc = doc
	return site, nil
}

// ParsePolicy reads a policy file: apiVersion, kind: Policy, and the fields of
// a verify block. Errors as in [ParseRelease].
func ParsePolicy(name string, data []byte) (*VerifyBlock, error) {
	policy := new(policyFile)
	if _, err := parse("policy", name, data, policy); err != nil {
		return nil, err
	}
	return &policy.VerifyBlock, nil
}

// ParseValues reads a values file: one mapping, or nothing but comments.
// Errors as in [ParseRelease].
func ParseValues(name string, data []byte) (map[string]any, error) {
	doc, problems := readDocument(data)
	if problems == nil {
		switch value := doc.value.(type) {
		case nil:
			return map[string]any{}, nil
		case map[string]any:
			return value, nil
		}
		problems = []Problem{problemAt(doc.root, "want a mapping of values")}
	}
	return nil, &FileError{File: name, Problems: problems}
}
