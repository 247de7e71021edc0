package triage

import (
	"fmt"
	"strings"
	"testing"
)

func watchdogLine(group string, rank, seq int, op string, numel int) string {
	return fmt.Sprintf("[rank%d]:[E ProcessGroupNCCL.cpp:616] [PG ID %s PG GUID 0(default_pg) Rank %d] Watchdog caught collective operation timeout: "+
		"WorkNCCL(SeqNum=%d, OpType=%s, NumelIn=%d, NumelOut=%d, Timeout(ms)=600000) ran for 600010 milliseconds before timing out.\n",
		rank, group, rank, seq, op, numel, numel)
}

func TestRanksAreHeldAgainstEachOther(t *testing.T) {
	w := watchdogLine
	for _, c := range []struct {
		reason string
		logs   []string
		want   string // in the notes, "" for none
		first  string // the first pattern of the whole
	}{
		{"all wait in the same call", []string{w("0", 0, 7, "ALLREDUCE", 8) + w("0", 1, 7, "ALLREDUCE", 8)}, "", "hang.nccl_timeout"},
		{"another call", []string{w("0", 0, 7, "BROADCAST", 8), w("0", 1, 7, "ALLREDUCE", 8), w("0", 2, 7, "ALLREDUCE", 8)},
			"rank 0 in BROADCAST SeqNum=7 NumelIn=8; ranks 1-2 in ALLREDUCE SeqNum=7 NumelIn=8", "hang.collective_mismatch"},
		{"another size", []string{w("0", 0, 7, "ALLREDUCE", 8) + w("0", 1, 7, "ALLREDUCE", 9)}, "NumelIn=9", "hang.collective_mismatch"},
		{"one call behind", []string{w("0", 0, 7, "ALLREDUCE", 8) + w("0", 1, 8, "ALLREDUCE", 8)}, "SeqNum=8", "hang.collective_mismatch"},
		{"another group's calls are its own", []string{w("0", 0, 7, "ALLREDUCE", 8) + w("1", 1, 3, "BROADCAST", 2)}, "", "hang.nccl_timeout"},
		{"only the first line of a rank waited", []string{w("0", 0, 7, "ALLREDUCE", 8) + w("0", 0, 8, "BROADCAST", 8) + w("0", 1, 7, "ALLREDUCE", 8)}, "", "hang.nccl_timeout"},
		{"a rank is missing", []string{w("0", 0, 7, "ALLREDUCE", 8) + w("0", 1, 7, "ALLREDUCE", 8) + w("0", 3, 7, "ALLREDUCE", 8)},
			"ranks 0-1, 3 reported the timeout and rank 2 did not", "hang.straggler"},
		{"one rank alone proves nothing", []string{w("0", 3, 7, "ALLREDUCE", 8)}, "", "hang.nccl_timeout"},
	} {
		r := &Result{}
		for i, text := range c.logs {
			log, err := ReadLog(fmt.Sprintf("rank%d.log", i), strings.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			r.Logs = append(r.Logs, log)
		}
		r.Conclude()
		notes := strings.Join(r.Notes, "\n")
		if (c.want == "") != (notes == "") || !strings.Contains(notes, c.want) {
			t.Errorf("%s: notes %q, want %q", c.reason, notes, c.want)
		}
		if got := r.Ranked[0].Pattern.ID; got != c.first {
			t.Errorf("%s: first is %s, want %s", c.reason, got, c.first)
		}
	}
}

func TestRankLists(t *testing.T) {
	for want, ranks := range map[string][]int64{
		"rank 4":           {4},
		"ranks 0-1":        {0, 1},
		"ranks 0, 2":       {0, 2},
		"ranks 0-2, 5-6":   {0, 1, 2, 5, 6},
		"ranks 1, 3, 7-10": {1, 3, 7, 8, 9, 10},
	} {
		if got := rankList(ranks); got != want {
			t.Errorf("%v: %q, want %q", ranks, got, want)
		}
	}
}

func TestSharesAreWholeRatiosOfAFewRanks(t *testing.T) {
	for _, c := range []struct {
		x, y, ratio int64
		ok          bool
		reason      string
	}{
		{24, 12, 2, true, "twice"},
		{12, 24, 2, true, "either way"},
		{24, 3, 8, true, "eight ranks"},
		{64, 1, 64, true, "the most"},
		{65, 1, 0, false, "more ranks than anybody splits heads over"},
		{514, 512, 0, false, "a difference, not a ratio"},
		{7, 7, 0, false, "equal"},
		{0, 7, 0, false, "nothing"},
	} {
		ratio, ok := sharedBy(c.x, c.y)
		if ratio != c.ratio || ok != c.ok {
			t.Errorf("%d and %d (%s): %d, %v", c.x, c.y, c.reason, ratio, ok)
		}
	}
}
