package registry

import (
	"bytes"
	"crypto/sha256"
	"encoding"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"

	"github.com/opencontainers/go-digest"

	"waybill/internal/disk"
)

// memoryTar is a file that several may write.
type memoryTar struct {
	mu   sync.Mutex
	data []byte
}

func (m *memoryTar) ReadAt(p []byte, off int64) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return copy(p, m.data[off:]), nil
}

func (m *memoryTar) put(data []byte, off int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	copy(m.data[off:], data)
}

// followTrial is a planned tar and the bytes it will have.
type followTrial struct {
	plan  *tarPlan
	bytes []byte
}

func newFollowTrial(t *testing.T, r *rand.Rand) followTrial {
	t.Helper()
	plan := &tarPlan{}
	for i := range 1 + r.IntN(12) {
		if err := plan.addData(fmt.Sprintf("file%d", i), make([]byte, r.IntN(3*followBuffer))); err != nil {
			t.Fatal(err)
		}
	}
	whole := make([]byte, plan.tar.Size())
	for i := range plan.tar.Trailer() {
		whole[i] = byte(r.Uint32())
	}
	return followTrial{plan, whole}
}

// follow begins with a file in which nothing is; end says that all is written, and
// gives the sum.
func (f followTrial) follow(t *testing.T, resume claim) (_ *memoryTar, _ *tarFollower, end func() []byte) {
	t.Helper()
	file, sum := &memoryTar{data: make([]byte, len(f.bytes))}, sha256.New()
	follower := newTarFollower(f.plan, file, nil, sum, resume)
	ended := make(chan bool)
	go func() {
		whole, err := follower.run()
		ended <- whole && err == nil
	}()
	return file, follower, func() []byte {
		follower.complete()
		follower.stop()
		if !<-ended {
			t.Fatal("it did not read to the end")
		}
		return sum.Sum(nil)
	}
}

// run lets a follower read while the parts are written in any order, some of them
// wrong first, and gives the sum.
func (f followTrial) run(t *testing.T, r *rand.Rand, resume claim) []byte {
	t.Helper()
	file, follower, end := f.follow(t, resume)
	for _, i := range r.Perm(len(f.plan.parts)) {
		part := f.plan.parts[i]
		middle := part.Header + (part.End()-part.Header)/2
		if r.IntN(3) == 0 {
			file.put(bytes.Repeat([]byte{7}, int(middle-part.Header)), part.Header)
			follower.reached(i, middle, middle)
			follower.altered(i)
		}
		file.put(f.bytes[part.Header:middle], part.Header)
		follower.reached(i, middle, 0)
		file.put(f.bytes[middle:part.End()], middle)
		follower.reached(i, part.End(), part.End())
	}
	return end()
}

func TestFollowedSumIsThatOfTheTar(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a trial that can be repeated
		trial := newFollowTrial(t, r)
		want := sha256.Sum256(trial.bytes[:trial.plan.tar.Trailer()])
		if got := trial.run(t, r, claim{}); !bytes.Equal(got, want[:]) {
			t.Fatalf("seed %d: got %x, want %x", seed, got, want)
		}
		at := 1 + r.Int64N(trial.plan.tar.Trailer())
		before := sha256.New()
		before.Write(trial.bytes[:at])
		state, err := before.(encoding.BinaryMarshaler).MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		if got := trial.run(t, r, claim{content: at, state: state}); !bytes.Equal(got, want[:]) {
			t.Fatalf("seed %d, resumed at %d: got %x, want %x", seed, at, got, want)
		}
		if got := trial.run(t, r, claim{content: at, state: []byte("no state")}); !bytes.Equal(got, want[:]) {
			t.Fatalf("seed %d, resumed with a damaged state: got %x, want %x", seed, got, want)
		}
	}
}

// runOffering is run, but one part is offered in pieces, and not in the file before
// all of it is.
func (f followTrial) runOffering(t *testing.T, r *rand.Rand) []byte {
	t.Helper()
	file, follower, end := f.follow(t, claim{})
	fed := r.IntN(len(f.plan.parts))
	var others sync.WaitGroup
	others.Go(func() {
		part := f.plan.parts[fed]
		for at := part.Header; at < part.End(); {
			data := bytes.Clone(f.bytes[at:min(at+1+r.Int64N(followBuffer), part.End())])
			hashed := make(chan struct{})
			follower.offer(at, data, func() { close(hashed) })
			<-hashed
			clear(data) // it is the writer's again
			at += int64(len(data))
		}
		file.put(f.bytes[part.Header:part.End()], part.Header)
		follower.reached(fed, part.End(), part.End())
	})
	for i, part := range f.plan.parts {
		if i != fed {
			file.put(f.bytes[part.Header:part.End()], part.Header)
			follower.reached(i, part.End(), part.End())
		}
	}
	others.Wait()
	return end()
}

