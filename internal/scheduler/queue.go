package scheduler

import (
	"container/heap"
	"time"
)

// queue has the jobs by their next slots. Those of one slot lie together, so that ten thousand jobs that are due in
// one moment are started before anything is put in order again.
type queue struct {
	heap  bucketHeap
	bySec map[int64]*bucket
}

// bucket are the jobs of one slot. Slots are whole seconds.
type bucket struct {
	at    time.Time
	jobs  []*entry // with holes: nil where one was taken out
	count int

	popped []popped // the jobs as they were when the bucket was taken
}

// popped is what of a job another reading of the configuration may change.
type popped struct {
	job    *Job
	fire   *Fire
	cursor time.Time
}

func (q *queue) init() { q.bySec = map[int64]*bucket{} }

// first is when the first jobs are due; false: none is.
func (q *queue) first() (time.Time, bool) {
	for len(q.heap) > 0 && q.heap[0].count == 0 {
		q.pop()
	}
	if len(q.heap) == 0 {
		return time.Time{}, false
	}
	return q.heap[0].at, true
}

// pop takes the first bucket.
func (q *queue) pop() *bucket {
	b := heap.Pop(&q.heap).(*bucket)
	delete(q.bySec, b.at.Unix())
	b.popped = make([]popped, len(b.jobs))
	for i, x := range b.jobs {
		if x != nil {
			x.bucket, b.popped[i] = nil, popped{x.job.Load(), x.fire, x.cursor}
		}
	}
	return b
}

// place puts a job where its next slot belongs.
func (q *queue) place(x *entry) {
	q.remove(x)
	if x.next.IsZero() {
		return
	}
	b := q.bySec[x.next.Unix()]
	if b == nil {
		b = &bucket{at: x.next}
		q.bySec[x.next.Unix()] = b
		heap.Push(&q.heap, b)
	}
	x.bucket, x.place = b, len(b.jobs)
	b.jobs = append(b.jobs, x)
	b.count++
}

func (q *queue) remove(x *entry) {
	if x.bucket == nil {
		return
	}
	x.bucket.jobs[x.place] = nil
	x.bucket.count--
	x.bucket = nil
}

// bucketHeap implements heap.Interface.
type bucketHeap []*bucket

func (h bucketHeap) Len() int           { return len(h) }
func (h bucketHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }

func (h bucketHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *bucketHeap) Push(x any) { *h = append(*h, x.(*bucket)) }

// Pop implements heap.Interface.
func (h *bucketHeap) Pop() any {
	old := *h
	b := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return b
}
