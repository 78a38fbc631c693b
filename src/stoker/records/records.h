// The records of a run: the trainer writes them, diagnose/torch_trace makes them of other programs' traces, and the
// rules in diagnose/ read nothing else. docs/records.md describes their lines. A value that was not measured is empty,
// never 0.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/records/account.h"
#include "stoker/records/stages.h"

namespace stoker {

inline constexpr int kRecordsSchema = 1;
inline constexpr std::string_view kOwnWriter = "stoker";    // RunFacts::writer of Stoker's own runs
inline constexpr std::string_view kPythonWriter = "torch";  // python -m stoker watch

// The machine that a rank runs on.
struct HostFacts {
    std::optional<double> cores = {};  // that the process may use: affinity and the container's quota, e.g. 1.5
    std::optional<int> affinity = {};  // cores that it may run on; the counters' shares are of these
    std::optional<int> ranks = {};     // processes of this run on the host; they share the cores
    std::optional<std::int64_t> memory_bytes = {};  // that the process may use
    std::optional<bool> avx512_vbmi2 = {};          // instructions that the decoder of dct records uses
    std::string processor = {};                     // "model name" of /proc/cpuinfo
};

// Releases of the programs that ran. Empty: unknown.
struct SoftwareFacts {
    std::string stoker = {};
    std::string torch = {};   // with its build: "2.11.0+cu130"
    std::string cuda = {};    // of torch
    std::string python = {};  // of a watched program

