package queue_test

import "slices"

// The model is a scheduler that is as simple as possible. It keeps all jobs in one list, in order
// of arrival, and searches the list for every answer.

type status string

const (
	waits    status = "waits"
	runs     status = "runs"
	ended    status = "ended"
	full     status = "refused, full"
	circular status = "refused, a circle"
	canceled status = "canceled"
)

type modelJob struct {
	queue    int
	user     bool
	parent   *modelJob
	status   status
	canceled bool // the job's context, or an outer one, has ended
}

func (j *modelJob) live() bool { return j.status == waits || j.status == runs }

type model struct {
	jobs      []*modelJob
	places    []int // by queue: jobs at once
	room      int   // waiting jobs allowed in each queue
	maxPassed int
	passed    []int // by queue
}

func newModel(places []int, room, maxPassed int) *model {
	return &model{places: places, room: room, maxPassed: maxPassed, passed: make([]int, len(places))}
}

// in returns the jobs of a queue with a status, in order of arrival.
func (m *model) in(queue int, s status) (in []*modelJob) {
	for _, j := range m.jobs {
		if j.queue == queue && j.status == s {
			in = append(in, j)
		}
	}
	return in
}

// come admits a job or refuses it.
func (m *model) come(j *modelJob) {
	j.status = m.decide(j)
	m.jobs = append(m.jobs, j)
}

func (m *model) decide(j *modelJob) status {
	for p := j.parent; p != nil; p = p.parent {
		j.user = j.user || p.user
		j.canceled = j.canceled || p.canceled
		if p.queue == j.queue && !j.canceled {
			return circular
		}
	}
	switch {
	case j.canceled:
		return canceled
	case len(m.in(j.queue, runs)) < m.places[j.queue]:
		return runs
	case !m.with(j).ends():
		return circular
	case len(m.in(j.queue, waits)) == m.room:
		return full
	}
	return waits
}

// with returns a copy in which a job waits.
func (m *model) with(waiting *modelJob) *model {
	c := newModel(m.places, m.room, m.maxPassed)
	copies := map[*modelJob]*modelJob{}
	for _, j := range append(slices.Clone(m.jobs), waiting) {
		of := *j
		of.parent = copies[j.parent]
		copies[j] = &of
		c.jobs = append(c.jobs, &of)
	}
	copies[waiting].status = waits
	return c
}

// ends reports whether everything ends, if every job ends that has no inner job.
func (m *model) ends() bool {
	for {
		i := slices.IndexFunc(m.jobs, m.mayEnd)
		if i < 0 {
			return !slices.ContainsFunc(m.jobs, (*modelJob).live)
		}
		m.end(m.jobs[i])
	}
}

// mayEnd reports whether a job is in its queue and has no inner job.
func (m *model) mayEnd(j *modelJob) bool {
	return j.status == runs && !slices.ContainsFunc(m.jobs, func(inner *modelJob) bool { return inner.parent == j && inner.live() })
}

// end ends a job and gives its place to the next.
func (m *model) end(j *modelJob) {
	j.status = ended
	var next, background *modelJob
	for _, w := range slices.Backward(m.in(j.queue, waits)) {
		if w.user {
			next = w
		} else {
			background = w
		}
	}
	switch {
	case background == nil:
	case next == nil || m.passed[j.queue] == m.maxPassed:
		next = background
		m.passed[j.queue] = 0
	default:
		m.passed[j.queue]++
	}
	if next != nil {
		next.status = runs
	}
}

// cancel ends the context of a job and of its inner jobs.
func (m *model) cancel(canceledJob *modelJob) {
	for _, j := range m.jobs {
		for p := j; p != nil; p = p.parent {
			if p != canceledJob {
				continue
			}
			j.canceled = true
			if j.status == waits {
				j.status = canceled
			}
		}
	}
	for name := range m.places { // without a waiting background job, nobody is passed over
		if !slices.ContainsFunc(m.in(name, waits), func(j *modelJob) bool { return !j.user }) {
			m.passed[name] = 0
		}
	}
}
