package charts

import (
	"maps"
	"strings"
)

// scalarFunctions only look at their arguments: a map given to them stays a map
// of known keys. They are those of text/template, sprig and Helm that make
// text, numbers or booleans.
var scalarFunctions = stringSet(`
	not empty eq ne lt le gt ge len print printf println html js urlquery call
	quote squote toString toStrings int int64 float64 atoi toDecimal
	trunc trim trimAll trimSuffix trimPrefix hasPrefix hasSuffix contains replace lower upper title
	untitle repeat substr nospace initials wrap wrapWith abbrev abbrevboth camelcase kebabcase snakecase swapcase plural
	indent nindent cat join splitList split splitn sortAlpha
	b64enc b64dec b32enc b32dec sha1sum sha256sum sha512sum adler32sum bcrypt htpasswd derivePassword encryptAES decryptAES
	add add1 sub mul div mod max min ceil floor round addf subf mulf divf until untilStep seq
	kindIs kindOf typeIs typeOf typeIsLike deepEqual fail
	semver semverCompare regexMatch mustRegexMatch regexFind regexFindAll regexReplaceAll regexReplaceAllLiteral regexSplit regexQuoteMeta
	genCA genSelfSignedCert genSignedCert genCAWithKey genPrivateKey buildCustomCert randAlphaNum randAlpha randNumeric randAscii uuidv4
	now date dateInZone ago htmlDate duration durationRound toDate unixEpoch
	base dir ext clean isAbs osBase osDir urlParse urlJoin getHostByName lookup
	fromYaml fromYamlArray fromJson fromJsonArray fromToml`)

// passingFunctions return one of their arguments, or several made into one.
var passingFunctions = stringSet(`
	default coalesce and or ternary required tpl
	merge mergeOverwrite mustMerge mustMergeOverwrite deepCopy mustDeepCopy
	first last initial rest reverse compact uniq concat append prepend without list tuple`)

func stringSet(words string) map[string]bool {
	set := map[string]bool{}
	for word := range strings.FieldsSeq(words) {
		set[word] = true
	}
	return set
}

// function is what a call returns, as far as it leads to values.
func (s *templateScope) function(name string, args []argument) knownAs {
	switch {
	case scalarFunctions[name]:
		return nil
	case passingFunctions[name]:
		return passed(name, args)
	}
	switch name {
	case "include":
		return s.include(args)
	case "dict":
		return makeDict(args)
	case "index":
		return s.index(args)
	case "get", "hasKey", "set", "unset":
		return s.keyed(name, args)
	case "pluck":
		return s.pluck(args)
	case "dig":
		return s.dig(args)
	case "pick", "omit":
		return s.pick(args)
	}
	for _, a := range args { // toYaml, keys, and whatever else takes a map whole
		a.value.handOn()
	}
	return nil
}

func passed(name string, args []argument) knownAs {
	var all knownAs
	for _, a := range args {
		all = all.with(a.value)
	}
	if name == "tpl" && len(args) > 0 {
		args[0].value.handOn() // made of a map, it would be the map's text
		return nil
	}
	return all
}

func (s *templateScope) include(args []argument) knownAs {
	if len(args) < 2 {
		return nil
	}
	if !args[0].literal {
		args[1].value.handOn()
		return nil
	}
	s.reader.call(args[0].text, args[1].value)
	return nil
}

func makeDict(args []argument) knownAs {
	dict := map[string]knownAs{}
	for i := 0; i+1 < len(args); i += 2 {
		if !args[i].literal {
			args[i+1].value.handOn()
			continue
		}
		dict[args[i].text] = args[i+1].value
	}
	return knownAs{{dict: dict}}
}

// index is index X "a" "b".
func (s *templateScope) index(args []argument) knownAs {
	if len(args) == 0 {
		return nil
	}
	value := args[0].value
	for _, key := range args[1:] {
		if !key.literal {
			value.handOn()
			return nil
		}
		value = s.reader.fields(value, []string{key.text})
	}
	return value
}

// keyed are the functions F X "key" …
func (s *templateScope) keyed(name string, args []argument) knownAs {
	if len(args) < 2 {
		return nil
	}
	target, key := args[0].value, args[1]
	if !key.literal {
		if name != "set" {
			target.handOn()
		}
		return target
	}
	switch name {
	case "get":
		return s.reader.fields(target, []string{key.text})
	case "set":
		return setKey(target, key.text, args[2:])
	}
	s.reader.fields(target, []string{key.text})
	return target
}

// setKey follows values into a dict. Into the values themselves only the key
// is noted, since set is how charts keep what they worked out.
func setKey(target knownAs, key string, value []argument) knownAs {
	for i, p := range target {
		switch {
		case p.dict != nil && len(value) > 0:
			dict := maps.Clone(p.dict)
			dict[key] = dict[key].with(value[0].value)
			target[i].dict = dict
		case p.node != nil:
			p.node.child(key)
		}
	}
	return target
}

// pluck is pluck "key" X Y…
func (s *templateScope) pluck(args []argument) knownAs {
	var all knownAs
	for _, a := range args[min(1, len(args)):] {
		if !args[0].literal {
			a.value.handOn()
			continue
		}
		all = all.with(s.reader.fields(a.value, []string{args[0].text}))
	}
	return all
}

// dig is dig "a" "b" DEFAULT X.
func (s *templateScope) dig(args []argument) knownAs {
	if len(args) < 3 {
		return nil
	}
	value := args[len(args)-1].value
	for _, key := range args[:len(args)-2] {
		if !key.literal {
			value.handOn()
			return nil
		}
		value = s.reader.fields(value, []string{key.text})
	}
	return value.with(args[len(args)-2].value)
}

// pick is pick X "a" "b", and omit.
func (s *templateScope) pick(args []argument) knownAs {
	if len(args) == 0 {
		return nil
	}
	for _, key := range args[1:] {
		if key.literal {
			s.reader.fields(args[0].value, []string{key.text})
		}
	}
	return args[0].value
}