    bool empty() const { return stoker.empty() && torch.empty() && cuda.empty() && python.empty(); }
};

struct DeviceFacts {
    std::string type = "cpu";  // cpu | cuda
    std::string name = {};     // "NVIDIA H100 80GB HBM3"
    int count = 1;             // devices that this process uses
    std::optional<std::int64_t> memory_bytes = {};
    std::optional<int> compute_major = {};  // compute capability, its first number
    std::optional<bool> tensor_cores = {};
    std::optional<double> fp32_flops = {};    // a second, measured with a product of two matrices
    std::optional<double> bf16_speedup = {};  // of the same product in bf16
    std::optional<double> half_speedup = {};  // a run on a CPU in bf16 or fp16: how a product in it compares to fp32
};

struct DataFacts {
    std::string path = {};
    std::string format = {};   // "image folder", "stk", ...
    std::string codec = {};    // of the first sample: "jpeg", "png", "dct", ...; empty: no encoded images
    std::string storage = {};  // the kind (storage_name in monitor/storage.h); empty: unknown
    std::optional<std::int64_t> samples = {};
    std::optional<double> sample_bytes = {};  // stored bytes of a sample, mean over a few
    std::optional<double> image_bytes = {};   // bytes of a sample in the batch
    std::string loader = {};                  // of a watched program: "DataLoader" or "stoker.Loader"
    std::optional<bool> iterable = {};        // of a watched program: a stream that each worker reads whole
    std::optional<int> workers = {};          // 0: the training thread loads
    std::optional<int> prefetch = {};
    std::optional<bool> pinned = {};
    std::optional<bool> persistent = {};  // worker processes live on from epoch to epoch
    std::optional<bool> shuffle = {};     // of a watched program; empty: its own sampler decides
    std::optional<bool> drop_last = {};   // likewise
    std::string cache = {};               // none | ram | disk | device
    std::string decode = {};
    std::string decode_on = {};  // cpu | device | auto: both
    std::string place = {};      // of a watched program: the place of its training loader, "train.py:41"
    // A watched program: the rate of stoker.Loader on the same data, measured after the program's end.
    std::optional<double> stoker_samples_per_second = {};
};

struct TrainFacts {
    std::string model = {};
    std::optional<std::int64_t> parameters = {};
    std::optional<std::int64_t> batch_size = {};  // over all ranks
    std::optional<std::int64_t> steps_per_epoch = {};
    std::optional<std::int64_t> val_samples = {};
    std::optional<int> epochs_per_evaluation = {};
    std::string precision = {};  // fp32 | tf32 | bf16 | fp16
    std::string optimizer = {};
    std::string optimizer_kernel = {};  // single | foreach | fused
    std::string compiled = {};          // as Step::compiled
    std::optional<int> accumulate = {};
    std::optional<int> threads = {};  // LibTorch's
    std::optional<double> thread_speedup =
        {};                                   // of a watched program on a CPU: in small operations, against one thread
    std::optional<double> matmul_flops = {};  // of this rank's layers in a step, forward and backward
    std::string stages =
        {};  // of a model that is divided into stages: their blocks, "fc1 to fc3 (4.1 ms) | fc4 (3.9 ms)"
    std::string pipeline = {};     // 1f1b | gpipe, of a model that is divided into stages
    std::string collectives = {};  // nccl | gloo, through which tensors of several ranks go
    // A watched program: the places of its optimizer, its evaluation and its checkpoints.
    std::string optimizer_place = {};
    std::string evaluation_place = {};
    std::string val_loader_place = {};
    std::optional<int> val_workers = {};
    std::string checkpoint_place = {};
};

struct RunFacts {
    std::string writer = {};   // "stoker", "torch.profiler"; "torch": python -m stoker watch
    std::string program = {};  // of a watched program: the file's name
    int rank = 0;
    int world_size = 1;
    SoftwareFacts software = {};
    HostFacts host = {};
    DeviceFacts device = {};
    DataFacts data = {};
    TrainFacts train = {};
};

// One optimizer step of one rank.
struct StepEntry {
    std::int64_t step = 0;   // from 1
    std::int64_t epoch = 0;  // from 1; 0: unknown
    bool warm_up = false;    // one of a trace's first steps, which are not judged; the profile leaves it out
    std::optional<std::int64_t> samples = {};
    StepRecord host = {};                         // the training thread, by phase
    std::optional<int> ready = {};                // finished batches in the ring when the step asked for its own
    std::optional<std::int64_t> copy_bytes = {};  // copied to the device
    std::optional<double> loss = {};              // mean over the batch; NaN if it has diverged
    std::optional<double> lr = {};
};

// A place where the training thread waited for the device.
struct SyncEntry {
    std::string place = {};  // "train.py:41", "aten::item", "losses"
    std::int64_t count = 0;
    double us = 0;
    std::optional<double> idle_us = {};  // for which the GPU had nothing to do, during it and until its next work
};

// A line of the program on which the training thread spent time outside its waits for batches.
struct LineEntry {
    std::string place = {};               // "train.py:41"
    std::optional<double> per_step = {};  // how often it runs in a step
    double us = 0;                        // sampled
};

// What one process and its host did over some steps: differences of counters.
struct IntervalEntry {
    std::int64_t first_step = 0;  // 1-based, inclusive
    std::int64_t last_step = 0;
    double seconds = 0;
    StepRecord host = {};                    // sum over the steps
    std::optional<StageTimes> workers = {};  // sum over the loader's workers
    std::vector<SyncEntry> syncs = {};
    std::optional<double> after_us = {};      // of `syncs`, waits that no step holds: after the last one of an epoch
    std::optional<double> start_us = {};      // of the phase `wait`, in which worker processes started or ended
    std::optional<double> core_wait_us = {};  // the training thread was ready to run and had no core
    std::vector<LineEntry> lines = {};
    // This process.
    std::optional<double> user_seconds = {};  // CPU time
    std::optional<double> system_seconds = {};
    std::optional<std::int64_t> rss_bytes = {};   // at the end
    std::optional<std::int64_t> read_bytes = {};  // from storage, past the page cache
    std::optional<std::int64_t> major_faults = {};
    std::optional<std::int64_t> device_bytes = {};  // most that tensors took since the process began
    std::optional<double> gpu_done_us = {};         // after the last step: the GPU had done all its work, at the latest
    std::optional<double> gpu_busy_us = {};         // after the last step: it still had work to do
    // The GPU at the end, read once a second at most.
    std::optional<int> gpu_celsius = {};
    std::optional<double> gpu_clock_share = {};  // of the highest clock of its multiprocessors
    std::string gpu_clock_limit = {};            // what holds the clock back: "power limit, temperature"
    // The host: shares of the time of its cores, in [0, 1].
    std::optional<double> busy_share = {};
    std::optional<double> iowait_share = {};
    std::optional<double> steal_share = {};
    std::optional<double> throttled_share = {};  // of the periods of the container's quota, in which it was used up
    std::optional<double> swap_in_bytes_per_second = {};
};

// One pass over the validation data.
struct EvaluationEntry {
    std::int64_t step = 0;  // after which it ran
    std::optional<std::int64_t> samples = {};
    StepRecord host = {};  // the training thread within the evaluation; its own phases are wait, copy, forward
    std::optional<StageTimes> workers = {};
};

// A figure of an evaluation, such as the accuracy.
struct Metric {
    std::string name;
    double value = 0;  // shares are in [0, 1]; NaN if it was not a number
    bool higher_is_better = true;