func TestOfferedBytesAreNotRead(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 2)) //nolint:gosec // a trial that can be repeated
		trial := newFollowTrial(t, r)
		want := sha256.Sum256(trial.bytes[:trial.plan.tar.Trailer()])
		if got := trial.runOffering(t, r); !bytes.Equal(got, want[:]) {
			t.Fatalf("seed %d: got %x, want %x", seed, got, want)
		}
	}
}

// Nobody waits for a follower that has ended or that begins again.
func TestOffersAreLetGo(t *testing.T) {
	plan := &tarPlan{}
	for _, name := range []string{"a", "b"} {
		if err := plan.addData(name, make([]byte, 10)); err != nil {
			t.Fatal(err)
		}
	}
	for name, end := range map[string]func(*tarFollower){
		"stopped":     (*tarFollower).stop,
		"begun again": (*tarFollower).restart,
	} {
		follower := newTarFollower(plan, &memoryTar{}, nil, sha256.New(), claim{})
		done := 0
		offer := func() { follower.offer(plan.parts[1].Header, make([]byte, 10), func() { done++ }) }
		offer()
		if done != 0 {
			t.Errorf("%s: let go before", name)
		}
		end(follower)
		offer()
		if done != 2 {
			t.Errorf("%s: %d of 2 are let go", name, done)
		}
	}
}

// A part that is written anew while its first bytes are being read is read again.
func TestFollowerReadsAnewWhatItIsReading(t *testing.T) {
	plan := &tarPlan{}
	if err := plan.addData("a", make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	right := bytes.Repeat([]byte("right"), int(plan.tar.Size()))[:plan.tar.Size()]
	file := &slowTar{memoryTar: memoryTar{data: bytes.Repeat([]byte("wrong"), len(right))[:len(right)]}, read: make(chan struct{}), goOn: make(chan struct{})}
	sum := sha256.New()
	follower := newTarFollower(plan, file, nil, sum, claim{})
	ended := make(chan bool)
	go func() {
		whole, err := follower.run()
		ended <- whole && err == nil
	}()
	end := plan.parts[0].End()
	follower.reached(0, end, end)
	<-file.read
	follower.altered(0)
	file.put(right, 0)
	file.goOn <- struct{}{}
	follower.reached(0, end, end)
	<-file.read
	file.goOn <- struct{}{}
	if !<-ended {
		t.Fatal("it did not read to the end")
	}
	if want := sha256.Sum256(right[:plan.tar.Trailer()]); !bytes.Equal(sum.Sum(nil), want[:]) {
		t.Error("it has the sum of what was there before")
	}
}

// slowTar waits after each read.
type slowTar struct {
	memoryTar
	read, goOn chan struct{}
}

func (s *slowTar) ReadAt(p []byte, off int64) (int, error) {
	n, err := s.memoryTar.ReadAt(p, off)
	s.read <- struct{}{}
	<-s.goOn
	return n, err
}

// What the journal says of the whole tar holds only up to what it says of the
// files in it.
func TestFollowerTellsNoMoreThanTheFiles(t *testing.T) {
	plan := &tarPlan{}
	for _, name := range []string{"a", "b"} {
		if err := plan.addData(name, make([]byte, 2*journalStep)); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "journal")
	j, _, _, err := openJournal(path, plan.digest(), disk.State{})
	if err != nil {
		t.Fatal(err)
	}
	file := &memoryTar{data: make([]byte, plan.tar.Size())}
	follower := newTarFollower(plan, file, j, sha256.New(), claim{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = follower.run()
	}()
	a, b := plan.parts[0], plan.parts[1]
	follower.reached(0, a.End(), a.End())
	follower.reached(1, b.End()-10, b.Header+journalStep)
	follower.complete()
	<-ended
	if err := j.close(); err != nil {
		t.Fatal(err)
	}
	_, claims, why, err := openJournal(path, plan.digest(), disk.State{})
	if err != nil || why != "" {
		t.Fatal(why, err)
	}
	said := claims[wholeTar]
	if known := b.Header + journalStep; said.content > known || said.content <= known-journalStep {
		t.Errorf("the journal says %d bytes are hashed, and knows of %d", said.content, known)
	}
	want, h := sha256.New(), sha256.New()
	want.Write(file.data[:said.content])
	if err := h.(encoding.BinaryUnmarshaler).UnmarshalBinary(said.state); err != nil || digest.NewDigest(digest.SHA256, h) != digest.NewDigest(digest.SHA256, want) {
		t.Errorf("the state is not that of the first %d bytes: %v", said.content, err)
	}
}
