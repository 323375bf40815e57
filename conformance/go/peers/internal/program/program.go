// Package program is shared by the programs that run unchanged against a server: steps with results, counted
// requests, and the printed verdict.
package program

import (
	"context"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Patience is the maximum time of a step that waits for the server or the program. kube-controller-manager
// discovers new kinds every 30 s, and collects the objects that they own after that.
const Patience = 90 * time.Second

// limit is the timeout of the whole program.
const limit = 4 * time.Minute

const protobuf = "application/vnd.kubernetes.protobuf"

// Step is the result of one step.
type Step struct {
	Name    string  `json:"name"`
	Failure *string `json:"failure"`
	Seconds float64 `json:"seconds"`
}

// Verdict is the printed result of a program.
type Verdict struct {
	Steps   []Step           `json:"steps"`
	Figures map[string]int64 `json:"figures"`
}

// Run is a running program.
type Run struct {
	Config *rest.Config
	// Name is different in each run.
	Name    string
	verdict Verdict

	requests, sent, received atomic.Int64
}

// Main runs a program with the kubeconfig file of its argument, and prints its verdict.
func Main(name string, body func(context.Context, *Run)) {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage:", name, "KUBECONFIG")
		os.Exit(2)
	}
	config, err := clientcmd.BuildConfigFromFlags("", os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	run := &Run{Config: config, Name: fmt.Sprintf("%s-%x", name, time.Now().UnixNano()&0xffffff)}
	// The transport only observes, so requests and encodings are the library's defaults.
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return counting{run, next} })
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	body(ctx, run)
	run.verdict.Figures = map[string]int64{
		"requests":          run.requests.Load(),
		"protobuf sent":     run.sent.Load(),
		"protobuf received": run.received.Load(),
	}
	if err := json.NewEncoder(os.Stdout).Encode(run.verdict); err != nil {
		os.Exit(1)
	}
}

// Step runs one step and records its result. A panic of the step is its failure.
func (r *Run) Step(name string, body func() error) {
	began := time.Now()
	err := func() (err error) {
		defer func() {
			if panicked := recover(); panicked != nil {
				err = fmt.Errorf("panicked: %v", panicked)
			}
		}()
		return body()
	}()
	step := Step{Name: name, Seconds: time.Since(began).Seconds()}
	if err != nil {
		text := err.Error()
		step.Failure = &text
	}
	r.verdict.Steps = append(r.verdict.Steps, step)
}

// Until repeats a request until it succeeds, and fails with the last error.
func Until(ctx context.Context, ask func() error) error {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	for {
		err := ask()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not within %v: %w", Patience, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Protobuf fails if the library received or sent no protobuf.
func (r *Run) Protobuf() error {
	return Want("request and response bodies in protobuf exist", r.sent.Load() > 0 && r.received.Load() > 0, true)
}

// Want fails if two values differ.
func Want[T comparable](what string, have, want T) error {
	if have != want {
		return fmt.Errorf("%s: %v instead of %v", what, have, want)
	}
	return nil
}

type counting struct {
	run  *Run
	next http.RoundTripper
}

func (c counting) RoundTrip(request *http.Request) (*http.Response, error) {
	c.run.requests.Add(1)
	if request.Header.Get("Content-Type") == protobuf {
		c.run.sent.Add(1)
	}
	response, err := c.next.RoundTrip(request)
	if err == nil {
		kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
		if strings.HasPrefix(kind, protobuf) {
			c.run.received.Add(1)
		}
	}
	return response, err
}
