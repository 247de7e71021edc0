package triage

import "fmt"

var distributedMatchers = []Matcher{
	{
		ID: "collective-mismatch", Says: "ranks run different collectives",
		Patterns: []string{"hang.collective_mismatch", "hang.asymmetric_collective", "hang.divergent_condition"},
		Weight:   weightCause,
		hints:    holding("mismatch", "collective"),
		expr:     expr(`Detected mismatch between collectives on ranks`),
	},
	{
		ID: "monitored-barrier", Says: "a monitored barrier names the ranks that did not come",
		Patterns: []string{"hang.asymmetric_collective", "hang.early_exit", "hang.straggler"},
		Weight:   weightCause,
		hints:    holding("monitoredbarrier"),
		expr:     expr(`Ranks? ([\d, ]+) failed to pass monitoredBarrier`),
		read: func(r *reading) bool {
			r.note = fmt.Sprintf("rank %s did not come to the barrier", r.group(1))
			return true
		},
	},
	{
		ID: "ddp-different-models", Says: "ranks built different models",
		Patterns: []string{"parallel.replica", "hang.collective_mismatch"},
		Weight:   weightCause,
		hints:    holding("rank"),
		expr:     expr(`DDP expects same model across all ranks|params\[\d+\] in this process with sizes .* appears not to match`),
	},
	{
		ID: "ddp-unused", Says: "a parameter got no gradient",
		Patterns: []string{"train.unused_parameters"},
		Weight:   weightCause,
		hints:    holding("finished reduction in the prior iteration"),
		expr:     expr(`Expected to have finished reduction in the prior iteration`),
	},
	{
		ID: "fsdp-mismatch", Says: "FSDP's shards or groups do not fit",
		Patterns: []string{"hang.fsdp_group", "hang.collective_mismatch"},
		Weight:   weightCause,
		hints:    holding("order differs across ranks|process group|process_group|device_mesh|device mesh"),
		expr: expr(`(?:Forward|Backward) order differs across ranks|requires explicit specification of process group or device_mesh|` +
			`Cannot pass both process_group and device_mesh|Expected .{0,40}process_group to be passed in as either None or tuple`),
	},
	{
		ID: "rendezvous", Says: "ranks did not find each other",
		Patterns: []string{"hang.rendezvous"},
		Weight:   weightCause,
		hints:    holding("timed out|eaddrinuse|address already in use|rendezvous"),
		expr: expr(`Timed out (?:after \d+ seconds )?(?:initializing process group|waiting for clients)|client socket has timed out|` +
			`(?:EADDRINUSE|server socket has failed).*(?:address already in use)|RendezvousTimeoutError|RendezvousConnectionError`),
	},
	{
		ID: "store-timeout", Says: "a wait on the store timed out",
		Patterns: []string{"hang.dead_rank", "hang.rendezvous", "hang.straggler"},
		Weight:   weightSymptom,
		hints:    holding("timeout|timed out|diststoreerror", "store|wait"),
		expr:     expr(`(?:Socket Timeout|wait timeout after \d+ ?ms, keys: |DistStoreError)`),
	},
	{
		ID: "connection-closed", Says: "a peer closed its connection",
		Patterns: []string{"hang.dead_rank", "hang.network"},
		Weight:   weightSymptom,
		hints:    holding("connection|recvvalue"),
		expr:     expr(`Connection (?:closed|reset) by (?:remote )?peer|recvValue(?:WithTimeout)? failed|Broken pipe.*(?:TCPStore|gloo|nccl)`),
	},
	{
		ID: "rank-killed", Says: "the launcher saw a rank die",
		Patterns: []string{"hang.dead_rank"},
		Weight:   weightCause,
		hints:    holding("exitcode|signal|killed process|sigkill"),
		expr:     expr(`exitcode\s*:\s*(-\d+)|failed \(exitcode: (-?\d+)\)|Signal (\d+) \(SIG(?:KILL|SEGV|ABRT|BUS|TERM)\) received by PID|Out of memory: Killed process \d+`),
		read: func(r *reading) bool {
			switch code := r.group(1) + r.group(2); code {
			case "-9":
				r.note = "exit code -9: killed, most often by the host's out-of-memory killer (see dmesg)"
			case "-11":
				r.note = "exit code -11: segmentation fault"
			case "-6":
				r.note = "exit code -6: aborted, as the watchdog does after a timeout"
			case "0":
				return false
			}
			return true
		},
	},
	{
		ID: "gloo-timeout", Says: "a collective of gloo did not end in time",
		Patterns: []string{"hang.asymmetric_collective", "hang.straggler", "hang.dead_rank"},
		Weight:   weightCause,
		hints:    holding("timed out waiting"),
		expr:     expr(`Timed out waiting (\d+)ms for (?:recv|send) operation to complete`),
	},
	{
		ID: "all-to-all-split", Says: "an all-to-all cannot split its input",
		Patterns: []string{"train.all_to_all", "video.sequence_padding", "video.kv_buffer"},
		Weight:   weightCause,
		hints:    holding("split|divisible|divide|world_size times"),
		expr: expr(`Split sizes do(?:es)?n'?t match total dim 0 size|output tensor size must be equal to world_size times input tensor size|dim 0 (?:size )?does not divide equally across group size|` +
			`(?:num_)?(?:attention_)?(?:heads?|seq(?:uence)?(?:_len(?:gth)?)?)\b.{0,40}(?:must be|is not|should be|not) (?:evenly )?divisible by.{0,40}\b(?:sp|cp|ulysses|(?:sequence|context)[_ ]parallel|world)`),
	},
}
