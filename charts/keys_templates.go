package charts

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"text/template/parse"

	"helm.sh/helm/v3/pkg/chart"
)

// A templateReader follows values through templates without executing them:
// every branch is read, and what a template does with a place in the values is
// noted in the [keyNode] of that place. A field that is read becomes known; a
// map that is handed on whole becomes open.
type templateReader struct {
	defs  map[string]*parse.Tree // all named templates of the chart and its subcharts
	files map[*chart.Chart][]string

	values *keyNode // of the chart being read
	done   map[string]bool
	depth  int
	steps  int
}

func newTemplateReader() *templateReader {
	return &templateReader{defs: map[string]*parse.Tree{}, files: map[*chart.Chart][]string{}}
}

// addTemplates parses all templates, subcharts first, so that a parent's
// definition stands, as in Helm. What does not parse is left to the renderer.
func (r *templateReader) addTemplates(c *chart.Chart) {
	for _, d := range c.Dependencies() {
		r.addTemplates(d)
	}
	for _, f := range c.Templates {
		name := path.Join(c.ChartFullPath(), f.Name)
		trees := map[string]*parse.Tree{}
		tree := parse.New(name)
		tree.Mode = parse.SkipFuncCheck
		if _, err := tree.Parse(string(f.Data), "", "", trees); err != nil {
			continue
		}
		for _, name := range sortedKeys(trees) {
			r.defs[name] = trees[name]
		}
		if !strings.HasPrefix(path.Base(f.Name), "_") {
			r.files[c] = append(r.files[c], name)
		}
	}
}

// run reads the templates of one chart whose values begin at node.
func (r *templateReader) run(c *chart.Chart, node *keyNode) {
	r.values, r.done = node, map[string]bool{}
	for _, name := range r.files[c] {
		r.call(name, knownAs{{scope: true}})
	}
}

// A place is something a template holds: the scope (the dot a template file
// begins with), a place in the values, or a dict made on the way.
type place struct {
	scope bool
	node  *keyNode
	dict  map[string]knownAs
}

// knownAs are the places an expression may mean; none when it is nothing that
// leads to values.
type knownAs []place

const (
	mostPlaces = 8       // an expression's meanings
	mostDepth  = 40      // calls within calls
	mostSteps  = 500_000 // nodes read for one chart and its subcharts
)

func (k knownAs) with(more knownAs) knownAs {
	if len(more) == 0 || len(k) >= mostPlaces {
		return k
	}
	return append(k[:len(k):len(k)], more[:min(len(more), mostPlaces-len(k))]...)
}

// key tells calls with the same argument apart from others.
func (k knownAs) key() string {
	var b strings.Builder
	for _, p := range k {
		fmt.Fprintf(&b, "%t %p", p.scope, p.node)
		for _, name := range sortedKeys(p.dict) {
			fmt.Fprintf(&b, "{%s:%s}", name, p.dict[name].key())
		}
	}
	return b.String()
}

// open notes that the places are taken whole.
func (k knownAs) open() {
	for _, p := range k {
		if p.node != nil {
			p.node.open = true
		}
		for _, v := range p.dict {
			v.open()
		}
	}
}

// handOn is open, except for the whole values of a chart: those are handed on
// for context, for a checksum, or to have a computed path looked up.
func (k knownAs) handOn() {
	for _, p := range k {
		if p.node != nil && !p.node.chartRoot {
			p.node.open = true
		}
		for _, v := range p.dict {
			v.handOn()
		}
	}
}

// fields is what .a.b means under the places.
func (r *templateReader) fields(k knownAs, names []string) knownAs {
	for i, name := range names {
		var next knownAs
		for _, p := range k {
			switch {
			case p.scope && name == "Values":
				next = next.with(knownAs{{node: r.values}})
			case p.dict != nil:
				next = next.with(p.dict[name])
			case p.node != nil:
				next = next.with(knownAs{{node: p.node.child(name)}})
			}
		}
		if len(k) == 0 && name == "Values" {
			// A context handed over in a way not followed here.
			next = knownAs{{node: r.values}}
		}
		k = next
		if len(k) == 0 && !slices.Contains(names[i+1:], "Values") {
			return nil
		}
	}
	return k
}

// call reads a named template with its dot.
func (r *templateReader) call(name string, dot knownAs) {
	tree, ok := r.defs[name]
	if !ok || tree.Root == nil || r.depth > mostDepth {
		return
	}
	visit := name + " " + dot.key()
	if r.done[visit] {
		return
	}
	r.done[visit] = true
	r.depth++
	s := &templateScope{reader: r, dot: dot, vars: []variable{{name: "$", value: dot}}}
	s.list(tree.Root)
	r.depth--
}

// A templateScope is the reading of one template.
type templateScope struct {
	reader *templateReader
	dot    knownAs
	vars   []variable
}

