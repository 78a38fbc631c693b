// The same advice for every audience: a sentence, and a line of PyTorch. The other tables differ for one audience.
#include <algorithm>
#include <array>

#include "stoker/diagnose/advice/tables.h"

namespace stoker {
namespace {

// A trace says nothing of the host, so that the program has to ask for its share of the cores.
std::string loader_of_trace(const Case& c) {
    return std::string(
               "import os  # a container's CPU quota may allow fewer\n"
               "cores = max(1, len(os.sched_getaffinity(0)) // int(os.environ.get(\"LOCAL_WORLD_SIZE\", 1)))\n") +
           (c.is("alone") ? "DataLoader(..., num_workers=cores, persistent_workers=True, pin_memory=True)"
                          : "DataLoader(..., num_workers=cores, prefetch_factor=4)\n# python -m stoker watch train.py: "
                            "what the workers do, and how fast stoker.Loader reads the same images");
}

std::string full_memory(const Case& c) {
    const int ranks = std::max(1, c.rank.facts.host.ranks.value_or(1));
    return (ranks > 1 ? "The " + std::to_string(ranks) + " processes of this host use about" : "The process uses") +
           filled(" {memory_share:.0f} % of the memory that ", c) + (ranks > 1 ? "they" : "it") + " may use" +
           (c.is("thrashes") ? ", and pages come back from the disk all the time" : "") +
           ". Lower data.cache_bytes, data.prefetch or data.batch_size.";
}

// What to write instead of what waits. In each step GradScaler reads whether a gradient overflowed; a fused optimizer
// reads it on the GPU.
std::string sync_code(const Case& c) {
    const auto waits_in = [&](std::string_view name) { return c.finding.place.find(name) != std::string::npos; };
    constexpr std::array<std::string_view, 4> kSizes = {"nonzero", "masked_select", "unique", "aten::index"};
    if (std::ranges::any_of(kSizes, waits_in)) {
        return "y = torch.where(mask, x, 0)  # sizes that depend on values are waited for: x[mask], nonzero(), "
               "unique()";
    }
    if (!waits_in("grad_scaler.py")) {
        return "total_loss += loss.detach()  # and total_loss.item() every 50 steps only";
    }
    if (waits_in("(get_scale)")) {
        return "if step % 50 == 0: scaler.get_scale()  # it reads the scale back from the GPU";
    }
    return faster_kernel(c.rank) == "fused"
               ? filled(
                     "torch.optim.{optimizer}(..., fused=True)  # GradScaler then reads nothing back; bf16 needs no "
                     "scaler",
                     c)
               : "torch.autocast(\"cuda\", torch.bfloat16)  # needs no GradScaler, which reads back in each step";
}

constexpr const char* kTwiceTheBatch = "DataLoader(..., batch_size=2 * batch_size)  # choose the learning rate again";
constexpr const char* kWholeTensor = "y = f(x)  # instead of torch.stack([f(x[i]) for i in range(len(x))])";

constexpr std::array kRows = {
    // The input.
    Row{"no-workers",
        "The training thread loads the data itself, which takes {wait_share:.0f} % of its time. Let {useful_workers} "
        "do it.",
        "DataLoader(..., num_workers={useful}, persistent_workers=True)"},
    Row{"worker-startup",
        "Worker processes start and end with each epoch, which takes {start_share:.0f} % of the time. Keep them.",
        "DataLoader(..., persistent_workers=True)"},
    Row{"few-workers",
        "{loader_workers} cannot keep up: the trainer waits for {wait_share:.0f} % of its time while {free_cores:.1f} "
        "of {cores:.0f} cores are free. Use {useful}.",
        "DataLoader(..., num_workers={useful})"},
    Row{"no-prefetch",
        "The trainer waits for {wait_share:.0f} % of its time although the workers are idle for {idle:.0f} % of "
        "theirs: a queue of {queue} is too short.",
        "DataLoader(..., prefetch_factor=4)"},
    Row{"cold-cache",
        [](const Case& c) {
            return std::string(
                       "The first epoch waits much longer for its data than the later ones, which find them in "
                       "memory.") +
                   (is_packed(c.rank) ? "" : " A packed data set shortens the first epoch.");
        }},
    Row{"input-bound/alone",
        "The training thread loads the data itself, which costs {lost_share:.0f} % of the time. Let worker processes "
        "do it.",
        loader_of_trace},
    Row{"input-bound",
        "Waiting for the next batch costs {lost_share:.0f} % of the time. Raise num_workers while cores are free; else "
        "make loading cheaper: stoker.Loader for images, packed files, a cache.",
        loader_of_trace},
    // The host.
    Row{"many-workers/processes",
        "{workers:.0f} worker processes share {cores:.0f} cores. Starting and ending them takes {start_share:.0f} % of "
        "the time, and the training thread waits for a core in {core_wait_share:.0f} % of it. Use {useful}."},
    Row{"many-workers",
        "{workers:.0f} workers share {cores:.0f} cores, which are all busy: they bring no more than {useful} would, "
        "and each takes memory.",
        "DataLoader(..., num_workers={useful})"},
    Row{"memory-pressure", full_memory, "a smaller cache, prefetch or batch"},
    Row{"cpu-throttled",
        "The container's CPU quota stopped the process in {throttled_share:.0f} % of the quota's periods. Raise the "
        "quota, or use fewer workers and threads.",
        "docker run --cpus N ...; Kubernetes: resources.limits.cpu"},
    Row{"cpu-steal", "The hypervisor gave {steal_share:.0f} % of the cores' time to other machines.",
        "use an instance with dedicated cores"},
    Row{"oversubscription",
        "Torch's {threads} threads wait for each other, because something else wants their cores: a small operation "
        "takes {thread_slowdown:.0f} times as long as on one thread. Train with one thread.",
        "torch.set_num_threads(1)  # or OMP_NUM_THREADS=1 in the environment"},
    Row{"other-processes",
        "Other processes took {others_share:.0f} % of the cores' time, and no core was free. Stop them, or measure "
        "again when they are done.",
        "stoker top"},
    Row{"slow-precision",
        "The model trains in {precision}, in which a product of matrices takes {half_slowdown:.1f} times as long on "
        "this CPU as in fp32. Train in fp32.",
        "outputs = model(inputs)  # without torch.autocast, with a model in float32"},
    // The run.
    Row{"frequent-evaluation",
        "Evaluations take {evaluate_share:.0f} % of the time. Evaluate every {wanted} epochs, or on fewer samples.",
        "evaluate every {wanted} epochs"},
    Row{"frequent-checkpoints",
        "{checkpoints:.0f} checkpoints take {checkpoint_share:.0f} % of the time. Write them less often.",
        "save less often"},
    Row{"small-batch",
        "With {samples} samples a step in all, at least {fixed_share:.0f} % of the time does not depend on the batch. "
        "A batch of {wanted} needs fewer steps; the learning rate must then be chosen again.",
        "a larger batch_size"},
    Row{"uneven-steps/anew",
        "{slow_steps:.0f} of {steps} steps took more than three times the median, and cost {lost_share:.0f} % of the "
        "time. Most are the first of an epoch, in which the workers begin anew.",
        "DataLoader(..., persistent_workers=True)"},
    Row{"uneven-steps/epochs",
        "{slow_steps:.0f} of {steps} steps took more than three times the median, and cost {lost_share:.0f} % of the "
        "time. Most are the first of an epoch."},
    Row{"uneven-steps",
        "{slow_steps:.0f} of {steps} steps took more than three times the median, and cost {lost_share:.0f} % of the "
        "time."},
    // The GPU.
    Row{"pageable-copy/watched",
        "The training thread copies batches to the GPU for {copy_share:.0f} % of the time, from memory that is not "
        "pinned, which blocks it. Copy from pinned memory."},
    Row{"pageable-copy",
        "The GPU is idle for {lost_share:.0f} % of the time while batches are copied from pageable memory, which "
        "blocks the host. Copy from pinned memory.",
        "DataLoader(..., pin_memory=True); batch = batch.to(device, non_blocking=True)"},
    Row{"copy-not-overlapped",
        "Copies to the GPU take {exposed_share:.0f} % of the time while no kernel runs. Copy the next batch on a "
        "stream of its own.",
        "# of DataLoader(..., pin_memory=True)\n"
        "with torch.cuda.stream(copy_stream): next_batch = batch.to(device, non_blocking=True)"},
    Row{"sync-points",
        "The host waits for the GPU {syncs_per_step:.1f} times in a step, mostly in {place}, and the GPU then has "
        "nothing to do for {lost_share:.0f} % of the time. Keep such values on the GPU and read them every 50 steps.",
        sync_code},
    Row{"launch-bound/ahead",
        "The host needs longer for a step than the GPU: forward, backward and optimizer take it {host_share:.0f} % of "
        "the time, and when a step ends, the GPU has done its work. Capture the step as a CUDA graph, or use a larger "
        "batch."},
    Row{"launch-bound/done",
        "The host needs longer for a step than the GPU: forward, backward and optimizer take it {host_share:.0f} % of "
        "the time, and where it waits for the GPU ({place}), the GPU is done after {wait_us:.0f} us. Capture the step "
        "as a CUDA graph, or use a larger batch."},
    Row{"launch-bound/graphs",
        "The GPU waits for launches for {lost_share:.0f} % of the time: {kernels_per_step:.0f} kernels in a step, of "
        "{kernel_us:.0f} us each, are shorter than the host needs to launch them. CUDA graphs launch most of them: "
        "capture the rest of the step in the same graph, or use a larger batch.",
        "with torch.cuda.graph(graph): ...  # one for forward, backward and optimizer"},
    Row{"launch-bound",
        "The GPU waits for launches for {lost_share:.0f} % of the time: {kernels_per_step:.0f} kernels in a step, of "
        "{kernel_us:.0f} us each, are shorter than the host needs to launch them. Capture the step as a CUDA graph, or "
        "use a larger batch.",
        "model = torch.compile(model, mode=\"reduce-overhead\")"},
    Row{"fp32-on-tensor-cores/fp16",
        {},
        "with torch.autocast(\"cuda\", torch.float16): ...  # with torch.amp.GradScaler"},
    Row{"fp32-on-tensor-cores",
        "Matrix products and convolutions take {eligible_share:.0f} % of the time in fp32, and the tensor cores are "
        "unused. Train with mixed precision.",
        "with torch.autocast(\"cuda\", torch.bfloat16): ..."},
    Row{"gpu-idle/queued",
        "The GPU works for {busy_share:.0f} % of the time. For {queued_share:.0f} % it waits before kernels that are "
        "launched already, as between those of a CUDA graph: larger batches make them longer.",
        kTwiceTheBatch},
    Row{"gpu-idle",
        "The GPU works for {busy_share:.0f} % of the time. It is idle mostly while the host is in the phase "
        "\"{place}\" ({largest_cause_share:.0f} %): begin there.",
        "torch.profiler.profile(..., with_stack=True)  # shows what the host does meanwhile"},
    Row{"cudnn-search",
        "cuDNN tries algorithms again and again: {kernels_per_convolution:.0f} kernels in each convolution, at "
        "{input_sizes:.0f} input sizes. Turn the search off, or pad the inputs to a few sizes.",
        "torch.backends.cudnn.benchmark = False"},
    Row{"memory-headroom/unused",
        "Only {memory_share:.0f} % of the GPU's memory was in use: a larger batch fits, with another learning rate.",
        kTwiceTheBatch},
    Row{"memory-headroom/recompute",
        "{memory_share:.0f} % of the GPU's memory was in use: a slightly larger batch ends the run. Recompute "
        "activations (gradient checkpointing), or train in mixed precision or in smaller parts of a batch.",
        "torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)"},
    Row{"memory-headroom",
        "{memory_share:.0f} % of the GPU's memory was in use: a slightly larger batch ends the run. Train in mixed "
        "precision or in smaller parts of a batch.",
        "for part in x.chunk(2): (loss(model(part)) / 2).backward()"},
    Row{"gpu-throttled",
        [](const Case& c) {
            return filled(
                       "The GPU's clock is held back to {clock_share:.0f} % of its maximum in {throttled_share:.0f} % "
                       "of the time, by: {place}",
                       c) +
                   (c.evidence("celsius") > 0 ? filled(" ({celsius:.0f} C)", c) : "") +
                   ". Fix its cooling or its power.";
        },
        "nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER  # then: vents, fans, other load, power supply"},
    // Operators.
    Row{"odd-sizes/samples", {}, "DataLoader(..., batch_size)  # {wanted} samples or tokens instead of {size:.0f}"},
    Row{"odd-sizes/sequence",
        {},
        "F.scaled_dot_product_attention(q, k, v)  # or pad sequences from {size:.0f} to {wanted}"},
    Row{"odd-sizes",
        "Matrix products with sizes that are not multiples of 8, such as {place}, take {share:.0f} % of the time: "
        "tensor cores compute them slowly. Pad {size:.0f} to {wanted}.",
        "nn.Linear(..., {wanted})  # instead of {size:.0f}"},
    Row{"single-tensor-optimizer",
        "The optimizer takes {optimizer_share:.0f} % of the time, because it updates one tensor after the other. Use "
        "one that updates all at once.",
        "torch.optim.{optimizer}(model.parameters(), ..., {variant}=True)"},
    Row{"zeroed-grads",
        "optimizer.zero_grad() fills gradients with zeros for {share:.1f} % of the time, and the backward pass then "
        "adds to them. Drop them instead.",
        "optimizer.zero_grad(set_to_none=True)"},
    Row{"conv-bias-before-norm",
        "{convolutions_per_step:.0f} convolutions in a step add a bias that the next batch norm subtracts "
        "again{at_place}.",
        "nn.Conv2d(..., bias=False)"},
    Row{"filled-on-host",
        "{tensors_per_step:.1f} tensors in a step are filled on the host and copied to the GPU{at_place}, which takes "
        "{share:.1f} % of the time. Create them on the GPU.",
        "torch.zeros(..., device=device)"},
    Row{"indexing-loop",
        "A loop indexes a tensor element by element{at_place}: {iterations_per_step:.0f} times in a step, {share:.0f} "
        "% of the time. Write it as one operation on the whole tensor.",
        kWholeTensor},
    Row{"data-parallel",
        "One process drives {devices:.0f} GPUs with DataParallel, which copies the model in each step. Use one process "
        "for each GPU.",
        "torch.nn.parallel.DistributedDataParallel(model)  # started with torchrun"},
    // Python.
    Row{"python-loop",
        "A Python loop takes {loop_share:.0f} % of the time: {place} runs {iterations_per_step:.0f} times in a step. "
        "Write it as one operation on the whole tensor.",
        kWholeTensor},
    Row{"full-precision",
        "Matrix products and convolutions take {product_share:.0f} % of the time or more in fp32; this device computes "
        "them {bf16_speedup:.1f} times as fast in bf16. Train with mixed precision.",
        "with torch.autocast(\"{device}\", torch.bfloat16): loss = criterion(model(x), y)"},
    // Ranks.
    Row{"gloo-on-gpu",
        "Gradients on GPUs are reduced with gloo, which copies them to the host: {exposed_share:.0f} % of the time. "
        "Use NCCL.",
        "torch.distributed.init_process_group(\"nccl\")"},
    Row{"communication/stages",
        "Ranks wait for other stages of the model for {exposed_share:.0f} % of the time or more. With {parts} a batch, "
        "the first and the last leave stages idle: divide it into more.",
        "schedule = ScheduleGPipe(stage, n_microbatches=2 * n)  # of torch.distributed.pipelining"},
    Row{"communication/half",
        "Communication that no computation hides takes {exposed_share:.0f} % of the time. The numbers that are sent "
        "have 16 bits already: sum the gradients of several batches, or take larger ones (with another learning rate).",
        "with model.no_sync(): ...  # of DistributedDataParallel: in all but the last of N backward passes"},
    Row{"communication/shards",
        {},
        "MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16)  # of FullyShardedDataParallel"},
    Row{"communication",
        "Communication that no computation hides takes {exposed_share:.0f} % of the time. Send gradients of half the "
        "size, or take larger batches (with another learning rate).",
        "from torch.distributed.algorithms.ddp_comm_hooks import default_hooks\n"
        "model.register_comm_hook(None, default_hooks.bf16_compress_hook)  # of DistributedDataParallel"},
    Row{"straggler",
        "Rank {rank:.0f} needs {step_ms:.1f} ms of its own in a step, the others {other_step_ms:.1f} ms, and all wait "
        "for it. It loses most in the phase \"{place}\" ({cause_ms:.1f} ms).",
        "compare rank {rank:.0f}'s host with the others: its load, clocks, storage and data"},
};

}  // namespace

constinit const std::span<const Row> kEveryone = kRows;

}  // namespace stoker
