package kernel

// Add returns the sums over the values of both m and o, for callers that group
// rows (all heads of one token). MaxAt stays what each part called it; the
// lower part, m, wins ties.
func (m Moments) Add(o Moments) Moments { return m.add(o) }
