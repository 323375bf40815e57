// Command parity runs the commands of the trace parity suite with client-go: informers on a scripted server,
// and work queues and leader elections under scripted operations.
//
// It reads one command per line on standard input and writes one reply per line on standard output, as JSON. Jobs are
// independent of each other; the commands of one job run in order.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"sync"
	"testing"

	"k8s.io/klog/v2"
)

// command is one line of the input.
type command struct {
	Job string `json:"job"`
	Do  string `json:"do"`
	// Fields of "start".
	URL       string `json:"url"`
	Streaming bool   `json:"streaming"`
	ResyncMs  int64  `json:"resync_ms"`
	// The field of commands for one handler.
	Handler string `json:"handler"`
	// The field of "queue".
	Queue []operation `json:"queue"`
	// The field of "election".
	Election []operation `json:"election"`
}

// reply is one line of the output.
type reply struct {
	Job string `json:"job"`
	// The trace since the last reply.
	Entries []entry `json:"entries"`
	// The result of each operation of "queue" and "election".
	Lines []string `json:"lines,omitempty"`
	Error string   `json:"error,omitempty"`
}

// writer writes replies of all jobs, one at a time.
type writer struct {
	mu      sync.Mutex
	encoder *json.Encoder
}

func (w *writer) write(r reply) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.encoder.Encode(r); err != nil {
		fmt.Fprintln(os.Stderr, "parity: cannot reply:", err)
		os.Exit(1)
	}
}

// work runs the commands of one job.
func work(t *testing.T, commands <-chan command, out *writer) {
	s := &session{}
	for c := range commands {
		r := reply{Job: c.Job}
		if c.Do == "queue" {
			r.Lines = runQueue(c.Queue)
		} else if c.Do == "election" {
			r.Lines = runElection(t, c.Election)
		} else if err := s.do(c); err != nil {
			r.Error = err.Error()
		}
		r.Entries = s.take()
		out.write(r)
	}
}

func main() {
	quiet := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(quiet)
	for name, value := range map[string]string{"logtostderr": "false", "stderrthreshold": "FATAL"} {
		if err := quiet.Set(name, value); err != nil {
			fmt.Fprintln(os.Stderr, "parity:", err)
			os.Exit(1)
		}
	}
	klog.SetOutput(io.Discard)
	stdout := os.Stdout
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		fmt.Fprintln(os.Stderr, "parity:", err)
		os.Exit(1)
	}
	// The test framework prints to os.Stdout. Its output must not mix with the replies.
	os.Stdout = null
	serve := func(t *testing.T) { serve(t, stdout) }
	// Everything runs in one test, because only a test can create the virtual time of elections.
	testing.Main(
		func(string, string) (bool, error) { return true, nil },
		[]testing.InternalTest{{Name: "parity", F: serve}}, nil, nil,
	)
}

// serve runs the commands that it reads, until the end of its input.
func serve(t *testing.T, stdout io.Writer) {
	out := &writer{encoder: json.NewEncoder(stdout)}
	jobs := map[string]chan command{}
	var working sync.WaitGroup
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var c command
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			fmt.Fprintln(os.Stderr, "parity: a command is not JSON:", err)
			os.Exit(1)
		}
		commands, ok := jobs[c.Job]
		if !ok {
			commands = make(chan command, 16)
			jobs[c.Job] = commands
			working.Add(1)
			go func() {
				defer working.Done()
				work(t, commands, out)
			}()
		}
		commands <- c
		if c.Do == "stop" || c.Do == "queue" || c.Do == "election" {
			close(commands)
			delete(jobs, c.Job)
		}
	}
	for _, commands := range jobs {
		close(commands)
	}
	working.Wait()
}