    bool better_than(const Metric& other) const { return higher_is_better ? value > other.value : value < other.value; }
};

// The share of their steps in which the stages of a model (train.mesh.pp) wait for each other.
struct Bubble {
    double formula = 0;          // of the schedule, with stages that take equally long
    std::vector<double> stages;  // measured on each
};

struct EpochResult {
    std::int64_t epoch = 0;        // from 1
    std::int64_t step = 0;         // the epoch's last; 0 in a checkpoint and in a run's document
    double seconds = 0;            // first wait to the end of the last optimiser step; no evaluation, no checkpoints
    double images_per_second = 0;  // of all ranks, over `seconds`
    double train_loss = 0;         // mean over the epoch's samples; NaN if it has diverged
    std::optional<double> val_loss = {};
    std::optional<double> val_accuracy = {};       // share in [0, 1]
    std::optional<double> val_top5_accuracy = {};  // with more than five classes
    std::vector<Metric> val_metrics = {};          // of the task, the main one first; empty if not evaluated
    std::int64_t bad_samples = 0;                  // training samples that were replaced
    std::int64_t val_bad_samples = 0;              // validation samples that were replaced
    std::optional<Bubble> bubble = {};             // of a model that is divided into stages
};

// An operator of a profile, by name.
struct OperatorEntry {
    std::string name = {};  // "aten::addmm"
    std::int64_t count = 0;
    double self_us = 0;    // host time without the operators that it calls
    double device_us = 0;  // of the kernels that it launched
    std::int64_t kernels = 0;
    std::string shapes = {};  // "[[256, 784], [784, 128]]"; empty: not recorded
    std::string types = {};   // "["float", "float"]"
    std::string range = {};   // the innermost named range around it: "Optimizer.step#SGD.step"
    std::string place = {};   // of the call, if the stack was recorded: "train.py:41"
};

// Operators in a row that something faster could replace, summed over their occurrences at one place.
struct SequenceEntry {
    std::string kind = {};   // "indexing loop", "conv bias before batch norm", "filled on the host, then copied"
    std::int64_t count = 0;  // iterations of loops; occurrences of the others
    double us = 0;           // host time of the operators; of "conv bias", the GPU's time for adding the bias
    std::string place = {};
};

// Host-device copies of one kind.
struct CopyEntry {
    std::string kind = {};  // "HtoD", "DtoH", "DtoD"
    bool pageable = false;
    std::int64_t count = 0;
    std::int64_t bytes = 0;
    double us = 0;
    double overlapped_us = 0;  // while kernels computed
};

struct CollectiveEntry {
    std::string name = {};     // "nccl:all_reduce"
    std::string backend = {};  // nccl | gloo
    bool on_device = false;    // of tensors on a GPU
    bool half = false;         // of numbers of 16 bits, if the kernel's name has their type
    std::int64_t count = 0;
    double us = 0;
    double exposed_us = 0;  // while nothing computed
};

// How a GPU spent a span.
struct GpuTimes {
    struct Idle {  // of one stream
        std::int64_t stream = 0;
        double host_wait_us = 0;    // the host had not launched the next kernel yet
        double kernel_wait_us = 0;  // the usual gap between two kernels
        double other_us = 0;        // a wait for other streams and unknown causes
    };
    double compute_us = 0;
    double non_compute_us = 0;  // communication and memory operations that overlap no computation
    double idle_us = 0;
    std::vector<Idle> idle = {};

    double span_us() const { return compute_us + non_compute_us + idle_us; }
    double busy() const { return span_us() > 0 ? 1 - idle_us / span_us() : 0; }
};

// The work of a GPU in a profile.
struct GpuEntry {
    GpuTimes times = {};  // of the profile's steps
    GpuTimes hta = {};    // as HTA's breakdown defines it: rounded, from the first kernel to the end of the last
    std::int64_t kernels = 0;
    std::int64_t graph_kernels = 0;  // of them those that a CUDA graph launched, but the first of each launch
    double kernel_us = 0;            // sum of durations
    double tensor_core_us = 0;
    std::optional<double> launch_delay_us = {};  // median from the launch call to the kernel's start
};

// A profile of some steps, which adds to the account. Times are those within the steps.
struct ProfileEntry {
    double span_us = 0;
    std::int64_t steps = 0;       // that were profiled; 0: those of the rank
    bool operators_only = false;  // neither steps nor ranges, such as the loader's, were recorded
    std::vector<OperatorEntry> operators = {};
    std::vector<CopyEntry> copies = {};
    std::vector<SyncEntry> syncs = {};
    std::vector<CollectiveEntry> collectives = {};
    std::vector<SequenceEntry> sequences = {};
    std::optional<GpuEntry> gpu = {};
    // The GPU's idle time by what the training thread did meanwhile.
    std::optional<PhaseTimes> idle_during = {};
    // The part of it before work that had been launched already, as between the kernels of a CUDA graph.
    std::optional<PhaseTimes> queued_during = {};
};

// A function of a Python program in some steps under cProfile.
struct FunctionEntry {
    std::string name = {};   // "forward", "{method 'run_backward' of 'torch._C._EngineBase' objects}"
    std::string place = {};  // "train.py:41"; empty: built in
    std::int64_t count = 0;
    double self_us = 0;   // without the functions that it calls
    double total_us = 0;  // with them
};

struct FunctionProfile {
    std::int64_t steps = 0;  // that were profiled
    std::vector<FunctionEntry> functions = {};
};

// Everything that is known of one rank.
struct RankRecords {
    RunFacts facts = {};
    std::vector<StepEntry> steps = {};  // ascending
    std::vector<IntervalEntry> intervals = {};
    std::vector<EvaluationEntry> evaluations = {};
    std::optional<StepRecord> total = {};  // the training thread from the run's start, also between epochs
    std::optional<ProfileEntry> profile = {};
    std::optional<FunctionProfile> functions = {};
};

struct RunRecords {
    std::string kind = "run";                        // run | trace
    std::vector<RankRecords> ranks = {};             // at least one, by rank
    std::map<std::string, std::string> recipe = {};  // dotted key -> TOML value; empty: unknown
    std::vector<std::string> problems = {};          // what could not be read, a sentence each
};

}  // namespace stoker
