package triage

import (
	"strings"
	"testing"

	"github.com/layerparity/parity/diagnose/catalog"
)

// read recognises a log given as text.
func read(t *testing.T, text string) Log {
	t.Helper()
	log, err := ReadLog("test.log", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return log
}

func ids(hits []Hit) string {
	var out []string
	for _, h := range hits {
		out = append(out, h.Matcher)
	}
	return strings.Join(out, " ")
}

// line is one realistic line of a log, what is recognised in it, the first
// pattern of the first matcher, and what its note must hold.
type line struct {
	text, matchers, pattern, note string
}

var lines = []line{
	// NCCL
	{"[E ProcessGroupNCCL.cpp:475] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=6, OpType=ALLREDUCE, NumelIn=524288, NumelOut=524288, Timeout(ms)=1800000) ran for 1800123 milliseconds before timing out.",
		"nccl-watchdog", "hang.nccl_timeout", "rank 3, waited in ALLREDUCE, for the 30 minutes of its timeout"},
	{"[rank1]:[E1016 21:16:52.170 ProcessGroupNCCL.cpp:607] [PG ID 0 PG GUID 0(default_pg) Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=28956, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600024 milliseconds before timing out.",
		"nccl-watchdog nccl-scalar", "hang.nccl_timeout", "rank 1, waited in ALLREDUCE, for the 10 minutes of its timeout"},
	{"[E ProcessGroupNCCL.cpp:828] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(OpType=BROADCAST, Timeout(ms)=1800000) ran for 1806103 milliseconds before timing out.",
		"nccl-watchdog", "hang.nccl_timeout", "rank 0, waited in BROADCAST"},
	{"[E ProcessGroupNCCL.cpp:828] [Rank 2] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=2, OpType=_ALLGATHER_BASE, TensorShape=[4096, 1024], Timeout(ms)=600000) ran for 600103 milliseconds before timing out.",
		"nccl-watchdog", "hang.nccl_timeout", "_ALLGATHER_BASE"},
	{"[Rank 5] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=77, OpType=SEND, NumelIn=4096, NumelOut=4096, Timeout(ms)=600000) ran for 600001 milliseconds before timing out.",
		"nccl-watchdog", "hang.pipeline_p2p", "SEND"},
	{"work: WorkNCCL(SeqNum=6, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) finished", "nccl-scalar", "hang.scalar_allreduce", "one number"},
	{"WorkNCCL(SeqNum=6, OpType=ALLREDUCE, NumelIn=16, NumelOut=16, Timeout(ms)=600000) enqueued", "", "", ""},
	{"NCCL version 2.19.3+cuda12.3", "", "", ""},
	{"\t - [1] finished collective #1, but didn't join collective #2 (count from 1)", "nccl-desync", "hang.asymmetric_collective", "rank 1 did not join collective 2"},
	{"\t - [0, 2] joined but didn't finish collective #2 (count from 1)", "", "", ""},
	{"torch.distributed.DistBackendError: NCCL communicator was aborted on rank 1. Original reason for failure was: ...", "nccl-remote", "hang.dead_rank", ""},
	{"ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.", "nccl-remote", "hang.dead_rank", ""},
	{"connected to remote process 12 for logs", "", "", ""},
	{"[E ProcessGroupNCCL.cpp:475] Some NCCL operations have failed or timed out. Due to the asynchronous nature of CUDA kernels, subsequent GPU operations might run on corrupted/incomplete data.", "nccl-async", "hang.nccl_timeout", ""},
	{"NCCL INFO comm 0x1 rank 0 nranks 8 - Init COMPLETE", "", "", ""},
	{"node1:123:456 [0] misc/socket.cc:484 NCCL WARN socketStartConnect: Connect to 10.0.0.2<41021> failed : Software caused connection abort", "nccl-system", "hang.network", ""},
	{"ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error. NCCL version 2.18.1", "nccl-system", "hang.network", ""},
	{"node1:123:456 [0] NCCL WARN NET/IB : Got completion from peer 10.0.0.2<1234> with error 12, opcode 0", "nccl-system", "hang.network", ""},
	{"NCCL WARN Cuda failure 'out of range' is only a test", "", "", ""},
	{"NCCL WARN Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1a000", "nccl-duplicate-gpu", "hang.barrier_device", ""},
	{"GPU 0 and GPU 1 are connected", "", "", ""},
	{"[rank0]:[W ProcessGroupNCCL.cpp:4115] [PG ID 0 Rank 0] using GPU 0 to perform barrier as devices used by this process are currently unknown. This can potentially cause a hang", "nccl-barrier-device", "hang.barrier_device", ""},
	{"barrier passed on device cuda:0", "", "", ""},

	// Distributed
	{"RuntimeError: Detected mismatch between collectives on ranks. Rank 0 is running collective: CollectiveFingerPrint(SequenceNumber=3, OpType=ALLREDUCE, TensorShape=[1]), but Rank 1 is running collective: CollectiveFingerPrint(SequenceNumber=3, OpType=BROADCAST).", "collective-mismatch", "hang.collective_mismatch", ""},
	{"no mismatch between collectives was seen", "", "", ""},
	{"[Rank 0]: Ranks 1, 3 failed to pass monitoredBarrier in 1800000 ms", "monitored-barrier", "hang.asymmetric_collective", "rank 1, 3 did not come"},
	{"successfully reached monitoredBarrier", "", "", ""},
	{"RuntimeError: DDP expects same model across all ranks, but Rank 0 has 112 params, while rank 1 has inconsistent 110 params.", "ddp-different-models", "parallel.replica", ""},
	{"rank 0 has 112 params", "", "", ""},
	{"RuntimeError: Expected to have finished reduction in the prior iteration before starting a new one. This error indicates that your module has parameters that were not used in producing loss.", "ddp-unused", "train.unused_parameters", ""},
	{"finished reduction of metrics", "", "", ""},
	{"RuntimeError: Forward order differs across ranks: rank 0 is all-gathering 2 parameters while rank 1 is all-gathering 1 parameters", "fsdp-mismatch", "hang.fsdp_group", ""},
	{"ValueError: Manual wrapping with ShardingStrategy.HYBRID_SHARD requires explicit specification of process group or device_mesh.", "fsdp-mismatch", "hang.fsdp_group", ""},
	{"creating process group for data parallel", "", "", ""},
	{"torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 1/2 clients joined.", "rendezvous store-timeout", "hang.rendezvous", ""},
	{"RuntimeError: The server socket has failed to listen on any local network address. port: 29500, useIpv6: true, code: -98, name: EADDRINUSE, message: address already in use", "rendezvous", "hang.rendezvous", ""},
	{"torch.distributed.DistNetworkError: The client socket has timed out after 60000ms while trying to connect to (10.0.0.1, 29500).", "rendezvous", "hang.rendezvous", ""},
	{"rendezvous complete, 8 ranks", "", "", ""},
	{"[W socket.cpp] the request timed out and is retried", "", "", ""},
	{"RuntimeError: Socket Timeout on store get", "store-timeout", "hang.dead_rank", ""},
	{"timeout of the store set to 30 minutes", "", "", ""},
	{"RuntimeError: [/opt/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:598] Connection closed by peer [127.0.0.1]:4321", "connection-closed", "hang.dead_rank", ""},
	{"torch.distributed.DistBackendError: [1] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value store by key '0', but store->get('0') got error: Connection reset by peer", "connection-closed", "hang.dead_rank", ""},
	{"connection to the logger opened", "", "", ""},
	{"torch.distributed.elastic.multiprocessing.api: [ERROR] failed (exitcode: -9) local_rank: 0 (pid: 4711) of binary: /usr/bin/python3", "rank-killed", "hang.dead_rank", "out-of-memory killer"},
	{"  exitcode  : -6 (pid: 12)", "rank-killed", "hang.dead_rank", "watchdog"},
	{"[123.4] Out of memory: Killed process 4711 (python3) total-vm:1kB", "rank-killed", "hang.dead_rank", ""},
	{"process ended, exitcode: 0", "", "", ""},
	{"RuntimeError: [../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1800000ms for recv operation to complete", "gloo-timeout", "hang.asymmetric_collective", ""},
	{"timed out waiting for the lock, retrying", "", "", ""},
	{"RuntimeError: Split sizes doesn't match total dim 0 size", "all-to-all-split", "train.all_to_all", ""},
	{"ValueError: output tensor size must be equal to world_size times input tensor size", "all-to-all-split", "train.all_to_all", ""},
	{"AssertionError: num_heads (24) must be divisible by sequence parallel size (5)", "all-to-all-split", "train.all_to_all", ""},
	{"ValueError: hidden_size must be divisible by num_heads", "", "", ""},

	// Shapes
	{"RuntimeError: The expanded size of the tensor (24) must match the existing size (12) at non-singleton dimension 2.  Target sizes: [1, 4680, 24, 128].  Tensor sizes: [1, 4680, 12, 128]", "expanded-size", "video.kv_buffer", "24 / 12 = 2 exactly"},
	{"RuntimeError: expanded size (12) must match existing size (3)", "expanded-size", "video.kv_buffer", "12 / 3 = 4 exactly"},
	{"RuntimeError: The expanded size of the tensor (514) must match the existing size (512) at non-singleton dimension 1.  Target sizes: [1, 514].  Tensor sizes: [1, 512]", "expanded-size", "train.shape", "differ by 2"},
	{"expanded sizes of the table", "", "", ""},
	{"ValueError: block_mask was created for block_mask.shape=(1, 1, 1200, 1200) but got q_len=1280 and kv_len=1280. As the block mask was created for a smaller length than you're using it for", "block-mask", "video.block_mask", "80 more"},
	{"ValueError: block_mask was created for block_mask.shape=(1, 1, 4680, 4680) but got q_len=9360 and kv_len=9360.", "block-mask", "video.block_mask", "a factor 2"},
	{"ValueError: block_mask was created for block_mask.shape=torch.Size([1, 1, 640, 640])", "block-mask", "video.block_mask", ""},
	{"block_mask created for the prompt", "", "", ""},
	{"RuntimeError: mat1 and mat2 shapes cannot be multiplied (77x1024 and 4096x320)", "matmul-shapes", "train.shape", "4096 / 1024 = 4 exactly"},
	{"shapes multiplied in 3 ms", "", "", ""},
	{"RuntimeError: The size of tensor a (16) must match the size of tensor b (8) at non-singleton dimension 2", "size-of-tensor", "train.shape", "16 / 8 = 2 exactly"},
	{"size of tensor a is 16", "", "", ""},
	{"RuntimeError: shape '[1, 4680, 24, 128]' is invalid for input of size 7188480", "invalid-view", "train.shape", ""},
	{"input of size 7188480", "", "", ""},

	// Numbers
	{"{'loss': nan, 'grad_norm': nan, 'learning_rate': 0.0, 'epoch': 0.12}", "nan-loss", "train.nan_loss", ""},
	{"step: 120  loss: nan  grad_norm: 3.2  memory: 40.1GiB", "nan-loss", "train.nan_loss", ""},
	{" iteration      500/ 1000 | elapsed time per iteration (ms): 900.1 | lm loss: NAN | loss scale: 1.0 | grad norm: nan |", "nan-loss", "train.nan_loss", ""},
	{"Epoch 3: 100%|####| 10/10 [00:01<00:00, loss=nan, v_num=0]", "nan-loss", "train.nan_loss", ""},
	{"Loss is nan, stopping training", "nan-loss", "train.nan_loss", ""},
	{"train/grad_norm=inf", "nan-loss", "train.nan_loss", ""},
	{"val_loss tensor(nan, device='cuda:0')", "nan-loss", "train.nan_loss", ""},
	{"lm loss: 2.31 | number of nan iterations: 0", "", "", ""},
	{"best_loss = inf at the start", "", "", ""},
	{"loss: information about the schedule", "", "", ""},
	{"{'loss': 2.31, 'grad_norm': 0.5}", "", "", ""},
	{"RuntimeError: Function 'MulBackward0' returned nan values in its 0th output.", "nan-check", "train.nan_loss", ""},
	{"RuntimeError: probability tensor contains either `inf`, `nan` or element < 0", "nan-check", "train.nan_loss", ""},
	{"RuntimeError: The total norm of order 2.0 for gradients from `parameters` is non-finite, so it cannot be clipped.", "nan-check", "train.nan_loss", ""},
	{"found NaN in local grad norm for bucket #0 in backward pass before data-parallel communication collective", "nan-check", "train.nan_loss", ""},
	{"no inf or nan found", "", "", ""},
	{"Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 32768.0", "loss-scale", "numerics.overflow", "normal"},
	{"[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 32768", "loss-scale", "numerics.overflow", "normal"},
	{"Exception: Current loss scale already at minimum - cannot decrease scale anymore. Exiting run.", "loss-scale", "numerics.overflow", "cannot fall further"},
	{"loss scale: 65536.0", "", "", ""},

	// Devices
	{"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 79.15 GiB of which 10.44 MiB is free.", "out-of-memory", "train.oom", ""},
	{"RuntimeError: CUDA error: out of memory", "out-of-memory", "train.oom", ""},
	{"jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 123 bytes.", "out-of-memory", "train.oom", ""},
	{"set a smaller batch if you run out of memory", "", "", ""},
	{"RuntimeError: CUDA error: device-side assert triggered", "device-assert", "train.device_assert", ""},
	{"../aten/src/ATen/native/cuda/Indexing.cu:1289: indexSelectLargeIndex: block: [3,0,0], thread: [32,0,0] Assertion `srcIndex < srcSelectDimSize` failed.", "device-assert", "train.device_assert", "token id or position"},
	{"/pytorch/aten/src/ATen/native/cuda/Loss.cu:250: nll_loss_forward_reduce_cuda_kernel_2d: block: [0,0,0], thread: [5,0,0] Assertion `t >= 0 && t < n_classes` failed.", "device-assert", "train.device_assert", "a label"},
	{"assert torch.allclose(a, b)", "", "", ""},
	{"RuntimeError: CUDA error: an illegal memory access was encountered", "illegal-access", "train.illegal_access", ""},
	{"illegal value of --lr", "", "", ""},
	{"RuntimeError: expected mat1 and mat2 to have the same dtype, but got: float != c10::BFloat16", "dtype-or-device", "train.dtype_mismatch", ""},
	{"RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!", "dtype-or-device", "train.dtype_mismatch", ""},
	{"expected time to finish: 3 h", "", "", ""},
	{"RuntimeError: one of the variables needed for gradient computation has been modified by an inplace operation: [torch.cuda.FloatTensor [64]] is at version 2; expected version 1 instead.", "inplace", "train.inplace", ""},
	{"inplace operation enabled", "", "", ""},
	{"torch.utils.checkpoint.CheckpointError: torch.utils.checkpoint: Recomputed values for the following tensors have different metadata than during the forward pass.", "recompute", "train.recompute", ""},
	{"recomputing activations of 32 layers", "", "", ""},

	// Loaders
	{"\tMissing key(s) in state_dict: \"model.layers.0.self_attn.q_proj.bias\", \"model.norm.weight\". ", "missing-keys", "load.missing_keys", "2 keys"},
	{"\tMissing key(s) in state_dict: \"module.a.weight\". ", "missing-keys", "load.missing_keys", "\"module.\""},
	{"_IncompatibleKeys(missing_keys=['lm_head.weight'], unexpected_keys=[])", "missing-keys", "load.missing_keys", "is the head tied"},
	{"missing keys: []", "", "", ""},
	{"\tUnexpected key(s) in state_dict: \"_orig_mod.a.weight\", \"_orig_mod.b.weight\". ", "unexpected-keys", "load.unexpected_keys", "_orig_mod."},
	{"unexpected keyword argument", "", "", ""},
	{"Some weights of the model checkpoint at org/model were not used when initializing LlamaForCausalLM: ['a']", "unused-weights", "load.unexpected_keys", ""},
	{"all weights of the model checkpoint were used", "", "", ""},
	{"Some weights of LlamaForCausalLM were not initialized from the model checkpoint at org/model and are newly initialized: ['lm_head.weight']", "newly-initialized", "load.newly_initialized", "tied"},
	{"Some weights of BertForSequenceClassification were not initialized from the model checkpoint at bert and are newly initialized: ['classifier.bias', 'classifier.weight']", "newly-initialized", "load.newly_initialized", "expected before fine-tuning"},
	{"newly initialized 3 workers", "", "", ""},
	{"\tsize mismatch for model.embed_tokens.weight: copying a param with shape torch.Size([32000, 4096]) from checkpoint, the shape in current model is torch.Size([32064, 4096]).", "size-mismatch", "load.size_mismatch", "another vocabulary"},
	{"\tsize mismatch for a.q_proj.weight: copying a param with shape torch.Size([4096, 4096]) from checkpoint, the shape in current model is torch.Size([2048, 4096]).", "size-mismatch", "load.size_mismatch", "factor 2 exactly"},
	{"\tsize mismatch for a.weight: copying a param with shape torch.Size([320, 768]) from checkpoint, the shape in current model is torch.Size([768, 320]).", "size-mismatch", "load.size_mismatch", "transposed"},
	{"\tsize mismatch for a.weight: copying a param with shape torch.Size([8388608]) from checkpoint, the shape in current model is torch.Size([4096, 4096]).", "size-mismatch", "load.size_mismatch", "flat"},
	{"size mismatch for nothing in particular", "", "", ""},
	{"Unrecognized keys in `rope_scaling` for 'rope_type'='yarn': {'attn_factor'}", "rope-config", "load.rope_config", ""},
	{"`rope_scaling`'s factor field must be a float >= 1, got 8", "rope-config", "load.rope_config", ""},
	{"ValueError: `rope_scaling` must be a dictionary with two fields, `type` and `factor`, got {'rope_type': 'llama3'}", "rope-config", "load.rope_config", ""},
	{"The attention layers in this model are transitioning from computing the RoPE embeddings internally through `position_ids`", "", "", ""},
	{"Token indices sequence length is longer than the specified maximum sequence length for this model (5230 > 4096). Running this sequence through the model will result in indexing errors", "too-long", "load.sequence_too_long", "5230 tokens, the model knows 4096"},
	{"sequence is longer than usual", "", "", ""},
	{"A decoder-only architecture is being used, but right-padding was detected! For correct generation results, please set `padding_side='left'`", "padding", "load.padding_side", ""},
	{"The attention mask and the pad token id were not set. As a consequence, you may observe unexpected behavior.", "padding", "load.padding_side", ""},
	{"padding to a multiple of 8", "", "", ""},
	{"Special tokens have been added in the vocabulary, make sure the associated word embeddings are fine-tuned or trained.", "new-tokens", "load.new_tokens", ""},
	{"special tokens map loaded", "", "", ""},
	{"`torch.nn.functional.scaled_dot_product_attention` does not support `output_attentions=True`. Falling back to the manual attention implementation", "attention-fallback", "load.attention_fallback", ""},
	{"attention: flash_attention_2", "", "", ""},
}

func TestMatchersOnRealisticLines(t *testing.T) {
	for _, c := range lines {
		log := read(t, c.text+"\n")
		if got := ids(log.Hits); got != c.matchers {
			t.Errorf("%s\n  recognised %q, want %q", c.text, got, c.matchers)
			continue
		}
		if c.matchers == "" {
			continue
		}
		h := log.Hits[0]
		if h.Patterns[0] != c.pattern {
			t.Errorf("%s\n  first pattern %s, want %s", c.text, h.Patterns[0], c.pattern)
		}
		if !strings.Contains(h.Found[0].Note, c.note) {
			t.Errorf("%s\n  note %q, want %q in it", c.text, h.Found[0].Note, c.note)
		}
		if h.Found[0].Line != 1 || h.Count != 1 {
			t.Errorf("%s\n  line %d, count %d", c.text, h.Found[0].Line, h.Count)
		}
	}
}

// Every matcher is shown to match a line, and to leave one alone that passes
// its hints or comes near.
func TestEveryMatcherIsShownBothWays(t *testing.T) {
	shown, spared := map[string]bool{}, map[string]bool{}
	for i, c := range lines {
		for _, id := range strings.Fields(c.matchers) {
			shown[id] = true
		}
		if c.matchers == "" && i > 0 {
			// A negative line stands behind the matchers that it is near to.
			for j := i - 1; j >= 0; j-- {
				if lines[j].matchers != "" {
					for _, id := range strings.Fields(lines[j].matchers) {
						spared[id] = true
					}
					break
				}
			}
		}
	}
	for _, m := range Matchers() {
		if !shown[m.ID] {
			t.Errorf("no line shows %s", m.ID)
		}
		if !spared[m.ID] && m.ID != "nccl-watchdog" && m.ID != "rendezvous" {
			t.Errorf("no line is near %s and spared", m.ID)
		}
		if m.Says == "" || m.expr == nil || len(m.hints) == 0 {
			t.Errorf("%s is not complete", m.ID)
		}
	}
}

func TestPatternsOfTheTablesExist(t *testing.T) {
	check := func(where, id string) {
		if _, ok := catalog.Get(id); !ok {
			t.Errorf("%s: no pattern %s", where, id)
		}
	}
	for _, m := range Matchers() {
		for _, id := range m.Patterns {
			check(m.ID, id)
		}
	}
	for _, r := range rules {
		for _, id := range r.patterns {
			check(r.why, id)
		}
	}
	for _, c := range lines {
		for _, h := range read(t, c.text).Hits {
			for _, id := range h.Patterns {
				check(c.text, id)
			}
		}
	}
}

func TestAMatcherRefusesLinesWithoutItsHints(t *testing.T) {
	for _, m := range Matchers() {
		for _, alternatives := range m.hints {
			for _, h := range alternatives {
				if h != strings.ToLower(h) || h == "" {
					t.Errorf("%s: hint %q is not lower case", m.ID, h)
				}
			}
		}
	}
}

func TestATimeoutDuringASaveIsASave(t *testing.T) {
	watchdog := "[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600010 milliseconds before timing out.\n"
	first := func(text string) string { return read(t, text).Hits[0].Patterns[0] }
	for _, c := range []struct{ before, want, reason string }{
		{"Saving checkpoint to out/step_100\n", "hang.checkpoint_save", "announced and not done"},
		{"saving model weights\n" + strings.Repeat("progress\n", 100), "hang.checkpoint_save", "some lines ago"},
		{"Saving checkpoint to out/step_100\nSaved checkpoint to out/step_100\n", "hang.nccl_timeout", "it was done"},
		{"Saving checkpoint to out\n" + strings.Repeat("step\n", 2*savingFor), "hang.nccl_timeout", "long ago"},
		{"step 100\n", "hang.nccl_timeout", "no save"},
	} {
		if got := first(c.before + watchdog); got != c.want {
			t.Errorf("%s: %s, want %s", c.reason, got, c.want)
		}
	}
}
