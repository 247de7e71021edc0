package diagnose

import "math"

// sections offers each base rule with the pairs split among three position axes,
// in runs (T..TH..HW..W) or in turns (THWTHW..T). Each pair's error under each
// axis is computed once; a split is a sum of those.
func (s *ropeSearch) sections(base []ropeRule) {
	if len(s.m.pos) != 3 {
		return
	}
	n := s.m.n
	for _, r := range base {
		if r.Sections != nil {
			r.Sections, r.SectionOrder = nil, ""
		}
		cost := s.m.axisCosts(r)
		if cost == nil {
			continue
		}
		total := func(axis func(i int) int) float64 {
			sum := 0.0
			for i := range cost {
				sum += cost[i][axis(i)]
			}
			return sum
		}
		best, bestCost := r, math.Inf(1)
		consider := func(sections []int, order string) {
			q := r
			q.Sections, q.SectionOrder = sections, order
			// Among splits that the data cannot part, the first is kept.
			if t := total(q.axisOf); t < bestCost*(1-1e-6)-1e-12 {
				best, bestCost = q, t
			}
		}
		for t := n; t >= 0; t-- {
			for h := n - t; h >= 0; h-- {
				consider([]int{t, h, n - t - h}, "chunked")
			}
		}
		third := (n + 2) / 3
		for h := third; h >= 0; h-- {
			for w := third; w >= 0; w-- {
				if 1+3*(h-1) >= n || 2+3*(w-1) >= n || h+w == 0 {
					continue
				}
				consider([]int{n - h - w, h, w}, "interleaved")
			}
		}
		s.offer(best, 3)
	}
}

// axisCosts is the squared error of each pair when turned by each axis.
func (m *turns) axisCosts(r ropeRule) [][3]float64 {
	w := r.frequencies(m.headDim)
	if len(w) != m.n {
		return nil
	}
	out := make([][3]float64, m.n)
	gain := orDefault(r.Mscale, 1)
	for t := 0; t < m.rows; t++ {
		for i, f := range w {
			k := t*m.n + i
			for a := range out[i] {
				sin, cos := math.Sincos(m.pos[a][t] * f)
				out[i][a] += math.Max(0, m.after[k]+gain*gain*m.before[k]-2*gain*(real(m.c[k])*cos+imag(m.c[k])*sin))
			}
		}
	}
	return out
}

// sectionText describes the split of the pairs for a reader.
func (r ropeRule) sectionText(n int) string {
	if len(r.Sections) == 0 {
		return "every pair by the first axis"
	}
	names := "thw"
	s := make([]byte, n)
	for i := range s {
		s[i] = names[r.axisOf(i)%len(names)]
	}
	return string(s)
}
