package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// roundTrip is the duration of a write that fails with a conflict.
const roundTrip = 10 * time.Millisecond

var leaseResource = coordinationv1.Resource("leases")

// electionRun is one Lease and its candidates. It runs in a synctest bubble, so waits of client-go use virtual time.
type electionRun struct {
	mu sync.Mutex
	// Nil if there is no Lease.
	lease   *coordinationv1.Lease
	version int
	faults  map[string]string
	skews   map[string]time.Duration
	stops   map[string]context.CancelFunc
	// The callbacks of the candidates since the last operation.
	said    []string
	running sync.WaitGroup
}

var elections sync.Mutex

// runElection plays a script. Only a test (t) can create a bubble of virtual time.
func runElection(t *testing.T, operations []operation) (lines []string) {
	elections.Lock()
	defer elections.Unlock()
	synctest.Test(t, func(*testing.T) {
		r := &electionRun{
			faults: map[string]string{},
			skews:  map[string]time.Duration{},
			stops:  map[string]context.CancelFunc{},
		}
		for _, o := range operations {
			lines = append(lines, r.line(o))
		}
		r.mu.Lock()
		clear(r.faults)
		r.mu.Unlock()
		for _, stop := range r.stops {
			stop()
		}
		r.running.Wait()
	})
	return lines
}

func (r *electionRun) line(o operation) string {
	words := []string{o.Do}
	if o.Key != "" {
		words = append(words, o.Key)
	}
	if o.Ms != 0 {
		words = append(words, fmt.Sprintf("%dms", o.Ms))
	}
	r.do(o)
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	// The order of goroutines that wake at the same time is undefined.
	slices.Sort(r.said)
	parts := append([]string{strings.Join(words, " ")}, r.said...)
	r.said = nil
	if r.lease == nil {
		return strings.Join(append(parts, "no lease"), "; ")
	}
	holder, transitions := "nobody", int32(0)
	if r.lease.Spec.HolderIdentity != nil && *r.lease.Spec.HolderIdentity != "" {
		holder = *r.lease.Spec.HolderIdentity
	}
	if r.lease.Spec.LeaseTransitions != nil {
		transitions = *r.lease.Spec.LeaseTransitions
	}
	return strings.Join(append(parts, fmt.Sprintf("lease of %s, %d transitions", holder, transitions)), "; ")
}

func (r *electionRun) do(o operation) {
	time.Sleep(0)
	switch o.Do {
	case "start":
		r.start(o.Key)
	case "stop":
		r.stops[o.Key]()
	case "advance":
		time.Sleep(time.Duration(o.Ms) * time.Millisecond)
	case "refuse", "hang", "conflict":
		r.mu.Lock()
		defer r.mu.Unlock()
		r.faults[o.Key] = o.Do
	case "heal":
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.faults, o.Key)
	case "ahead", "behind":
		r.mu.Lock()
		defer r.mu.Unlock()
		skew := time.Duration(o.Ms) * time.Millisecond
		if o.Do == "behind" {
			skew = -skew
		}
		r.skews[o.Key] = skew
	case "delete":
		r.mu.Lock()
		defer r.mu.Unlock()
		r.lease = nil
	case "take":
		r.mu.Lock()
		defer r.mu.Unlock()
		r.take(o.Key, int32(o.Ms/1000))
	}
}

// take makes a holder that is not a candidate take the Lease.
func (r *electionRun) take(holder string, seconds int32) {
	now := metav1.NowMicro()
	transitions := int32(0)
	if r.lease != nil && r.lease.Spec.LeaseTransitions != nil {
		transitions = *r.lease.Spec.LeaseTransitions + 1
	}
	r.store(&coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{
		HolderIdentity: &holder, LeaseDurationSeconds: &seconds,
		AcquireTime: &now, RenewTime: &now, LeaseTransitions: &transitions,
	}})
}

func (r *electionRun) store(lease *coordinationv1.Lease) {
	r.version++
	r.lease = lease.DeepCopy()
	r.lease.Name, r.lease.Namespace = "parity", "default"
	r.lease.ResourceVersion = fmt.Sprint(r.version)
}

func (r *electionRun) say(line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said = append(r.said, line)
}

func (r *electionRun) start(who string) {
	lock := &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Name: "parity", Namespace: "default"},
		Client:     candidate{run: r, who: who},
		LockConfig: resourcelock.ResourceLockConfig{Identity: who},
	}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, Name: "parity", ReleaseOnCancel: true,
		LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { r.say(who + " leads") },
			OnStoppedLeading: func() { r.say(who + " ends") },
			OnNewLeader: func(holder string) {
				if holder == "" {
					holder = "nobody"
				}
				r.say(who + " sees " + holder)
			},
		},
	})
	if err != nil {
		r.say(err.Error())
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.stops[who] = cancel
	r.running.Go(func() { elector.Run(ctx) })
}

// candidate is the API client of one candidate.
type candidate struct {
	coordinationclient.LeaseInterface
	run *electionRun
	who string
}

func (c candidate) Leases(string) coordinationclient.LeaseInterface { return c }

func (c candidate) fails(ctx context.Context, writes bool) error {
	c.run.mu.Lock()
	fault := c.run.faults[c.who]
	c.run.mu.Unlock()
	switch fault {
	case "hang":
		<-ctx.Done()
		return ctx.Err()
	case "refuse":
		return apierrors.NewInternalError(fmt.Errorf("refused"))
	case "conflict":
		if !writes {
			return nil
		}
		// A request takes time. Otherwise an immediate retry would repeat forever, because virtual time would not
		// advance.
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(roundTrip):
			return apierrors.NewConflict(leaseResource, "parity", fmt.Errorf("changed"))
		}
	}
	return nil
}

func (c candidate) Get(ctx context.Context, _ string, _ metav1.GetOptions) (*coordinationv1.Lease, error) {
	if err := c.fails(ctx, false); err != nil {
		return nil, err
	}
	c.run.mu.Lock()
	defer c.run.mu.Unlock()
	if c.run.lease == nil {
		return nil, apierrors.NewNotFound(leaseResource, "parity")
	}
	return c.run.lease.DeepCopy(), nil
}

func (c candidate) Create(ctx context.Context, lease *coordinationv1.Lease, _ metav1.CreateOptions) (*coordinationv1.Lease, error) {
	if err := c.fails(ctx, true); err != nil {
		return nil, err
	}
	c.run.mu.Lock()
	defer c.run.mu.Unlock()
	if c.run.lease != nil {
		return nil, apierrors.NewAlreadyExists(leaseResource, "parity")
	}
	c.write(lease)
	return c.run.lease.DeepCopy(), nil
}

func (c candidate) Update(ctx context.Context, lease *coordinationv1.Lease, _ metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	if err := c.fails(ctx, true); err != nil {
		return nil, err
	}
	c.run.mu.Lock()
	defer c.run.mu.Unlock()
	if c.run.lease == nil {
		return nil, apierrors.NewNotFound(leaseResource, "parity")
	}
	if lease.ResourceVersion != c.run.lease.ResourceVersion {
		return nil, apierrors.NewConflict(leaseResource, "parity", fmt.Errorf("changed"))
	}
	c.write(lease)
	return c.run.lease.DeepCopy(), nil
}

// write stores the Lease that a candidate wrote, with the times of its clock.
func (c candidate) write(lease *coordinationv1.Lease) {
	lease = lease.DeepCopy()
	for _, at := range []*metav1.MicroTime{lease.Spec.AcquireTime, lease.Spec.RenewTime} {
		if at != nil {
			at.Time = at.Add(c.run.skews[c.who])
		}
	}
	c.run.store(lease)
}
