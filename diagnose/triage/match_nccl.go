package triage

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/layerparity/parity/internal/lazy"
)

var ncclMatchers = []Matcher{
	{
		ID: "nccl-watchdog", Says: "a collective did not end in time",
		Patterns: []string{"hang.nccl_timeout", "hang.asymmetric_collective", "hang.straggler"},
		Weight:   weightCause,
		hints:    holding("worknccl(|workhccl(|workxccl("),
		expr:     expr(`Work[NHX]CCL\((?:[^()]|\([^()]*\))*\)\s+ran for\s+(\d+)\s+milliseconds`),
		read:     readWatchdog,
	},
	{
		ID: "nccl-scalar", Says: "the collective that waited carries one number",
		Patterns: []string{"hang.scalar_allreduce"},
		Weight:   weightCause,
		hints:    holding("numelin=1"),
		expr:     expr(`Work[NHX]CCL\((?:[^()]|\([^()]*\))*\bNumelIn=1\b`),
		read: func(r *reading) bool {
			r.note = "NumelIn=1 is a reduction of one number (a loss, a flag, a barrier) and no parameter sync"
			return true
		},
	},
	{
		ID: "nccl-desync", Says: "the desync report names ranks that did not join",
		Patterns: []string{"hang.asymmetric_collective", "hang.early_exit", "hang.dead_rank"},
		Weight:   weightCause,
		hints:    holding("collective", "join|desync"),
		expr:     expr(`\[([\d,\s]+)\]\s+finished collective #(\d+),?\s+but didn't join collective #(\d+)|ranks that caused the desync are:?\s*(.*)`),
		read: func(r *reading) bool {
			if r.group(1) != "" {
				r.note = fmt.Sprintf("rank %s did not join collective %s: look at what it does after collective %s",
					strings.TrimSpace(r.group(1)), r.group(3), r.group(2))
			}
			return true
		},
	},
	{
		ID: "nccl-remote", Says: "another process ended",
		Patterns: []string{"hang.dead_rank", "hang.network"},
		Weight:   weightSymptom,
		hints:    holding("ncclremoteerror|nccl communicator was aborted|communicator was aborted|remote process"),
		expr:     expr(`ncclRemoteError|NCCL communicator was aborted|remote process (?:has )?exit(?:ed|ing)`),
	},
	{
		ID: "nccl-async", Says: "the watchdog ends the process after a timeout",
		Patterns: []string{"hang.nccl_timeout"},
		Weight:   weightHint,
		hints:    holding("nccl"),
		expr:     expr(`Some NCCL operations have failed or timed out|To avoid data inconsistency, we are taking the entire process down`),
	},
	{
		ID: "nccl-system", Says: "a system or network call inside NCCL failed",
		Patterns: []string{"hang.network"},
		Weight:   weightCause,
		hints:    holding("nccl"),
		expr:     expr(`ncclSystemError|NCCL WARN .*(?:Connect to .* failed|Got completion .*(?:error|status=)\s*\d+|Call to .*(?:ibv_|connect|recv|send).* failed|No route to host)|NCCL error:? unhandled system error`),
	},
	{
		ID: "nccl-duplicate-gpu", Says: "two ranks use one GPU",
		Patterns: []string{"hang.barrier_device"},
		Weight:   weightCause,
		hints:    holding("gpu"),
		expr:     expr(`Duplicate GPU detected\s*:\s*rank (\d+) and rank (\d+) both on`),
	},
	{
		ID: "nccl-barrier-device", Says: "the barrier had to guess its GPU",
		Patterns: []string{"hang.barrier_device"},
		Weight:   weightHint,
		hints:    holding("barrier", "device"),
		expr:     expr(`using GPU \d+ (?:to perform barrier )?as (?:the )?devices? used by this process (?:are|is) currently unknown`),
	},
}

// watchdog is what a NCCL watchdog line says.
type watchdog struct {
	// rank is -1 where the line does not tell.
	rank  int64
	group string
	// seq is -1 in the format of older versions, which have no sequence number.
	seq, numelIn int64
	op           string
	line         int
}

// maxRanks bounds how many watchdog lines of a log are kept for the comparison
// of ranks.
const maxRanks = 4096

var (
	watchdogField = lazy.Regexp(`(?i)\b(SeqNum|OpType|NumelIn|TensorShape|Timeout\(ms\))=(\[[^\]]*\]|[^,)\s]+)`)
	watchdogRank  = lazy.Regexp(`(?i)\[[^\[\]]*\bRank (\d+)\]`)
	watchdogGroup = lazy.Regexp(`(?i)\[PG (?:ID )?(\d+)\b`)
)

