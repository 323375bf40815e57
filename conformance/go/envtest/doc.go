// Package envtest pins the version of controller-runtime whose own tests are run against a server.
package envtest

// The tests need more modules than this import: go get -t sigs.k8s.io/controller-runtime/pkg/... has added them.
import _ "sigs.k8s.io/controller-runtime/pkg/envtest"
