package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// sources reads the comment markers of the Go types (`+optional`, `+listType=map`). The server does not publish the
// fields of newer types, and its OpenAPI is made from the same markers.
type sources struct {
	cache    string
	packages map[string][]*ast.File
}

func newSources() (*sources, error) {
	cache, err := exec.Command("go", "env", "GOMODCACHE").Output()
	return &sources{strings.TrimSpace(string(cache)), map[string][]*ast.File{}}, err
}

// files parses a package of one of the modules of Kubernetes.
func (s *sources) files(path string) ([]*ast.File, error) {
	if files, ok := s.packages[path]; ok {
		return files, nil
	}
	parts := strings.SplitN(path, "/", 3)
	module := parts[0] + "/" + parts[1]
	folder := filepath.Join(s.cache, module+"@"+moduleVersion(module), parts[2])
	names, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return nil, err
	}
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") || strings.HasPrefix(filepath.Base(name), "zz_generated") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	s.packages[path] = files
	return files, nil
}

// property returns the OpenAPI schema of a field in the newer release, and whether the field is required.
func (s *sources) property(f field) (*property, bool, error) {
	files, err := s.files(f.Package)
	if err != nil {
		return nil, false, err
	}
	found := structField(files, f)
	if found == nil {
		return nil, false, fmt.Errorf("no source of %s.%s.%s", f.Package, f.Struct, f.GoName)
	}
	markers := markersOf(found.Doc)
	p := &property{ListType: markers.first("listType"), ListKeys: markers["listMapKey"], MapType: markers.first("mapType")}
	if text := markers.first("default"); text != "" {
		p.Default = json.RawMessage(text)
	}
	p.Enum = enumOf(files, found.Type)
	_, optional := markers["optional"]
	_, required := markers["required"]
	return p, required || !optional && !f.OmitEmpty, nil
}

// specs calls a function for each type or constant of a package, with its comment.
func specs(files []*ast.File, visit func(*ast.CommentGroup, ast.Spec)) {
	for _, file := range files {
		for _, declaration := range file.Decls {
			general, ok := declaration.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range general.Specs {
				doc := general.Doc
				if typ, ok := spec.(*ast.TypeSpec); ok && typ.Doc != nil {
					doc = typ.Doc
				}
				visit(doc, spec)
			}
		}
	}
}

func structField(files []*ast.File, f field) (found *ast.Field) {
	specs(files, func(_ *ast.CommentGroup, spec ast.Spec) {
		typ, ok := spec.(*ast.TypeSpec)
		if !ok || typ.Name.Name != f.Struct {
			return
		}
		if body, ok := typ.Type.(*ast.StructType); ok {
			for _, member := range body.Fields.List {
				named := slices.ContainsFunc(member.Names, func(name *ast.Ident) bool { return name.Name == f.GoName })
				if named || len(member.Names) == 0 && embeddedName(member.Type) == f.GoName {
					found = member
				}
			}
		}
	})
	return found
}

// embeddedName returns the name of the field of an embedded type.
func embeddedName(typ ast.Expr) string {
	switch typ := typ.(type) {
	case *ast.SelectorExpr:
		return typ.Sel.Name
	case *ast.Ident:
		return typ.Name
	}
	return ""
}

// enumOf returns the sorted values of a type with the marker `+enum`, or of the list or pointer of such a type.
func enumOf(files []*ast.File, typ ast.Expr) (values []string) {
	switch outer := typ.(type) {
	case *ast.StarExpr:
		return enumOf(files, outer.X)
	case *ast.ArrayType:
		return enumOf(files, outer.Elt)
	}
	name, ok := typ.(*ast.Ident)
	if !ok {
		return nil
	}
	marked := false
	specs(files, func(doc *ast.CommentGroup, spec ast.Spec) {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			if spec.Name.Name == name.Name {
				_, marked = markersOf(doc)["enum"]
			}
		case *ast.ValueSpec:
			if of, ok := spec.Type.(*ast.Ident); ok && of.Name == name.Name {
				for _, value := range spec.Values {
					if literal, ok := value.(*ast.BasicLit); ok && literal.Kind == token.STRING {
						text, _ := strconv.Unquote(literal.Value)
						values = append(values, text)
					}
				}
			}
		}
	})
	if !marked {
		return nil
	}
	slices.Sort(values)
	return values
}

// markers are the lines `+key=value` of a comment, by key.
type markers map[string][]string

func (m markers) first(key string) string {
	if values := m[key]; len(values) > 0 {
		return values[0]
	}
	return ""
}

func markersOf(doc *ast.CommentGroup) markers {
	found := markers{}
	if doc == nil {
		return found
	}
	for _, comment := range doc.List {
		line := strings.TrimSpace(strings.TrimPrefix(comment.Text, "//"))
		if marker, ok := strings.CutPrefix(line, "+"); ok {
			key, value, _ := strings.Cut(marker, "=")
			found[key] = append(found[key], value)
		}
	}
	return found
}