type variable struct {
	name  string
	value knownAs
}

func (s *templateScope) list(list *parse.ListNode) {
	if list == nil {
		return
	}
	for _, n := range list.Nodes {
		s.node(n)
	}
}

func (s *templateScope) node(n parse.Node) {
	if s.reader.steps++; s.reader.steps > mostSteps {
		return
	}
	switch n := n.(type) {
	case *parse.ActionNode:
		s.pipe(n.Pipe)
	case *parse.IfNode:
		mark := len(s.vars)
		s.pipe(n.Pipe)
		s.branch(n.List, s.dot)
		s.branch(n.ElseList, s.dot)
		s.vars = s.vars[:mark]
	case *parse.WithNode:
		mark := len(s.vars)
		value := s.pipe(n.Pipe)
		s.branch(n.List, value)
		s.branch(n.ElseList, s.dot)
		s.vars = s.vars[:mark]
	case *parse.RangeNode:
		mark := len(s.vars)
		items := s.pipe(n.Pipe)
		items.handOn()
		if overValues(n.Pipe) {
			items.open()
		}
		for i := mark; i < len(s.vars); i++ {
			s.vars[i].value = nil // its items, of which nothing is known
		}
		s.branch(n.List, nil)
		s.branch(n.ElseList, s.dot)
		s.vars = s.vars[:mark]
	case *parse.TemplateNode:
		s.reader.call(n.Name, s.pipe(n.Pipe))
	}
}

// overValues is whether a range goes over all values of a chart, in so many
// words: range .Values.
func overValues(p *parse.PipeNode) bool {
	if len(p.Cmds) != 1 || len(p.Cmds[0].Args) != 1 {
		return false
	}
	var names []string
	switch n := p.Cmds[0].Args[0].(type) {
	case *parse.FieldNode:
		names = n.Ident
	case *parse.VariableNode:
		names = n.Ident
	}
	return len(names) > 0 && names[len(names)-1] == "Values"
}

func (s *templateScope) branch(list *parse.ListNode, dot knownAs) {
	mark, before := len(s.vars), s.dot
	s.dot = dot
	s.list(list)
	s.dot, s.vars = before, s.vars[:mark]
}

func (s *templateScope) pipe(p *parse.PipeNode) knownAs {
	if p == nil {
		return nil
	}
	var value knownAs
	for i, cmd := range p.Cmds {
		value = s.command(cmd, value, i > 0)
	}
	for _, v := range p.Decl {
		s.declare(v.Ident[0], value, p.IsAssign)
	}
	return value
}

// declare sets a variable. One that is assigned again may still mean what it
// meant before, when a branch is not taken.
func (s *templateScope) declare(name string, value knownAs, again bool) {
	if again {
		for i := len(s.vars) - 1; i >= 0; i-- {
			if s.vars[i].name == name {
				s.vars[i].value = s.vars[i].value.with(value)
				return
			}
		}
	}
	s.vars = append(s.vars, variable{name: name, value: value})
}

func (s *templateScope) variable(name string) knownAs {
	for i := len(s.vars) - 1; i >= 0; i-- {
		if s.vars[i].name == name {
			return s.vars[i].value
		}
	}
	return nil
}

func (s *templateScope) command(cmd *parse.CommandNode, final knownAs, piped bool) knownAs {
	if s.reader.steps++; s.reader.steps > mostSteps {
		return nil
	}
	first := cmd.Args[0]
	if ident, ok := first.(*parse.IdentifierNode); ok {
		args := make([]argument, 0, len(cmd.Args))
		for _, a := range cmd.Args[1:] {
			args = append(args, s.argument(a))
		}
		if piped {
			args = append(args, argument{value: final})
		}
		return s.function(ident.Ident, args)
	}
	value := s.argument(first).value
	for _, a := range cmd.Args[1:] { // of a method
		s.argument(a)
	}
	return value
}

// An argument of a function: places, or a text that stands there.
type argument struct {
	value   knownAs
	text    string
	literal bool
}

func (s *templateScope) argument(n parse.Node) argument {
	switch n := n.(type) {
	case *parse.DotNode:
		return argument{value: s.dot}
	case *parse.FieldNode:
		return argument{value: s.reader.fields(s.dot, n.Ident)}
	case *parse.VariableNode:
		return argument{value: s.reader.fields(s.variable(n.Ident[0]), n.Ident[1:])}
	case *parse.ChainNode:
		return argument{value: s.reader.fields(s.argument(n.Node).value, n.Field)}
	case *parse.PipeNode:
		mark := len(s.vars)
		value := s.pipe(n)
		s.vars = s.vars[:mark]
		return argument{value: value}
	case *parse.IdentifierNode:
		return argument{value: s.function(n.Ident, nil)}
	case *parse.StringNode:
		return argument{text: n.Text, literal: true}
	}
	return argument{}
}