// readWatchdog reads rank, sequence number, kind and size, and names what they
// mean. The formats of torch 1.x (no SeqNum), 2.0 (TensorShape) and later
// (NumelIn, PG ID) are read.
func readWatchdog(r *reading) bool {
	w := watchdog{rank: -1, seq: -1, numelIn: -1, line: r.past.n}
	call := r.text[r.loc[0]:r.loc[1]]
	timeout := int64(-1)
	for _, m := range watchdogField().FindAllStringSubmatch(call, -1) {
		n, err := strconv.ParseInt(m[2], 10, 64)
		switch strings.ToLower(m[1]) {
		case "optype":
			w.op = strings.ToUpper(m[2])
		case "seqnum":
			if err == nil {
				w.seq = n
			}
		case "numelin":
			if err == nil {
				w.numelIn = n
			}
		case "timeout(ms)":
			if err == nil {
				timeout = n
			}
		}
	}
	before := r.text[:r.loc[0]]
	if m := watchdogRank().FindAllStringSubmatch(before, -1); m != nil {
		w.rank, _ = strconv.ParseInt(m[len(m)-1][1], 10, 64)
	}
	if m := watchdogGroup().FindStringSubmatch(before); m != nil {
		w.group = m[1]
	}
	r.watchdog = &w

	var notes []string
	if w.rank >= 0 {
		notes = append(notes, fmt.Sprintf("rank %d", w.rank))
	}
	if w.op != "" {
		notes = append(notes, "waited in "+w.op)
	}
	if timeout > 0 {
		notes = append(notes, fmt.Sprintf("for the %g minutes of its timeout", float64(timeout)/60000))
	}
	switch {
	case r.past.inSave():
		r.patterns = []string{"hang.checkpoint_save", "hang.checkpoint_gather", "hang.nccl_timeout"}
		notes = append(notes, fmt.Sprintf("line %d announced a save that was not reported as done", r.past.saving))
	case w.op == "SEND" || w.op == "RECV" || w.op == "COALESCED":
		r.patterns = []string{"hang.pipeline_p2p", "hang.nccl_timeout"}
	}
	r.note = strings.Join(notes, ", ")
	return true
}

// compareRanks holds the last watchdog line of each rank against the others'.
// It needs lines of at least two ranks, and judges each process group alone.
func compareRanks(logs []Log) (notes []string, found []evidence) {
	type key struct {
		group string
		rank  int64
	}
	first := map[key]watchdog{}
	groups := map[string][]int64{}
	for _, l := range logs {
		for _, w := range l.watchdogs {
			k := key{w.group, w.rank}
			if _, ok := first[k]; w.rank < 0 || ok {
				continue // the first line is the one that waited; later ones follow
			}
			first[k] = w
			groups[w.group] = append(groups[w.group], w.rank)
		}
	}
	for _, g := range slices.Sorted(maps.Keys(groups)) {
		ranks := groups[g]
		slices.Sort(ranks)
		if len(ranks) < 2 {
			continue
		}
		calls := map[string][]int64{}
		for _, r := range ranks {
			w := first[key{g, r}]
			call := w.op
			if w.seq >= 0 {
				call = fmt.Sprintf("%s SeqNum=%d", w.op, w.seq)
			}
			if w.numelIn >= 0 {
				call += fmt.Sprintf(" NumelIn=%d", w.numelIn)
			}
			calls[call] = append(calls[call], r)
		}
		if len(calls) > 1 {
			var parts []string
			byRank := slices.SortedFunc(maps.Keys(calls), func(x, y string) int { return cmp.Compare(calls[x][0], calls[y][0]) })
			for _, c := range byRank {
				parts = append(parts, fmt.Sprintf("%s in %s", rankList(calls[c]), c))
			}
			why := "ranks wait in different collectives: " + strings.Join(parts, "; ")
			notes = append(notes, why)
			found = append(found,
				evidence{"hang.collective_mismatch", 2 * weightCause, why, "ranks"}, evidence{"hang.asymmetric_collective", weightCause, why, "ranks"})
			continue
		}
		if missing := gaps(ranks); len(missing) > 0 {
			why := fmt.Sprintf("%s reported the timeout and %s did not: look there first", rankList(ranks), rankList(missing))
			notes = append(notes, why)
			found = append(found,
				evidence{"hang.straggler", weightCause, why, "ranks"}, evidence{"hang.dead_rank", weightSymptom, why, "ranks"})
		}
	}
	return notes, found
}

// gaps lists the ranks below the largest that are not in the sorted list, up to
// 64 of them.
func gaps(ranks []int64) []int64 {
	var out []int64
	next := int64(0)
	for _, r := range ranks {
		for ; next < r && len(out) < 64; next++ {
			out = append(out, next)
		}
		next = r + 1
	}
	return out
}

// rankList writes "rank 3" or "ranks 0-2, 5".
func rankList(ranks []int64) string {
	if len(ranks) == 1 {
		return fmt.Sprintf("rank %d", ranks[0])
	}
	var parts []string
	for i := 0; i < len(ranks); {
		j := i
		for j+1 < len(ranks) && ranks[j+1] == ranks[j]+1 {
			j++
		}
		if i == j {
			parts = append(parts, strconv.FormatInt(ranks[i], 10))
		} else {
			parts = append(parts, fmt.Sprintf("%d-%d", ranks[i], ranks[j]))
		}
		i = j + 1
	}
	return "ranks " + strings.Join(parts, ", ")
}

var (
	saveBegins = lazy.Regexp(`\bsav(?:ing|e)\b[^.]*\b(?:checkpoints?|ckpt|model|state|weights|optimizer)\b|\bcheckpoint(?:ing)? (?:saving|save)\b`)
	saveEnds   = lazy.Regexp(`\bsaved\b|\bfinished saving\b|\bsav(?:e|ing)\b.*\b(?:done|finished|complete[d]?|took)\b|\bsuccessfully sav`)
)

// saves keeps track of announced saves; lower is the line in lower case.
func (h *history) saves(lower string) {
	switch {
	case saveEnds().MatchString(lower):
		h.saving = 0
	case saveBegins().MatchString(lower):
		h.saving = h.n
	}
}

func (h *history) inSave() bool { return h.saving > 0 && h.n-h.saving <= savingFor }
